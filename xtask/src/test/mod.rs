//! `cargo xtask test`: everything that must hold, on this machine and in guests.

mod guest;
mod host;
mod report;
mod suites;

use std::process::ExitCode;

use crate::step::Step;
use report::Report;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also what needs to be shown only once: all kernels, preemption modes and numbers of CPUs
    #[arg(long)]
    full: bool,
    /// Only the parts whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Runs every part, also after a failed one; always ends with a table and the line
/// `N passed, N failed, N skipped`.
pub(crate) fn run(args: &Args) -> ExitCode {
    let wanted = |name: &str| {
        args.only
            .as_ref()
            .is_none_or(|text| name.contains(text.as_str()))
    };
    let mut report = Report::default();
    let long = if args.full { host::LONG_PARTS } else { &[] };
    for (name, part) in host::PARTS.iter().chain(long) {
        if wanted(name) {
            let step = Step::start(format!("test: {name}"));
            part(report.part(*name));
            step.done();
        }
    }
    let suites = suites::all(args.full);
    let suites: Vec<_> = suites.iter().filter(|s| wanted(&s.name())).collect();
    if !suites.is_empty() {
        guest::run(&suites, &mut report);
    }
    report.finish()
}
