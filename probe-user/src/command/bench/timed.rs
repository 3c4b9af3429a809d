//! Rounds of which the operations alone are timed, or counted by another.

use std::{io::Write, path::Path};

use anyhow::{Context as _, bail};

use super::{is_expected, kinds, progress::Progress};
use crate::{
    cli::RemapArgs,
    command::{orders::Orders, put, say::remark, signals::Interrupted},
    evidence::{Output, Timed, sha256, table_text},
    kernel::probed,
    model::Target,
    stats::Loops,
    view::{Rounds, counted_rounds_table, rounds_table},
    workload::{Files, Kind, Outcome, Size},
};

/// Rounds with fresh files; passes if all results were as expected, and if what should
/// be evidence is.
pub(super) fn timed(
    args: &RemapArgs,
    dir: &Path,
    size: Size,
    rounds: u32,
    interrupted: &Interrupted,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    if args.tsv.is_some() && args.control.is_some() && !args.probed_times {
        bail!("--tsv: times under probes are no evidence; ask for them with --probed-times");
    }
    let mut probed = args.control.is_some();
    if !probed && let Some(function) = probed_now() {
        if !args.probed_times {
            bail!(
                "{function} is probed: times under probes are no evidence; detach what probes it, \
                 or ask for them with --probed-times"
            );
        }
        probed = true;
    }
    let tsv = args.tsv.as_deref().map(Output::open).transpose()?;
    let mut orders = args.control.as_ref().map(Orders::open).transpose()?;
    let progress = Progress::of(u64::from(args.warmup) + u64::from(rounds));
    let mut run = Run {
        args,
        dir,
        size,
        interrupted,
        orders: orders.as_mut(),
        passed: true,
        all: Vec::new(),
    };
    for round in 1..=args.warmup {
        progress.at(&format!("warm-up {round}"));
        run.warm_up(round, out)?;
        progress.next();
    }
    for round in 1..=rounds.into() {
        progress.at(&format!("round {round}"));
        run.round(round, out)?;
        progress.next();
    }
    drop(progress);
    let Run {
        mut passed,
        mut all,
        ..
    } = run;
    if !probed && let Some(function) = probed_now() {
        remark(format_args!(
            "{function} came to be probed: the times are no evidence"
        ));
        probed = true;
        passed = false;
    }
    for timed in &mut all {
        timed.probed = probed;
    }
    let each = kinds(args.operation).iter().map(|kind| {
        let scenario = scenario(*kind, size);
        let rounds = all.iter().filter(|t| t.scenario == scenario);
        of_scenario(scenario.clone(), rounds)
    });
    let each: Vec<_> = each.flatten().collect();
    if let Some(tsv) = tsv {
        tsv.commit(&table_text(&all))?;
    }
    let table = if orders.is_some() && !args.probed_times {
        counted_rounds_table(&each)
    } else {
        rounds_table(&each, probed)
    };
    put(out, &table)?;
    Ok(passed)
}

/// A function of ours that somebody probes, as far as that is known.
fn probed_now() -> Option<String> {
    let three = Target::three().map(|target| target.symbol);
    probed(&three.each_ref().map(String::as_str)).unwrap_or_else(|why| {
        remark(format_args!(
            "whether probes slow the loops is not known: {why}"
        ));
        None
    })
}

/// Rounds under way.
struct Run<'a> {
    args: &'a RemapArgs,
    dir: &'a Path,
    size: Size,
    interrupted: &'a Interrupted,
    orders: Option<&'a mut Orders>,
    passed: bool,
    all: Vec<Timed>,
}

impl Run<'_> {
    fn warm_up(&mut self, round: u32, out: &mut dyn Write) -> anyhow::Result<()> {
        let fresh = self.fresh()?;
        for kind in kinds(self.args.operation) {
            self.interrupted.check()?;
            let outcome = fresh.0.judge(fresh.0.operate(*kind));
            let name = format!("{}, warm-up {round}", scenario(*kind, self.size));
            self.passed &= is_expected(&name, &outcome, out)?;
        }
        Ok(())
    }

    fn round(&mut self, round: u64, out: &mut dyn Write) -> anyhow::Result<()> {
        let Fresh(files) = &self.fresh()?;
        for kind in kinds(self.args.operation) {
            self.interrupted.check()?;
            if let Some(orders) = &mut self.orders {
                orders.enable()?;
            }
            let operated = files.operate(*kind);
            if let Some(orders) = &mut self.orders {
                orders.disable()?;
            }
            let outcome = files.judge(operated);
            let timed = row(files, *kind, self.size, round, &outcome)?;
            let name = format!("{}, round {round}", timed.scenario);
            self.passed &= is_expected(&name, &outcome, out)?;
            self.all.push(timed);
        }
        Ok(())
    }

    fn fresh(&self) -> anyhow::Result<Fresh> {
        self.interrupted.check()?;
        Files::create(self.dir, self.size).map(Fresh)
    }
}

/// The files of one round, removed after it, whatever comes.
struct Fresh(Files);

impl Drop for Fresh {
    fn drop(&mut self) {
        self.0.remove();
    }
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
        probed: false,
    })
}
