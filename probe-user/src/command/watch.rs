//! `cowprobe watch`: live tables until a signal, for a time or while processes are
//! there, then totals.

use std::{
    io::{self, Write as _},
    pin::pin,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::{
    signal::unix::SignalKind,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};

use super::{
    GATE_FAILED,
    counting::{Counted, Counting},
    event_loop, expected, gate,
    ready::Ready,
    say::{remark, remark_detaching},
    scope::Scoping,
    signals::{Signals, abort_on_second},
    survey::{Plan, Survey},
    workload::Named,
    written::{Watched, interval_record},
};
use crate::{
    cli::WatchArgs,
    evidence::other_programs,
    model::{Expectation, Scope, Window},
    view::{Moment, Screen, histogram, size, times_table, totals_table, watch_head, watch_table},
};

/// Ends the watch; a second one ends it at once. INT is heard even where a script
/// started us in the background, which makes us ignore it.
const ENDING: [i32; 2] = [libc::SIGINT, libc::SIGTERM];

/// Shows tables on a terminal, or writes them a block (or a JSON document) an
/// interval.
pub(super) fn watch(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::make(&args.targets, args.wait_for_module)?;
    let hist = args.hist.as_ref().map(|name| {
        let place = plan.targets.iter().position(|t| t.name() == *name);
        place.with_context(|| format!("--hist {name}: it is no target; add it with --probe {name}"))
    });
    let hist = hist.transpose()?;
    let expectations = expected::parse(&args.judge.expect, &plan.targets)?;
    match event_loop()?.block_on(follow(args, plan, hist, expectations)) {
        Ok(code) => Ok(code),
        // A reader that went away has seen enough.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
    }
}

/// What a table or a document is made of.
struct Shown<'a> {
    args: &'a WatchArgs,
    survey: Survey,
    hist: Option<usize>,
}

