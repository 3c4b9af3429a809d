//! `cowprobe watch`: live tables until a signal or for a time, then totals.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::{
    signal::unix::SignalKind,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};

use super::{
    GATE_FAILED, event_loop,
    footing::Footing,
    say::remark,
    signals::{Signals, abort_on_second},
    survey::{Edges, Plan, Survey},
    targets::targets,
    written::interval_record,
};
use crate::{
    cli::WatchArgs,
    model::{Snapshot, Window},
    view::{Moment, Screen, histogram, size, times_table, totals_table, watch_head, watch_table},
};

/// Ends the watch; a second one ends it at once. INT is heard even where a script
/// started us in the background, which makes us ignore it.
const ENDING: [i32; 2] = [libc::SIGINT, libc::SIGTERM];

/// Shows tables on a terminal, or writes them a block (or a JSON document) an
/// interval.
pub(super) fn watch(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::make(targets(&args.targets)?, args.wait_for_module)?;
    let hist = args.hist.as_ref().map(|name| {
        let place = plan.targets.iter().position(|t| t.name() == *name);
        place.with_context(|| format!("--hist {name}: it is no target; add it with --probe {name}"))
    });
    let hist = hist.transpose()?;
    match event_loop()?.block_on(follow(args, plan, hist)) {
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
    footing: Footing,
    open: Snapshot,
}

async fn follow(args: &WatchArgs, mut plan: Plan, hist: Option<usize>) -> anyhow::Result<ExitCode> {
    let mut endings = Signals::listen(&ENDING).context("cannot listen for signals")?;
    let farewell = if screen_is_wanted(args) {
        Screen::LEAVE
    } else {
        ""
    };
    abort_on_second(&ENDING, farewell)?;
    let mut hangups = Signals::listen_unless_ignored(&[libc::SIGHUP])?;
    let mut prompts =
        Signals::listen(&[libc::SIGUSR1, SignalKind::window_change().as_raw_value()])?;
    let mut probes = plan.attach()?;
    let footing = Footing::read(&plan.presence);
    if let Some(refusal) = footing.refusal() {
        bail!(refusal);
    }
    let survey = Survey::of(&plan)?;
    if let Some(doubt) = survey.doubts().next() {
        bail!("{doubt}");
    }
    let open = probes.open()?;
    let begin = Instant::now();
    let screen = screen_is_wanted(args).then(Screen::take);
    let screen = screen.transpose().context("cannot draw")?;
    let shown = Shown {
        args,
        survey,
        hist,
        footing,
        open,
    };

    let period = Duration::from_millis(args.interval);
    let mut ticks = interval_at(begin + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = begin
        + args
            .duration
            .unwrap_or(Duration::from_secs(u64::from(u32::MAX)));
    let mut last = shown.open.clone();
    let mut before_last = last.clone();
    loop {
        let prompted = tokio::select! {
            biased;
            _ = endings.next() => break,
            _ = hangups.next() => break,
            () = sleep_until(end) => break,
            _ = ticks.tick() => false,
            signal = prompts.next() => {
                // A resized terminal is drawn again; a pipe has no size.
                if signal != libc::SIGUSR1 && screen.is_none() {
                    continue;
                }
                true
            }
        };
        let now = probes.snapshot()?;
        if !prompted {
            before_last = std::mem::replace(&mut last, now.clone());
        }
        shown.show(screen.as_ref(), &before_last, &now)?;
    }
    let close = probes.close()?;
    drop(screen);
    shown.totals(close)
}

impl Shown<'_> {
    fn show(
        &self,
        screen: Option<&Screen>,
        earlier: &Snapshot,
        now: &Snapshot,
    ) -> anyhow::Result<()> {
        let total = Window::whole(&self.open, now);
        let interval = Window::interval(earlier, now);
        if self.args.json {
            return put(&(interval_record(&self.survey, &interval, &total, false) + "\n"));
        }
        let (width, _) = size();
        let moment = Moment {
            targets: &self.survey.targets,
            presence: &self.survey.presence,
            total: &total,
            interval: &interval,
        };
        let mut text = watch_head(&self.survey.identity, &self.survey.variant, &total);
        text.push_str(&watch_table(&moment, width));
        text.push_str(&self.histogram(&total, width));
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

    fn totals(self, close: Snapshot) -> anyhow::Result<ExitCode> {
        let survey = &self.survey;
        let edges = Edges {
            later: Footing::read(&survey.presence),
            open: self.open.clone(),
            close,
            footing: self.footing.clone(),
        };
        let (total, found) = survey.judged(&edges);
        if self.args.json {
            put(&(interval_record(survey, &total, &total, true) + "\n"))?;
        } else {
            let mut text = watch_head(&survey.identity, &survey.variant, &total);
            text.push_str(&totals_table(&survey.targets, &survey.presence, &total));
            text.push('\n');
            text.push_str(&times_table(&survey.targets, &survey.presence, &total));
            text.push_str(&self.histogram(&total, size().0));
            put(&text)?;
        }
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

/// Whether tables are drawn over each other.
fn screen_is_wanted(args: &WatchArgs) -> bool {
    !args.json && io::stdout().is_terminal()
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
