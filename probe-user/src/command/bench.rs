//! `cowprobe bench`: runs a workload and says what came of it.

use std::{io::Write, process::ExitCode};

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{GATE_FAILED, orders::Orders, put, say::remark};
use crate::{
    cli::{Operation, RemapArgs},
    evidence::{Output, Timed, sha256, table_text},
    stats::Loops,
    view::{Rounds, rounds_table},
    workload::{Files, Kind, Outcome, Size},
};

/// Prepares, runs, or both; succeeds if every operation did what it should.
pub(super) fn remap(args: &RemapArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if let Some(cpu) = args.cpu {
        stay_on(cpu)?;
    }
    let size = Size {
        ranges: args.operations,
        range_bytes: args.range_bytes,
    };
    let passed = match args.rounds {
        Some(rounds) => timed(args, size, rounds, out)?,
        None => once(args, size, out)?,
    };
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(GATE_FAILED)
    })
}

fn kinds(operation: Operation) -> &'static [Kind] {
    match operation {
        Operation::Clone => &[Kind::Clone],
        Operation::Dedupe => &[Kind::Dedupe],
        Operation::Both => &[Kind::Clone, Kind::Dedupe],
    }
}

/// One pass over files that stay.
fn once(args: &RemapArgs, size: Size, out: &mut dyn Write) -> anyhow::Result<bool> {
    let files = if args.prepared {
        Files::open(&args.dir, size)?
    } else {
        Files::create(&args.dir, size)?
    };
    if args.prepare {
        return Ok(true);
    }
    let mut passed = true;
    for kind in kinds(args.operation) {
        let outcome = files.judge(files.operate(*kind));
        let name = match kind {
            Kind::Clone => "clone",
            Kind::Dedupe => "dedupe",
        };
        let (ok, all) = (size.ranges - outcome.unexpected, size.ranges);
        put(out, &format!("{name}: {ok} of {all} as expected\n"))?;
        passed &= is_expected(name, &outcome, out)?;
    }
    Ok(passed)
}

/// Rounds with fresh files, of which the operations alone are timed.
fn timed(args: &RemapArgs, size: Size, rounds: u32, out: &mut dyn Write) -> anyhow::Result<bool> {
    let tsv = args.tsv.as_deref().map(Output::open).transpose()?;
    let mut orders = args.control.as_ref().map(Orders::open).transpose()?;
    let mut all = Vec::new();
    let mut passed = true;
    for round in 1..=args.warmup {
        let files = Fresh::create(args, size)?;
        for kind in kinds(args.operation) {
            let outcome = files.0.judge(files.0.operate(*kind));
            let name = format!("{}, warm-up {round}", scenario(*kind, size));
            passed &= is_expected(&name, &outcome, out)?;
        }
    }
    for round in 1..=rounds.into() {
        let Fresh(files) = &Fresh::create(args, size)?;
        for kind in kinds(args.operation) {
            if let Some(orders) = &mut orders {
                orders.enable()?;
            }
            let operated = files.operate(*kind);
            if let Some(orders) = &mut orders {
                orders.disable()?;
            }
            let outcome = files.judge(operated);
            let timed = row(files, *kind, size, round, &outcome)?;
            passed &= is_expected(&format!("{}, round {round}", timed.scenario), &outcome, out)?;
            all.push(timed);
        }
    }
    let each = kinds(args.operation).iter().map(|kind| {
        let scenario = scenario(*kind, size);
        of_scenario(
            scenario.clone(),
            all.iter().filter(|t| t.scenario == scenario),
        )
    });
    let each: Vec<_> = each.flatten().collect();
    if let Some(tsv) = tsv {
        tsv.commit(&table_text(&all))?;
    }
    put(out, &rounds_table(&each))?;
    if orders.is_some() {
        remark("the loops were counted while they were timed: no evidence of their speed");
    }
    Ok(passed)
}

/// The files of one round, removed after it, whatever comes.
struct Fresh(Files);

impl Fresh {
    fn create(args: &RemapArgs, size: Size) -> anyhow::Result<Self> {
        Files::create(&args.dir, size).map(Self)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// Keeps this thread, which does all the work, on one CPU.
fn stay_on(cpu: u32) -> anyhow::Result<()> {
    let place = usize::try_from(cpu)?;
    let known = place < CpuSet::MAX_CPU;
    let mut one = CpuSet::new();
    if known {
        one.set(place);
    }
    let set = sched_setaffinity(None, &one);
    set.with_context(|| {
        format!("cannot stay on CPU {cpu}; /sys/devices/system/cpu/online has those that are there")
    })
}

fn of_scenario<'a>(
    scenario: String,
    mut rounds: impl Iterator<Item = &'a Timed>,
) -> Option<Rounds> {
    let first = rounds.next()?;
    let mut loops = Loops::first(first.operations, first.elapsed_ns)?;
    let mut unexpected = first.unexpected_results;
    for round in rounds {
        loops.add(round.elapsed_ns);
        unexpected += round.unexpected_results;
    }
    Some(Rounds {
        scenario,
        loops,
        unexpected,
    })
}

/// What a scenario is called, as in the public tables.
fn scenario(kind: Kind, size: Size) -> String {
    let kib = size.range_bytes / 1024;
    match kind {
        Kind::Clone => format!("ficlonerange_{kib}k_pages"),
        Kind::Dedupe => format!("fidedupe_{kib}k_pages"),
    }
}

fn row(
    files: &Files,
    kind: Kind,
    size: Size,
    round: u64,
    outcome: &Outcome,
) -> anyhow::Result<Timed> {
    let (operations, elapsed_ns) = (size.ranges.into(), outcome.elapsed_ns);
    let unexpected_results = outcome.unexpected.into();
    let path = files.result_path(kind);
    Ok(Timed {
        scenario: scenario(kind, size),
        round,
        operations,
        range_bytes: size.range_bytes.into(),
        elapsed_ns,
        ns_per_op: Timed::ns_per_op_of(elapsed_ns, operations).context("a time beyond bounds")?,
        expected_match_ratio: Timed::match_ratio_of(unexpected_results, operations)
            .context("a ratio beyond bounds")?,
        unexpected_results,
        checksum: sha256(&path).with_context(|| format!("cannot read {}", path.display()))?,
    })
}

/// Says the first result that was not expected, if there is one.
fn is_expected(name: &str, outcome: &Outcome, out: &mut dyn Write) -> anyhow::Result<bool> {
    if let Some(first) = &outcome.first {
        put(out, &format!("{name}: first unexpected: {first}\n"))?;
    }
    Ok(outcome.unexpected == 0)
}
