//! What is written down: the record, its form and its file.

mod output;
mod record;
mod warnings;

pub(crate) use output::Output;
pub(crate) use record::{
    BucketRecord, CheckRecord, CheckTargetRecord, CommandRecord, Exit, IdentityRecord,
    IntervalRecord, LatencyRecord, Record, TargetRecord, Tool, VariantRecord, WindowRecord,
};
pub(crate) use warnings::{Findings, findings};
