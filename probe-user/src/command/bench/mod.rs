//! `cowprobe bench`: runs a workload and says what came of it.

mod progress;
mod timed;

use std::{io::Write, path::Path, process::ExitCode};

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_setaffinity};

use self::timed::timed;
use super::{
    GATE_FAILED, put,
    say::remark,
    signals::{BySignal, Interrupted},
};
use crate::{
    cli::{Operation, RemapArgs},
    workload::{Files, Filesystem, Kind, Outcome, Size},
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
    let passed = run(args, size, out);
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

/// On the filesystem of another, or on one of its own, which is gone afterwards.
fn run(args: &RemapArgs, size: Size, out: &mut dyn Write) -> anyhow::Result<bool> {
    if args.rounds.is_none() && args.device.is_none() {
        let dir = args.dir.as_ref().context("there is no DIR")?;
        return once(args, dir, size, None, out);
    }
    // What is tidied up must outlive a signal.
    let interrupted = Interrupted::listen().context("cannot listen for signals")?;
    let made = args.device.as_ref();
    let made = made
        .map(|device| Filesystem::make(device, size))
        .transpose()?;
    let dir = match &made {
        Some(made) => {
            remark(&made.words);
            made.path()
        }
        None => args.dir.as_ref().context("there is no DIR")?,
    };
    match args.rounds {
        Some(rounds) => timed(args, dir, size, rounds, &interrupted, out),
        None => once(args, dir, size, Some(&interrupted), out),
    }
}

fn kinds(operation: Operation) -> &'static [Kind] {
    match operation {
        Operation::Clone => &[Kind::Clone],
        Operation::Dedupe => &[Kind::Dedupe],
        Operation::Both => &[Kind::Clone, Kind::Dedupe],
    }
}

/// One pass over files that stay.
fn once(
    args: &RemapArgs,
    dir: &Path,
    size: Size,
    interrupted: Option<&Interrupted>,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let files = if args.prepared {
        Files::open(dir, size)?
    } else {
        Files::create(dir, size)?
    };
    if args.prepare {
        return Ok(true);
    }
    let mut passed = true;
    for kind in kinds(args.operation) {
        interrupted.map_or(Ok(()), Interrupted::check)?;
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
