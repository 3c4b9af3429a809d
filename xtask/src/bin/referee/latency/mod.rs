//! Times that must agree with bpftrace's, the same workload in separate runs. For
//! a guest whose clock counts instructions: there a run is like another.
//!
//! Both tools read the clock in the midst of their own work, so a part of a pair of
//! probes is in the time of its call, and all of it is in the time of the calls
//! around it. Once both parts are taken off, as they are measured on a call that does
//! nothing, the two say the same. Without that they differ by less than a pair costs.

use anyhow::ensure;

use super::{
    FUNCTIONS,
    filesystem::{self, Load},
    overlay,
    report::Report,
};

mod times;
mod yardstick;

pub(crate) use times::{Script, maps_of};
use times::{Times, by_bpftrace, by_cowprobe};
pub(crate) use yardstick::{FUNCTION, HITS, left, umask};
use yardstick::{Pairs, pairs};

const LOAD: Load = Load {
    tasks: 1,
    operations: 500,
};

/// One in so many calls may be longer in one of the runs alone: an interrupt.
const STRAY: u64 = 100;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(FUNCTIONS.len() + 1);
    let plain = pairs(Script::Plain)?;
    let (ours, theirs) = remaps()?;
    // Every inhibit and uninhibit is inside a remap.
    let inside = [ours[1].calls + ours[2].calls, 0, 0];
    ensure!(
        ours[0].calls == u64::from(2 * LOAD.operations),
        "{} remaps",
        ours[0].calls
    );
    for (i, function) in FUNCTIONS.iter().enumerate() {
        report.check(function, agree(&ours[i], &theirs[i], plain, inside[i]));
    }
    report.check("nested calls", nested());
    Ok(())
}

/// The three functions in as many clones as dedupes.
fn remaps() -> anyhow::Result<(Vec<Times>, Vec<Times>)> {
    let (dir, operations) = (filesystem::directory(0), LOAD.operations.to_string());
    let command = format!("cowprobe bench remap --prepared -n {operations} {dir}");
    filesystem::fresh(LOAD)?;
    let ours = by_cowprobe(&FUNCTIONS, &command)?;
    filesystem::fresh(LOAD)?;
    let theirs = by_bpftrace(Script::Plain, &FUNCTIONS, &command)?;
    filesystem::unmount()?;
    Ok((ours, theirs))
}

/// A function that calls itself; bpftrace is told to count how deep.
fn nested() -> anyhow::Result<String> {
    overlay::mount()?;
    let function = [overlay::NESTED];
    let both = by_cowprobe(&function, overlay::OPENS).and_then(|ours| {
        Ok((
            ours,
            by_bpftrace(Script::Nested, &function, overlay::OPENS)?,
        ))
    });
    overlay::unmount()?;
    let (ours, theirs) = both?;
    // Two calls at most, one inside the other.
    let inside = ours[0].calls / 2;
    agree(&ours[0], &theirs[0], pairs(Script::Nested)?, inside)
}

/// `inside` is how many pairs of probes are inside these calls.
fn agree(ours: &Times, theirs: &Times, pairs: Pairs, inside: u64) -> anyhow::Result<String> {
    let stray = ours.calls / STRAY + 1;
    let calls = [ours.calls, theirs.calls];
    ensure!(calls[0].abs_diff(calls[1]) <= stray, "calls: {calls:?}");
    let mean = |times: &Times| i128::from(times.mean_ns());
    let [our_pair, their_pair] = pairs.cost_ns.map(i128::from);
    let [ours_says, theirs_says] = pairs.says_ns.map(i128::from);
    let by_inside = i128::from(inside) * (our_pair - their_pair) / i128::from(ours.calls);
    let shift = mean(ours) - mean(theirs);
    let rest = shift - by_inside - (ours_says - theirs_says);
    let detail = format!(
        "{} ns by ours, {} by bpftrace's, {by_inside} by pairs inside, {} by the tools, {rest} are left; a pair costs {our_pair} and {their_pair}",
        mean(ours),
        mean(theirs),
        ours_says - theirs_says
    );
    let cheaper = our_pair.min(their_pair);
    ensure!((shift - by_inside).abs() < cheaper, "{detail}");
    // Less than a tenth of what a pair costs, or a fiftieth of a long call.
    let dearer = our_pair.max(their_pair);
    ensure!(
        rest.abs() < (dearer / 10).max(mean(theirs) / 50),
        "{detail}"
    );
    let shift = u64::try_from(shift.abs())?;
    for bound in theirs.bounds() {
        let (_, their_most) = theirs.below(bound);
        let (least, _) = ours.below(bound.saturating_sub(shift));
        let (_, most) = ours.below(bound + shift);
        ensure!(
            least <= their_most + stray && their_most <= most + stray,
            "below {bound}: {their_most} by bpftrace, {least} to {most} by ours; {detail}"
        );
    }
    Ok(format!("{calls:?} calls; {detail}"))
}