async fn follow(
    args: &WatchArgs,
    mut plan: Plan,
    hist: Option<usize>,
    expectations: Vec<Expectation>,
) -> anyhow::Result<ExitCode> {
    let mut endings = Signals::listen(&ENDING).context("cannot listen for signals")?;
    abort_on_second(&ENDING, Screen::farewell)?;
    let mut hangups = Signals::listen_unless_ignored(&[libc::SIGHUP])?;
    let mut prompts =
        Signals::listen(&[libc::SIGUSR1, SignalKind::window_change().as_raw_value()])?;
    let ready = Ready::from(args.ready_fd)?;
    let named = Named::from(&args.scope)?;
    let scoping = Scoping::from(&args.scope);
    let mut counting = Counting::attach(&mut plan, named.workload(), scoping)?;
    let survey = Survey::of(&plan)?;
    if let Some(doubt) = survey.refusal() {
        bail!("{doubt}");
    }
    // What it costs is in all that follows; the screen hides it until the end.
    for line in other_programs(&survey.targets, &survey.others) {
        remark(format_args!("warning: {line}"));
    }
    counting.enable()?;
    let begin = Instant::now();
    ready.say()?;
    let drawn = !args.json && Screen::is_possible();
    let screen = drawn.then(Screen::take);
    let screen = screen.transpose().context("cannot draw")?;
    let shown = Shown { args, survey, hist };

    let period = Duration::from_millis(args.interval);
    let mut ticks = interval_at(begin + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = begin
        + args
            .duration
            .unwrap_or(Duration::from_secs(u64::from(u32::MAX)));
    let mut workload_ended = pin!(named.ended());
    let mut last = None;
    let mut before_last = None;
    loop {
        let prompted = tokio::select! {
            biased;
            _ = endings.next() => break,
            _ = hangups.next() => break,
            () = sleep_until(end) => break,
            ended = &mut workload_ended => {
                ended?;
                break;
            }
            _ = ticks.tick() => false,
            scope = counting.rescoped() => {
                scope?;
                continue;
            }
            signal = prompts.next() => {
                // A resized terminal is drawn again; a pipe has no size.
                if signal != libc::SIGUSR1 && screen.is_none() {
                    continue;
                }
                true
            }
        };
        let Some((open, now)) = counting.now()? else {
            bail!("the window is not open");
        };
        if !prompted {
            before_last = last.replace(now.clone());
        }
        let earlier = before_last.as_ref().unwrap_or(open);
        let (total, interval) = (Window::whole(open, &now), Window::interval(earlier, &now));
        let (total, interval) = (counting.scoped(&total), counting.scoped(&interval));
        let watched = Watched {
            interval: &interval,
            total: &total,
            scope: counting.scope(),
            last: false,
            causes: Vec::new(),
            warnings: shown.warnings(&counting),
        };
        shown.show(screen.as_ref(), watched)?;
    }
    let counted = counting.end();
    drop(screen);
    shown.totals(counted, expectations)
}

impl Shown<'_> {
    /// What is wrong already with counts that are shown.
    fn warnings(&self, counting: &Counting) -> Vec<String> {
        let others = other_programs(&self.survey.targets, &self.survey.others);
        counting.warnings().into_iter().chain(others).collect()
    }

    fn show(&self, screen: Option<&Screen>, watched: Watched<'_>) -> anyhow::Result<()> {
        if self.args.json {
            return put(&(interval_record(&self.survey, watched) + "\n"));
        }
        let (interval, total) = (watched.interval, watched.total);
        let what = what(watched.scope);
        let (width, _) = size();
        let moment = Moment {
            targets: &self.survey.targets,
            presence: &self.survey.presence,
            total,
            interval,
        };
        let mut text = watch_head(&self.survey.identity, &self.survey.variant, &what, total);
        text.push_str(&watch_table(&moment, width));
        text.push_str(&self.histogram(total, width));
        match screen {
            Some(screen) => Ok(screen.draw(&text)?),
            None => put(&(text + "\n")),
        }
    }

    fn histogram(&self, total: &Window, width: usize) -> String {
        let Some(place) = self.hist else {
            return String::new();
        };
        match &total.counts[place] {
            Some(counts) => format!(
                "\n{}",
                histogram(&self.survey.targets[place], &counts.latency, width)
            ),
            None => String::new(),
        }
    }

    fn totals(self, counted: Counted, expectations: Vec<Expectation>) -> anyhow::Result<ExitCode> {
        let survey = &self.survey;
        let detach_ns = counted.detach_ns;
        let scope = counted.scope.clone();
        let (total, mut found) = survey.judged(counted, gate(&self.args.judge));
        let total = total.context("no window was opened")?;
        let expected = expected::judge(expectations, Some(&total));
        found.causes.extend(expected::failures(&expected));
        if self.args.json {
            let watched = Watched {
                interval: &total,
                total: &total,
                scope: scope.as_ref(),
                last: true,
                causes: found.causes.clone(),
                warnings: found.warnings.clone(),
            };
            put(&(interval_record(survey, watched) + "\n"))?;
        } else {
            let what = what(scope.as_ref());
            let mut text = watch_head(&survey.identity, &survey.variant, &what, &total);
            text.push_str(&totals_table(&survey.targets, &survey.presence, &total));
            text.push('\n');
            text.push_str(&times_table(&survey.targets, &survey.presence, &total));
            text.push_str(&self.histogram(&total, size().0));
            put(&text)?;
        }
        remark_detaching(detach_ns);
        expected::successes(&expected).for_each(remark);
        for warning in &found.warnings {
            remark(format_args!("warning: {warning}"));
        }
        for cause in &found.causes {
            remark(cause);
        }
        let passed = found.causes.is_empty();
        Ok(if passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(GATE_FAILED)
        })
    }
}

/// What is counted.
fn what(scope: Option<&Scope>) -> String {
    scope.map_or_else(|| "every call on this machine".to_owned(), Scope::words)
}

/// Writes a whole block at once.
fn put(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
