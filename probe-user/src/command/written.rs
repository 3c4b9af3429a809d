//! Turns what was surveyed and measured into the record.

use std::{ffi::OsString, os::unix::process::ExitStatusExt as _};

use probe_ebpf::{
    Class,
    h2::{LAST, bounds},
};

use super::{measure::End, survey::Survey};
use crate::{
    evidence::{
        BucketRecord, CallsOnRecord, CheckRecord, CheckTargetRecord, ClassesRecord, CommandRecord,
        Exit, ExpectationRecord, FilesystemRecord, IdentityRecord, IntervalRecord, LatencyRecord,
        OtherProgramRecord, Record, ScopeRecord, StretchRecord, TargetRecord, Tool, VariantRecord,
        WindowRecord, WindowTargetRecord,
    },
    kernel::object_sha256,
    model::{
        Brief, BriefCounts, Came, Checked, Classes, Counts, Expectation, Histogram, Identity,
        Kinds, Need, Presence, Scope, Target, Variant, Verdict, Window, filesystem_name,
    },
    wording::plain,
};

/// Of every time in a record.
const CLOCK: &str = "CLOCK_MONOTONIC";

/// What `run` knows when it is done.
pub(super) struct Run<'a> {
    pub(super) argv: &'a [OsString],
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
            ebpf_sha256: object_sha256(),
        },
        identity: identity(&survey.identity, &survey.variant),
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

/// What `check --json` writes.
pub(super) fn check_record(checked: &Checked<'_>) -> String {
    let rows = checked.rows.iter();
    let record = CheckRecord {
        schema: CheckRecord::SCHEMA,
        identity: identity(&checked.identity, &checked.variant),
        preemption: checked.preemption.clone(),
        lockdown: checked.lockdown.clone(),
        perf_event_paranoid: checked.perf_event_paranoid,
        needed_capabilities: checked.needed_capabilities.clone(),
        missing_capabilities: checked.missing_capabilities.clone(),
        kernel_btf: checked.kernel_btf,
        btrfs_btf: checked.btrfs_btf,
        kprobes_armed: match checked.kprobes_armed {
            Ok(known) => known.then_some(true),
            Err(_) => Some(false),
        },
        misses_told: checked.losses_told(),
        hook: "kprobe",
        targets: rows
            .map(|row| CheckTargetRecord {
                symbol: row.target.symbol.clone(),
                module: module(row.presence),
                required: row.target.need == Need::Required,
                available: *row.presence != Presence::Absent,
                traceable: row.traced.is_some(),
            })
            .collect(),
        problems: checked.problems.clone(),
    };
    serde_json::to_string_pretty(&record).expect("plain data")
}

fn module(presence: &Presence) -> Option<String> {
    match presence {
        Presence::Module(name) => Some(name.clone()),
        Presence::BuiltIn | Presence::Absent => None,
    }
}

fn identity(kernel: &Identity, variant: &Variant) -> IdentityRecord {
    let kernel = kernel.clone();
    let (variant, slots) = match *variant {
        Variant::Xarray => ("xarray", None),
        Variant::InlineBuffer { slots } => ("inline-buffer", Some(slots)),
        Variant::None => ("none", None),
        Variant::Unknown(_) => ("unknown", None),
    };
    IdentityRecord {
        release: kernel.release,
        version: kernel.version,
        machine: kernel.machine,
        boot_id: kernel.boot_id,
        command_line: kernel.command_line,
        inhibition: VariantRecord { variant, slots },
    }
}

