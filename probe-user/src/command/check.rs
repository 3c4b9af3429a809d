//! `cowprobe check`: what this kernel and this user allow. Attaches each target
//! for real, one at a time, and leaves nothing.

use std::{io::Write, process::ExitCode};

use super::{
    GATE_FAILED, footing::switched_off, put, survey::Survey, targets::targets,
    written::check_record,
};
use crate::{
    cli::CheckArgs,
    kernel::{
        Probes, has_btf, kprobes_armed, lockdown, missing_capabilities, needed_capabilities,
        perf_event_paranoid,
    },
    model::{CheckRow, Checked, Presence},
    view::check_table,
};

/// Prints what was found; succeeds if every required target can be traced.
pub(super) fn check(args: &CheckArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let survey = Survey::look(targets(&args.targets)?)?;
    let checked = look(&survey);
    let text = if args.json {
        check_record(&checked) + "\n"
    } else {
        let problems = checked.problems.iter().map(|p| format!("{p}\n"));
        problems.fold(check_table(&checked), |text, line| text + &line)
    };
    put(out, &text)?;
    Ok(if checked.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(GATE_FAILED)
    })
}

fn look(survey: &Survey) -> Checked<'_> {
    let mut problems = Vec::new();
    let mut note = |problem: String| {
        // What holds for the user, not for a target, is said once.
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    };
    let traced = Probes::try_each(&survey.available()).unwrap_or_else(|error| {
        note(error.to_string());
        survey.targets.iter().map(|_| None).collect()
    });
    let both = survey.targets.iter().zip(&survey.presence).zip(traced);
    let rows = both.map(|((target, presence), traced)| CheckRow {
        target,
        presence,
        traced: match traced {
            Some(Ok(losses)) => Some(losses),
            Some(Err(error)) => {
                note(error.to_string());
                None
            }
            None => None,
        },
    });
    let rows = rows.collect();
    let armed = kprobes_armed();
    let off = armed.as_ref().err().map(|switch| switched_off(switch));
    let missing = Survey::problem().map(str::to_owned);
    off.into_iter().chain(missing).for_each(note);
    let built_in = survey.presence.contains(&Presence::BuiltIn);
    Checked {
        identity: survey.identity.clone(),
        variant: survey.variant.clone(),
        lockdown: lockdown(),
        perf_event_paranoid: perf_event_paranoid(),
        needed_capabilities: needed_capabilities(),
        missing_capabilities: missing_capabilities(),
        kernel_btf: has_btf("vmlinux"),
        btrfs_btf: has_btf(if built_in { "vmlinux" } else { "btrfs" }),
        kprobes_armed: armed,
        rows,
        problems,
    }
}
