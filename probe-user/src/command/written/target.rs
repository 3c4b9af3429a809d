//! What a record says of a target.

use probe_ebpf::{
    Class,
    h2::{LAST, bounds},
};

use super::identity::module;
use crate::{
    command::survey::Survey,
    evidence::{
        BucketRecord, CallsOnRecord, ClassesRecord, LatencyRecord, OtherProgramRecord, TargetRecord,
    },
    model::{Classes, Counts, Histogram, Kinds, Need, Presence, Target, Verdict, filesystem_name},
};

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

pub(super) fn target(
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
pub(super) fn others(survey: &Survey, place: usize) -> Option<Vec<OtherProgramRecord>> {
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