fn command(run: &Run<'_>) -> CommandRecord {
    let words = run.argv.iter();
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

fn scope(scope: &Scope) -> ScopeRecord {
    let found = scope.found.iter().map(|of| {
        let mount = scope.seen.get(of);
        FilesystemRecord {
            device: filesystem_name(*of),
            mount_point: mount.map(|m| m.point.to_string_lossy().into_owned()),
            fsid: mount.and_then(|m| m.fsid.clone()),
        }
    });
    ScopeRecord {
        asked: scope.asked.clone(),
        refused: scope.refused.clone(),
        filesystems: found.collect(),
    }
}

/// The calls by filesystem, if they are told apart.
fn by_filesystem(counts: &Counts) -> Option<Vec<CallsOnRecord>> {
    let inside = counts.parts.as_ref()?.iter();
    let inside = inside.map(|(of, part)| (*of, part.calls, true));
    let outside = counts.elsewhere.as_ref()?.iter();
    let outside = outside.map(|(of, calls)| (*of, *calls, false));
    let all = inside.chain(outside);
    let record = |(of, calls, in_scope)| CallsOnRecord {
        device: filesystem_name(of),
        in_scope,
        calls,
    };
    Some(all.map(record).collect())
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

fn executed_by(counts: &Counts, classes: &Classes) -> Option<ClassesRecord> {
    let calls = |class: Class| counts.by_class[class as usize];
    let Classes::Told {
        workload,
        interrupt,
    } = classes
    else {
        return None;
    };
    Some(ClassesRecord {
        workload: workload.then(|| calls(Class::Workload)),
        commit: calls(Class::Commit),
        cleaner: calls(Class::Cleaner),
        kworker: calls(Class::Kworker),
        kthread: calls(Class::Kthread),
        other: calls(Class::Other),
        interrupt: interrupt.then(|| calls(Class::Interrupt)),
    })
}

fn target(
    target: &Target,
    presence: &Presence,
    classes: &Classes,
    counts: Option<&Counts>,
    other_programs: Option<Vec<OtherProgramRecord>>,
) -> TargetRecord {
    let divides = target.kinds == Kinds::CloneDedupe;
    let losses = counts.map(|c| c.losses).unwrap_or_default();
    TargetRecord {
        symbol: target.symbol.clone(),
        module: module(presence),
        required: target.need == Need::Required,
        available: *presence != Presence::Absent,
        hook: counts.map(|_| "kprobe"),
        calls: counts.map(|c| c.calls),
        clones: counts.filter(|_| divides).map(|c| c.plain),
        dedupes: counts.filter(|_| divides).map(|c| c.dedupe),
        executed_by: counts.and_then(|c| executed_by(c, classes)),
        out_of_scope: counts.and_then(Counts::calls_elsewhere),
        by_filesystem: counts.and_then(by_filesystem),
        returns: counts.map(|c| c.returns),
        in_flight: counts.map(|c| c.in_flight),
        errors: counts.filter(|_| target.returns_errno).map(|c| c.errors),
        missed: losses.entry_missed,
        recursion_misses: losses.entry_recursion_misses,
        return_missed: losses.return_missed,
        return_recursion_misses: losses.return_recursion_misses,
        unstored: counts.map(|c| c.unstored),
        abandoned: counts.map(|c| c.abandoned),
        unmatched: counts.map(|c| c.unmatched),
        verdict: verdict(presence, counts, Counts::verdict),
        calls_verdict: verdict(presence, counts, Counts::calls_verdict),
        times_verdict: verdict(presence, counts, Counts::times_verdict),
        latency: counts.map(|c| latency(&c.latency)),
        other_programs,
    }
}

/// The BPF programs of others on a target.
fn others(survey: &Survey, place: usize) -> Option<Vec<OtherProgramRecord>> {
    let on = survey.others.as_ref().ok()?.get(place)?;
    let each = on.iter().map(|other| OtherProgramRecord {
        kind: other.kind,
        name: other.name.clone(),
        id: other.id,
    });
    Some(each.collect())
}

/// One that is here and has no counts has lost them.
fn verdict(
    presence: &Presence,
    counts: Option<&Counts>,
    of: fn(&Counts) -> Verdict,
) -> Option<&'static str> {
    let here = *presence != Presence::Absent;
    here.then(|| counts.map_or(Verdict::Invalid, of).word())
}

fn latency(histogram: &Histogram) -> LatencyRecord {
    let filled = histogram
        .buckets
        .iter()
        .enumerate()
        .filter(|(_, n)| **n > 0);
    let quantile = |permille| histogram.quantile_ns(permille).map(Into::into);
    LatencyRecord {
        sum_ns: histogram.sum_ns,
        min_ns: histogram.extremes_ns.map(|(min, _)| min),
        max_ns: histogram.extremes_ns.map(|(_, max)| max),
        p50_ns: quantile(500),
        p90_ns: quantile(900),
        p99_ns: quantile(990),
        p99_9_ns: quantile(999),
        buckets: filled.map(|(slot, &count)| bucket(slot, count)).collect(),
    }
}

fn bucket(slot: usize, count: u64) -> BucketRecord {
    let (low_ns, high_ns) = bounds(slot);
    BucketRecord {
        low_ns,
        high_ns: (slot != LAST).then_some(high_ns),
        count,
    }
}
