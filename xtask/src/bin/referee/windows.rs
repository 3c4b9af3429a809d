//! Windows of known size, counted by cowprobe and by both referees.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    FUNCTIONS,
    bpftrace::Bpftrace,
    cowprobe::{RECORD, calls_and_missed, cowprobe, document, missed, record, status},
    filesystem::{self, Load},
    kprobe_profile, others, preemption, privileges,
    referees::Reading,
    report::Report,
};

/// Starts the referees once and counts `windows` windows.
pub(crate) fn run(
    report: &mut Report,
    windows: u32,
    load: Load,
    inhibition: &str,
    preempt: Option<&str>,
) -> anyhow::Result<()> {
    let before = usize::from(preempt.is_some()) + 2;
    report.plan(before + usize::try_from(windows)?);
    if let Some(mode) = preempt {
        report.check("preemption", preemption::check(mode));
    }
    report.check("check", check(inhibition));
    report.check("privileges are given up", privileges::given_up());
    let _bpftrace = Bpftrace::start(&FUNCTIONS)?;
    kprobe_profile::start(&FUNCTIONS)?;
    for window in 1..=windows {
        report.check(&format!("window {window}"), one(load));
    }
    filesystem::unmount()
}

/// What `cowprobe check` says where everything is there.
fn check(inhibition: &str) -> anyhow::Result<String> {
    let ran = cowprobe(&["check"])?;
    ran.expect(0)?;
    let line = ran.stdout.lines().find(|l| l.starts_with("inhibition"));
    let line = line.context("check says nothing of the inhibition")?;
    ensure!(line.ends_with(&format!("  {inhibition}")), "{line}");
    for function in FUNCTIONS {
        let row = ran
            .stdout
            .lines()
            .find(|l| l.starts_with(&format!("{function} ")));
        let row = row.with_context(|| format!("no row for {function}"))?;
        ensure!(row.ends_with("yes"), "{row}");
    }
    let json = cowprobe(&["check", "--json"])?;
    json.expect(0)?;
    document(&json.stdout)?;
    Ok(line.to_owned())
}

fn one(load: Load) -> anyhow::Result<String> {
    filesystem::fresh(load)?;
    let before = Reading::quiet(&FUNCTIONS)?;
    let me = std::env::current_exe()?;
    let me = me.to_str().context("a path that is not UTF-8")?;
    let [tasks, operations] = [load.tasks, load.operations].map(|n| n.to_string());
    let ran = cowprobe(&[
        "run",
        "-o",
        RECORD,
        "--", //
        me,
        "work",
        "--tasks",
        &tasks,
        "--operations",
        &operations,
    ])?;
    // The command ended in quiet: what comes between there and here is a failure.
    let after = Reading::take(&FUNCTIONS)?;

    let record = record()?;
    let ours = calls_and_missed(&record, &FUNCTIONS)?;
    let since =
        |a: &[u64], b: &[u64]| -> Vec<u64> { b.iter().zip(a).map(|(b, a)| b - a).collect() };
    let kprobe_profile = since(&before.kprobe_profile, &after.kprobe_profile);
    let bpftrace = since(&before.bpftrace, &after.bpftrace);
    let all = format!("ours {ours:?} kprobe_profile {kprobe_profile:?} bpftrace {bpftrace:?}");
    ensure!(ours == kprobe_profile && ours == bpftrace, "{all}");

    for target in record["targets"].as_array().context("no targets")? {
        others::is_fentry_alone(target)?;
        is_whole(target).with_context(|| format!("{target}"))?;
    }
    let missed = missed(&record);
    ran.expect(status(&missed))?;
    let remap = &record["targets"][0];
    let each = u64::from(load.operations) * u64::from(load.tasks);
    for field in ["clones", "dedupes"] {
        let n = remap[field]
            .as_u64()
            .with_context(|| format!("no {field}"))?;
        ensure!(n <= each && n + missed[0] >= each, "{field} is {n}; {all}");
    }
    ensure!(remap["errors"] == 0, "errors is {}; {all}", remap["errors"]);
    ensure!(ours[0] == 2 * each, "remap is not {}: {all}", 2 * each);
    ensure!(
        ours[1] > ours[0] && ours[2] >= ours[0],
        "too few to be true: {all}"
    );
    Ok(format!(
        "{ours:?} three times; missed: {} by ours, {} by bpftrace's",
        missed.iter().sum::<u64>(),
        after.bpftrace_missed - before.bpftrace_missed
    ))
}

/// What must hold of a target in a closed window that ended in quiet: each call
/// has returned, each return has a time, and the times agree with each other.
fn is_whole(target: &Value) -> anyhow::Result<()> {
    let number = |of: &Value, name: &str| {
        of[name]
            .as_u64()
            .with_context(|| format!("{name} is {}", of[name]))
    };
    let (calls, returns) = (number(target, "calls")?, number(target, "returns")?);
    let (in_flight, abandoned) = (number(target, "in_flight")?, number(target, "abandoned")?);
    ensure!(number(target, "unstored")? == 0, "there was no room");
    ensure!(
        calls == returns + in_flight + abandoned,
        "calls are not where they should be"
    );
    // In quiet a call is without its return only if that was missed.
    let missed = number(target, "return_missed")? + number(target, "return_recursion_misses")?;
    ensure!(
        in_flight + abandoned <= missed,
        "calls are in flight in quiet"
    );
    let latency = &target["latency"];
    let (sum, min, max) = (
        number(latency, "sum_ns")?,
        number(latency, "min_ns")?,
        number(latency, "max_ns")?,
    );
    let (mut count, mut least, mut most) = (0, 0, 0);
    let buckets = latency["buckets"].as_array().context("no buckets")?;
    for bucket in buckets {
        let n = number(bucket, "count")?;
        count += n;
        least += n * number(bucket, "low_ns")?;
        most += n * number(bucket, "high_ns")?;
    }
    ensure!(count == returns, "{count} times of {returns} returns");
    ensure!(least <= sum && sum <= most, "the sum is not of these times");
    let within = |value: u64, bucket: Option<&Value>| -> anyhow::Result<bool> {
        let bucket = bucket.context("no bucket")?;
        Ok(number(bucket, "low_ns")? <= value && value <= number(bucket, "high_ns")?)
    };
    ensure!(
        within(min, buckets.first())?,
        "the shortest is not in the first bucket"
    );
    ensure!(
        within(max, buckets.last())?,
        "the longest is not in the last bucket"
    );
    Ok(())
}

/// What runs in the window: the workloads at the same time, then the writeback
/// of what they left, then quiet, so that nothing is left for the window's edge.
pub(crate) fn work(load: Load) -> anyhow::Result<()> {
    let mut children = Vec::new();
    for task in 0..load.tasks {
        let mut command = load.bench("--prepared", task);
        children.push(command.stdout(Stdio::null()).spawn()?);
    }
    for mut child in children {
        let status = child.wait()?;
        ensure!(status.success(), "the workload: {status}");
    }
    filesystem::sh("sync", &[])?;
    Reading::quiet(&FUNCTIONS).map(drop)
}
