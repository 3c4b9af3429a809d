//! `cowprobe bench`: runs a workload and says what came of it.

use std::{io::Write, process::ExitCode};

use super::{GATE_FAILED, put};
use crate::{
    cli::{Operation, RemapArgs},
    workload::{Files, Outcome},
};

/// Prepares, runs, or both; succeeds if every operation did what it should.
pub(super) fn remap(args: &RemapArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let files = if args.prepared {
        Files::open(&args.dir, args.operations)?
    } else {
        Files::create(&args.dir, args.operations)?
    };
    if args.prepare {
        return Ok(ExitCode::SUCCESS);
    }
    let mut passed = true;
    let mut report = |name: &str, outcome: &Outcome| {
        passed &= outcome.unexpected == 0;
        let (ok, all) = (args.operations - outcome.unexpected, args.operations);
        put(out, &format!("{name}: {ok} of {all} as expected\n"))?;
        match &outcome.first {
            Some(first) => put(out, &format!("{name}: first unexpected: {first}\n")),
            None => Ok(()),
        }
    };
    if args.operation != Operation::Dedupe {
        report("clone", &files.clone_all())?;
    }
    if args.operation != Operation::Clone {
        report("dedupe", &files.dedupe_all())?;
    }
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(GATE_FAILED)
    })
}
