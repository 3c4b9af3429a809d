//! `cowprobe report`: what a record or a bundle says, for a mail to a list.

use std::{io::Write, process::ExitCode};

use anyhow::anyhow;

use super::{GATE_FAILED, put, say::say};
use crate::{
    cli::{Format, ReportArgs},
    evidence,
    view::{report_mail, report_markdown, report_tsv},
};

/// Prints it; fails if a gate did, and says which.
pub(super) fn report(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut report = evidence::report(&args.path).map_err(|why| anyhow!(why))?;
    if args.tested_by.is_some() && report.command.is_empty() {
        let why = "there is no record of a run that this was tested in";
        report.failed.push(why.to_owned());
    }
    if report.failed.is_empty() {
        report.tested_by.clone_from(&args.tested_by);
    }
    let text = match args.format {
        Format::Mail => report_mail(&report),
        Format::Markdown => report_markdown(&report),
        Format::Tsv => report_tsv(&report),
        Format::Json => serde_json::to_string_pretty(&report)? + "\n",
    };
    put(out, &text)?;
    if report.failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for failed in &report.failed {
        say(failed);
    }
    if args.tested_by.is_some() {
        say("so there is no Tested-by");
    }
    Ok(ExitCode::from(GATE_FAILED))
}
