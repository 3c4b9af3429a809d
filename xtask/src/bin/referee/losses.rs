//! Losses on purpose: they must be seen, by as much as they were.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    cowprobe::{RECORD, Ran, cowprobe, record},
    filesystem::{self, Load},
    report::Report,
};

type Check = (&'static str, fn() -> anyhow::Result<String>);

const CHECKS: &[Check] = &[
    ("kretprobe instances run out", instances_run_out),
    ("room for one start", one_start),
    ("a probe inside of BPF", inside_of_bpf),
    ("watch: those of an interval", of_an_interval),
];

const LOAD: Load = Load {
    tasks: 2,
    operations: 500,
};

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CHECKS.len());
    for (name, check) in CHECKS {
        report.check(name, check());
    }
    filesystem::unmount()
}

fn number(target: &Value, name: &str) -> anyhow::Result<u64> {
    target[name]
        .as_u64()
        .with_context(|| format!("{name}: {target}"))
}

/// Counts while a shell's command runs, which must end as INEXACT does.
fn lossy(more: &[&str], command: &str) -> anyhow::Result<(Ran, Value)> {
    let all = [&["run", "-o", RECORD], more, &["--", "sh", "-c", command]].concat();
    let ran = cowprobe(&all)?;
    ran.expect(1).with_context(|| format!("{more:?}"))?;
    ensure!(ran.stderr.contains("INEXACT"), "{}", ran.stderr);
    // The same again, let pass.
    ensure!(
        record()?["exit"]["causes"] != Value::Array(Vec::new()),
        "no cause"
    );
    Ok((ran, record()?))
}

/// Through perf there are max(10, twice the possible CPUs), and more tasks sleep
/// (`create_local_trace_kprobe` and `register_kretprobe`, Linux 7.2).
fn instances_run_out() -> anyhow::Result<String> {
    let function = "hrtimer_nanosleep";
    let command = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 \
        21 22 23 24 25 26 27 28 29 30; do sleep 4 & done; wait";
    let (_, record) = lossy(&["--probe", function], command)?;
    let target = &record["targets"][3];
    let (calls, returns) = (number(target, "calls")?, number(target, "returns")?);
    let missed = number(target, "return_missed")?;
    ensure!(calls >= 30 && returns < calls, "{target}");
    ensure!(
        returns + missed == calls,
        "{returns} and {missed} of {calls}: {target}"
    );
    ensure!(
        number(target, "in_flight")? + number(target, "abandoned")? == missed,
        "{target}"
    );
    ensure!(
        target["calls_verdict"] == "EXACT" && target["times_verdict"] == "INEXACT",
        "{target}"
    );
    Ok(format!(
        "{calls} calls EXACT, the times of {missed} are missing, as many as the kernel told"
    ))
}

/// Two tasks in the function at once, on one CPU.
fn one_start() -> anyhow::Result<String> {
    filesystem::fresh(LOAD)?;
    let each = (0..LOAD.tasks).map(|task| {
        let dir = filesystem::directory(task);
        format!(
            "cowprobe bench remap --prepared -n {} {dir} & ",
            LOAD.operations
        )
    });
    let command = format!("{}wait", each.collect::<String>());
    let (_, record) = lossy(&["--max-in-flight", "1"], &command)?;
    let target = &record["targets"][0];
    let (calls, unstored) = (number(target, "calls")?, number(target, "unstored")?);
    ensure!(calls == 2000 && unstored > 0, "{target}");
    ensure!(number(target, "returns")? + unstored == calls, "{target}");
    ensure!(number(target, "unmatched")? == unstored, "{target}");
    ensure!(
        target["calls_verdict"] == "EXACT" && target["times_verdict"] == "INEXACT",
        "{target}"
    );
    Ok(format!("2000 calls EXACT, {unstored} not timed"))
}

/// Every start that our own programs keep is such a call.
fn inside_of_bpf() -> anyhow::Result<String> {
    let function = "htab_map_update_elem";
    ensure!(
        Path::new("/sys/kernel/debug/kprobes/list").exists(),
        "no debugfs"
    );
    filesystem::fresh(LOAD)?;
    let dir = filesystem::directory(0);
    let command = format!(
        "cowprobe bench remap --prepared -n {} {dir}",
        LOAD.operations
    );
    let (_, record) = lossy(&["--probe", function], &command)?;
    let three = record["targets"]
        .as_array()
        .context("no targets")?
        .iter()
        .take(3);
    let starts = three
        .map(|t| number(t, "calls"))
        .sum::<anyhow::Result<u64>>()?;
    let target = &record["targets"][3];
    let missed = number(target, "missed")? + number(target, "recursion_misses")?;
    ensure!(
        missed == starts,
        "{missed} missed of {starts} starts: {target}"
    );
    ensure!(target["calls_verdict"] == "INEXACT", "{target}");
    Ok(format!("{missed} missed, as many as starts were kept"))
}

/// The same in the midst of a watch: what its documents say of their intervals adds
/// up to what they say of the whole, and a table shows it.
fn of_an_interval() -> anyhow::Result<String> {
    let function = "htab_map_update_elem";
    let watch = |more: &[&str]| -> anyhow::Result<String> {
        filesystem::fresh(LOAD)?;
        let mut command = Command::new("cowprobe");
        command.args(["watch", "--allow-inexact", "--probe", function]);
        command.args(["-I", "500", "--duration", "6"]).args(more);
        let watch = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // Between two tables at the beginning and at the end nothing happens.
        thread::sleep(Duration::from_secs(2));
        let status = LOAD.bench("--prepared", 0).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "the workload: {status}");
        let out = watch.wait_with_output()?;
        ensure!(out.status.success(), "watch: {}", out.status);
        Ok(String::from_utf8(out.stdout)?)
    };
    let missed = |target: &Value| {
        Ok::<u64, anyhow::Error>(number(target, "missed")? + number(target, "recursion_misses")?)
    };
    let mut before = 0;
    let mut lossy = 0;
    let text = watch(&["--json"])?;
    let documents: Vec<Value> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    for document in &documents {
        let interval = missed(&document["interval"][3])?;
        let total = missed(&document["total"][3])?;
        // The last document's interval is the whole.
        if document["last"] == true {
            ensure!(interval == total && total >= before, "{document}");
            continue;
        }
        ensure!(before + interval == total, "{before} before {document}");
        lossy += usize::from(interval > 0);
        before = total;
    }
    ensure!(before >= 1000, "{before} missed");
    ensure!(lossy + 2 <= documents.len(), "every interval has losses");
    let table = watch(&[])?;
    ensure!(table.contains(" +"), "{table}");
    Ok(format!(
        "{before} missed in {lossy} of {} intervals",
        documents.len() - 1
    ))
}
