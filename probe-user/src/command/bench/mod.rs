//! `cowprobe bench`: runs a workload and says what came of it.

mod progress;
mod timed;

use std::{io::Write, process::ExitCode};

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_setaffinity};

use self::timed::timed;
use super::{
    GATE_FAILED, put,
    signals::{BySignal, Interrupted},
};
use crate::{
    cli::{Operation, RemapArgs},
    workload::{Files, Kind, Outcome, Size},
};

/// How many operations of a kind there are where they are not timed.
const OPERATIONS: u32 = 1000;
/// The same of a timed loop.
const TIMED_OPERATIONS: u32 = 10_000;

/// Prepares, runs, or both; succeeds if every operation did what it should.
pub(super) fn remap(args: &RemapArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if let Some(cpu) = args.cpu {
        stay_on(cpu)?;
    }
    let size = Size {
        ranges: args.operations.unwrap_or(match args.rounds {
            Some(_) => TIMED_OPERATIONS,
            None => OPERATIONS,
        }),
        range_bytes: args.range_bytes,
    };
    let passed = match args.rounds {
        Some(rounds) => {
            let interrupted = Interrupted::listen().context("cannot listen for signals")?;
            timed(args, size, rounds, &interrupted, out)
        }
        None => once(args, size, out),
    };
    // When all is tidied up.
    if let Err(error) = &passed
        && let Some(signal) = error.downcast_ref::<BySignal>()
    {
        signal.end();
    }
    let passed = passed?;
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

/// Says the first result that was not expected, if there is one.
fn is_expected(name: &str, outcome: &Outcome, out: &mut dyn Write) -> anyhow::Result<bool> {
    if let Some(first) = &outcome.first {
        put(out, &format!("{name}: first unexpected: {first}\n"))?;
    }
    Ok(outcome.unexpected == 0)
}
