//! `cowprobe run`: counts while a command runs, then reports.
//!
//! The record's file is tried before anything else, and written before anything is
//! said.

use std::process::ExitCode;

use super::{
    COULD_NOT_RUN, GATE_FAILED, event_loop, expected, gate,
    measure::{Measured, measure},
    say::{print, remark, remark_detaching, say, was_lost},
    survey::{Plan, Survey},
    written::{Begun, Run, text},
};
use crate::{
    cli::RunArgs,
    evidence::{Findings, Output},
    kernel::host_name,
    view::{times_table, totals_table},
    wording,
};

/// Runs the command under the probes. The table goes to standard error: standard
/// output is the command's.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let at = now();
    let host_name = args.with_host_name.then(host_name).flatten();
    let begun = Begun {
        argv: &args.command,
        at: &at,
        host_name: host_name.as_deref(),
    };
    let output = args.output.as_deref().map(Output::open).transpose()?;
    let mut plan = Plan::make(&args.targets, args.wait_for_module)?;
    let expectations = expected::parse(&args.judge.expect, &plan.targets)?;
    let replaced = output.as_ref().filter(|_| args.checkpoint.is_some());
    let replaced = replaced.map(Output::replaced).transpose()?;
    let measured = event_loop()?.block_on(measure(args, &mut plan, begun, replaced))?;
    let survey = Survey::of(&plan)?;
    let Measured {
        end,
        wall_ns,
        counted,
        checkpointed,
    } = measured;
    let (windows, detach_ns) = (counted.windows.clone(), counted.detach_ns);
    let scope = counted.scope.clone();
    let (window, found) = survey.judged(counted, gate(&args.judge));
    let Findings {
        mut causes,
        warnings,
    } = found;
    if windows.is_empty() && end.ran() {
        causes.push("no window was opened: nothing said 'enable'".to_owned());
    }
    let expected = expected::judge(expectations, window.as_ref());
    if end.ran() {
        causes.extend(expected::failures(&expected));
    }
    causes.splice(0..0, end.cause(&args.command));
    let code = match (end.code(), causes.is_empty()) {
        (0, true) => 0,
        (0, false) => GATE_FAILED,
        (code, _) => code,
    };
    // Before anything is said: a reader that goes away costs no record.
    let written = output.map(|output| {
        let run = Run {
            begun,
            end: Some(&end),
            wall_ns,
            windows: &windows,
            total: window.as_ref(),
            scope: scope.as_ref(),
            detach_ns,
            expected: &expected,
            code,
            causes: causes.clone(),
            warnings: warnings.clone(),
        };
        output.commit(&text(&survey, run))
    });
    if let Some(window) = &window {
        print("\n");
        if windows.len() > 1 {
            print(&format!("{} windows\n\n", windows.len()));
        }
        if let Some(scope) = &scope {
            print(&format!("{}\n\n", scope.words()));
        }
        print(&totals_table(&survey.targets, &survey.presence, window));
        print("\n");
        print(&times_table(&survey.targets, &survey.presence, window));
        remark_detaching(detach_ns);
    }
    expected::successes(&expected).for_each(remark);
    for warning in &warnings {
        remark(format_args!("warning: {warning}"));
    }
    for cause in &causes {
        // What stands under a table is pasted with it; a run without one is one line.
        match window {
            Some(_) => remark(cause),
            None => say(cause),
        }
    }
    if let Some(Err(error)) = written {
        say(wording::causes(&error));
        if checkpointed {
            remark("what was counted until the last checkpoint is there");
        }
        // The command's own failure still wins.
        let code = if end.code() == 0 { COULD_NOT_RUN } else { code };
        return Ok(ExitCode::from(code));
    }
    // Without a record nothing is left of the run.
    let nothing_left = args.output.is_none() && was_lost();
    let code = match code {
        0 if nothing_left => COULD_NOT_RUN,
        code => code,
    };
    Ok(ExitCode::from(code))
}

/// The time, in UTC, to the second (RFC 3339).
fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
