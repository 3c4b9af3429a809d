//! `cowprobe run`: counts while a command runs, then reports.
//!
//! Where the record and the folder go is tried before anything else, and they are written
//! before anything is said.

use std::process::{ExitCode, ExitStatus};

use anyhow::Context as _;

use super::{
    COULD_NOT_RUN, GATE_FAILED,
    benched::{Benched, TimedLoops},
    event_loop, expected, gate,
    measure::{Beside, End, Measured, measure, signals},
    say::{print, remark, remark_detaching, say, was_lost},
    survey::{Plan, Survey},
    tee::{Streams, Tee},
    written::{Begun, Run, text},
};
use crate::{
    cli::RunArgs,
    evidence::{Draft, Findings, Output, Replaced, STREAMS},
    kernel::{host_name, identity},
    model::{Scope, Window},
    view::{times_table, totals_table},
    wording,
};

/// Runs the command under the probes. The table goes to standard error: standard
/// output is the command's.
pub(super) fn run(mut args: RunArgs) -> anyhow::Result<ExitCode> {
    let mut bench = None;
    if args.benched.bench {
        bench = Benched::of(&args)?;
        if bench.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let at = now();
    let output = args.output.as_deref().map(Output::open).transpose()?;
    let draft = draft(&args)?;
    let mut plan = Plan::make(&args.targets, args.wait_for_module)?;
    let expectations = expected::parse(&args.judge.expect, &plan.targets)?;
    let replaced = output.as_ref().filter(|_| args.checkpoint.is_some());
    let kept = Kept {
        checkpoints: replaced.map(Output::replaced).transpose()?,
        draft: draft.as_ref(),
    };
    let host_name = args.with_host_name.then(host_name).flatten();
    let begun = (&*at, host_name.as_deref());
    let (measured, timed) = match passes(&mut args, &mut plan, begun, bench.as_ref(), kept)? {
        Ok(passed) => passed,
        Err(status) => {
            let why = format_args!("the timed pass: {status}; nothing was counted");
            say(why);
            return Ok(ExitCode::from(End::Ended(status).code()));
        }
    };
    let mut survey = Survey::of(&plan)?;
    let Measured {
        end,
        wall_ns,
        mut counted,
        checkpointed,
        kept,
    } = measured;
    survey.filesystems.splice(0..0, counted.mounted.drain(..));
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
    let of_the_command = timed.cause.into_iter().chain(end.cause(&args.command));
    causes.splice(0..0, of_the_command);
    let code = match (end.code(), causes.is_empty()) {
        (0, true) => 0,
        (0, false) => GATE_FAILED,
        (code, _) => code,
    };
    let record = text(
        &survey,
        Run {
            begun: of(&args, begun),
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
        },
    );
    // Before anything is said: a reader that goes away costs no record.
    let written = output.map(|output| output.commit(&record));
    let folder = draft.map(|draft| {
        kept.context("the folder is lost: cannot keep what CMD printed")?;
        draft.commit(&record, &timed.rounds)
    });
    if let Some(window) = &window {
        show(&survey, window, windows.len(), scope.as_ref());
        remark_detaching(detach_ns);
    }
    expected::successes(&expected).for_each(remark);
    tell(&warnings, &causes, window.is_some());
    let checkpointed = checkpointed && matches!(written, Some(Err(_)));
    let is_kept = written.is_some() || folder.is_some();
    let lost = tell_lost([written, folder]);
    if checkpointed {
        remark("what was counted until the last checkpoint is there");
    }
    let code = match code {
        // The command's own failure still wins.
        _ if lost && end.code() == 0 => COULD_NOT_RUN,
        // Without a record nothing is left of the run.
        0 if !is_kept && was_lost() => COULD_NOT_RUN,
        code => code,
    };
    Ok(ExitCode::from(code))
}

/// What is kept beside the record.
#[derive(Debug)]
struct Kept<'a> {
    checkpoints: Option<Replaced>,
    draft: Option<&'a Draft>,
}

impl Kept<'_> {
    /// For one command; what a second prints goes after it.
    fn tee(&self) -> anyhow::Result<Option<(Tee, Streams)>> {
        let to = |draft: &Draft| {
            let [stdout, stderr] = STREAMS.map(|name| draft.path(name));
            Tee::to(&stdout, &stderr)
        };
        self.draft.map(to).transpose()
    }
}

/// Times a benchmark's loops, if there is one, and counts; an exit status is that of loops
/// that could not be timed.
fn passes(
    args: &mut RunArgs,
    plan: &mut Plan,
    begun: (&str, Option<&str>),
    bench: Option<&Benched>,
    kept: Kept<'_>,
) -> anyhow::Result<Result<(Measured, TimedLoops), ExitStatus>> {
    event_loop()?.block_on(async {
        let mut signals = signals()?;
        let mut timed = TimedLoops::default();
        if let Some(bench) = bench {
            remark("the loops are timed without probes, then counted");
            timed = match bench.time(&mut signals, kept.tee()?).await? {
                Ok(timed) => timed,
                Err(status) => return Ok(Err(status)),
            };
            // Where others probe there are times under probes already.
            let keep_times =
                args.benched.probed_times && timed.rounds.iter().all(|round| !round.probed);
            bench.count(args, keep_times);
        }
        let beside = Beside {
            signals: &mut signals,
            tee: kept.tee()?,
            checkpoints: kept.checkpoints,
        };
        let measured = measure(args, plan, of(args, begun), beside).await?;
        if let Some(bench) = bench {
            timed.rounds.extend(bench.counted_rounds()?);
        }
        Ok(Ok((measured, timed)))
    })
}

fn draft(args: &RunArgs) -> anyhow::Result<Option<Draft>> {
    let Some(place) = &args.bundle else {
        return Ok(None);
    };
    let identity = identity().context("cannot ask for the kernel's release")?;
    let tester = args.identity.as_deref();
    Draft::begin(place, &args.label, tester, &identity.release).map(Some)
}

fn of<'a>(args: &'a RunArgs, (at, host_name): (&'a str, Option<&'a str>)) -> Begun<'a> {
    Begun {
        argv: &args.command,
        at,
        host_name,
    }
}

fn show(survey: &Survey, window: &Window, windows: usize, scope: Option<&Scope>) {
    print("\n");
    if windows > 1 {
        print(&format!("{windows} windows\n\n"));
    }
    if let Some(scope) = scope {
        print(&format!("{}\n\n", scope.words()));
    }
    print(&totals_table(&survey.targets, &survey.presence, window));
    print("\n");
    print(&times_table(&survey.targets, &survey.presence, window));
}

/// What stands under a table is pasted with it; a run without one is one line.
fn tell(warnings: &[String], causes: &[String], tabled: bool) {
    for warning in warnings {
        remark(format_args!("warning: {warning}"));
    }
    for cause in causes {
        if tabled {
            remark(cause);
        } else {
            say(cause);
        }
    }
}

/// Whether anything that was to be kept was not.
fn tell_lost(kept: [Option<anyhow::Result<()>>; 2]) -> bool {
    let lost = kept.into_iter().flatten().filter_map(Result::err);
    lost.map(|error| say(wording::causes(&error))).count() > 0
}

/// The time, in UTC, to the second (RFC 3339).
fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
