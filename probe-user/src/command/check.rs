//! `cowprobe check`: what this kernel and this user allow. Attaches each target
//! for real, one at a time, and leaves nothing.

use std::{io::Write, process::ExitCode};

use super::{GATE_FAILED, put, survey::Survey};
use crate::{
    kernel::Probes,
    model::{Need, TARGETS},
    view::{CheckRow, check_table},
};

/// Prints the table; succeeds if every required target can be traced.
pub(super) fn check(out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let survey = Survey::take()?;
    let mut problems = Vec::new();
    let traced = Probes::try_each(&survey.available()).unwrap_or_else(|error| {
        problems.push(error.to_string());
        TARGETS.iter().map(|_| None).collect()
    });
    let mut rows = Vec::with_capacity(TARGETS.len());
    let mut passed = true;
    for ((target, presence), traced) in TARGETS.iter().zip(&survey.presence).zip(traced) {
        let traceable = matches!(traced, Some(Ok(())));
        passed &= traceable || target.need != Need::Required;
        if let Some(Err(error)) = traced {
            let problem = error.to_string();
            // What holds for the user, not for a target, is said once.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        rows.push(CheckRow {
            target,
            presence,
            traceable,
        });
    }
    let mut text = check_table(&survey.identity, &survey.variant, &rows);
    if !survey.btrfs {
        problems.push(super::run::NOT_LOADED.to_owned());
    }
    for problem in problems {
        text.push_str(&problem);
        text.push('\n');
    }
    put(out, &text)?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(GATE_FAILED)
    })
}
