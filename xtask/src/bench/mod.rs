//! `cargo xtask bench`: figures that are printed and judged by nobody here.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

mod startup;

/// What is measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// From start to attached, detaching, memory and size, beside bpftrace in one guest
    Startup(startup::Args),
}

/// Measures in a guest and prints a table, or JSON.
pub(crate) fn run(bench: &Bench) -> Result<ExitCode> {
    match bench {
        Bench::Startup(args) => startup::run(args),
    }
}
