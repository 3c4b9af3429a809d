//! A bundle: a folder with a record, what follows from it, and the raw rounds of a
//! benchmark, in tables that a reviewer can compute again.

mod comparison;
mod draft;
mod facts;
mod folder;
mod follows;
mod manifest;
mod points;
mod recorded;
mod reported;
mod spread;
mod tables;
mod tsv;
mod verified;

#[cfg(test)]
mod tests;

pub(crate) use draft::{Draft, STREAMS, read_timed};
pub(crate) use manifest::sha256;
pub(crate) use reported::report;
pub(crate) use tables::Timed;
pub(crate) use tsv::text as table_text;
pub(crate) use verified::Verified;
