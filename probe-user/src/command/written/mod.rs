//! Turns what was surveyed and measured into the record.

mod identity;
mod target;

use std::{ffi::OsString, os::unix::process::ExitStatusExt as _};

pub(super) use self::identity::check_record;
use self::{
    identity::{filesystems, identity, scope},
    target::{others, target},
};
use super::{measure::End, survey::Survey};
use crate::{
    evidence::{
        CommandRecord, Exit, ExpectationRecord, IntervalRecord, Record, StretchRecord, Tool,
        WindowRecord, WindowTargetRecord,
    },
    kernel::object_sha256,
    model::{Brief, BriefCounts, Came, Classes, Expectation, Kinds, Scope, Target, Window},
    wording::plain,
};

/// Of every time in a record.
const CLOCK: &str = "CLOCK_MONOTONIC";

/// What `run` knows before it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun<'a> {
    pub(super) argv: &'a [OsString],
    /// In UTC (RFC 3339).
    pub(super) at: &'a str,
    /// If it was asked for.
    pub(super) host_name: Option<&'a str>,
}

/// What `run` knows when it is done.
pub(super) struct Run<'a> {
    pub(super) begun: Begun<'a>,
    /// `None` while the command runs: then this is a checkpoint.
    pub(super) end: Option<&'a End>,
    pub(super) wall_ns: u64,
    pub(super) windows: &'a [Brief],
    /// All of them together.
    pub(super) total: Option<&'a Window>,
    pub(super) scope: Option<&'a Scope>,
    pub(super) detach_ns: Option<u64>,
    pub(super) expected: &'a [(Expectation, Came)],
    pub(super) code: u8,
    pub(super) causes: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// The record of a run, as it is written.
pub(super) fn text(survey: &Survey, run: Run<'_>) -> String {
    serde_json::to_string_pretty(&record(survey, run)).expect("plain data") + "\n"
}

fn record(survey: &Survey, run: Run<'_>) -> Record {
    let untold = || Classes::Untold("nothing was counted".to_owned());
    let classes = run.total.map_or_else(untold, |w| w.classes.clone());
    let counts = |i: usize| run.total.and_then(|w| w.counts[i].as_ref());
    let here = survey.targets.iter().zip(&survey.presence).enumerate();
    Record {
        schema: Record::SCHEMA,
        complete: run.end.is_some(),
        tool: Tool {
            name: "cowprobe",
            version: env!("CARGO_PKG_VERSION"),
            argv: std::env::args_os()
                .map(|w| w.to_string_lossy().into_owned())
                .collect(),
            ebpf_sha256: object_sha256(),
        },
        started_at: run.begun.at.to_owned(),
        identity: identity(&survey.identity, &survey.variant, run.begun.host_name),
        filesystems: filesystems(&survey.filesystems, run.scope),
        command: command(&run),
        exit: run.end.map(|_| Exit {
            code: run.code,
            causes: run.causes,
        }),
        windows: run.windows.iter().map(|w| window(survey, w)).collect(),
        detach_ns: run.detach_ns,
        targets: here
            .map(|(i, (t, presence))| {
                let others = others(survey, i);
                target(t, presence, &classes, counts(i), others)
            })
            .collect(),
        scope: run.scope.map(scope),
        expectations: run.expected.iter().map(expectation).collect(),
        warnings: run.warnings,
    }
}

/// What `watch` knows at an interval's end, or when it is done.
pub(super) struct Watched<'a> {
    pub(super) interval: &'a Window,
    /// Since the beginning.
    pub(super) total: &'a Window,
    pub(super) scope: Option<&'a Scope>,
    pub(super) last: bool,
    pub(super) causes: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// One line of `watch --json`: what happened in an interval, and since the
/// beginning.
pub(super) fn interval_record(survey: &Survey, watched: Watched<'_>) -> String {
    let (interval, total) = (watched.interval, watched.total);
    let all = |of: &Window| {
        let here = survey.targets.iter().zip(&survey.presence).zip(&of.counts);
        here.enumerate()
            .map(|(i, ((t, presence), counts))| {
                let others = others(survey, i);
                target(t, presence, &of.classes, counts.as_ref(), others)
            })
            .collect()
    };
    let record = IntervalRecord {
        schema: IntervalRecord::SCHEMA,
        last: watched.last,
        window: StretchRecord {
            clock: CLOCK,
            start_ns: interval.start_ns,
            end_ns: interval.end_ns,
        },
        elapsed_ns: total.length_ns(),
        interval: all(interval),
        total: all(total),
        scope: watched.scope.map(scope),
        causes: watched.causes,
        warnings: watched.warnings,
    };
    serde_json::to_string(&record).expect("plain data")
}

fn command(run: &Run<'_>) -> CommandRecord {
    let words = run.begun.argv.iter();
    let (status, signal, error) = match run.end {
        None => (None, None, None),
        Some(End::Ended(status)) => (status.code(), status.signal(), None),
        Some(End::NotStarted(error)) => (None, None, Some(plain(error))),
        Some(End::Withheld(_)) => (None, None, run.causes.first().cloned()),
    };
    CommandRecord {
        argv: words.map(|w| w.to_string_lossy().into_owned()).collect(),
        status,
        signal,
        error,
        wall_ns: run.wall_ns,
    }
}

fn expectation((expectation, came): &(Expectation, Came)) -> ExpectationRecord {
    ExpectationRecord {
        text: expectation.text.clone(),
        counted: came.counted.clone(),
        outcome: came.outcome.word(),
    }
}

fn window(survey: &Survey, window: &Brief) -> WindowRecord {
    let both = survey.targets.iter().zip(&window.counts);
    WindowRecord {
        clock: CLOCK,
        start_ns: window.start_ns,
        end_ns: window.end_ns,
        open: window.open,
        targets: both
            .filter_map(|(target, counts)| Some(window_target(target, counts.as_ref()?)))
            .collect(),
    }
}

fn window_target(target: &Target, counts: &BriefCounts) -> WindowTargetRecord {
    let divides = target.kinds == Kinds::CloneDedupe;
    WindowTargetRecord {
        symbol: target.name(),
        calls: counts.calls,
        clones: divides.then_some(counts.plain),
        dedupes: divides.then_some(counts.dedupe),
        returns: counts.returns,
        in_flight: counts.in_flight,
        errors: target.returns_errno.then_some(counts.errors),
        out_of_scope: counts.elsewhere,
        missed_calls: counts.missed_calls,
        missed_returns: counts.missed_returns,
    }
}
