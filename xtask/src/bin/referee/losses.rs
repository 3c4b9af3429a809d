//! Losses on purpose: they must be seen, by as much as they were. On several CPUs what is
//! told of skipped kprobes is a lower bound, since `nmissed` is no atomic counter; what
//! programs miss is counted on each CPU and exact.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    thread::{self, available_parallelism},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    FUNCTIONS,
    cowprobe::{RECORD, Ran, calls_and_missed, cowprobe, document, record},
    filesystem::{self, Load},
    kprobe_profile,
    report::Report,
};

type Check = (&'static str, fn(u32) -> anyhow::Result<String>);

const CHECKS: &[Check] = &[
    ("kretprobe instances run out", instances_run_out),
    ("room for one start", one_start),
    ("a probe inside of BPF", inside_of_bpf),
    ("slots and a hash at once", slots_and_hash),
    ("watch: those of an interval", of_an_interval),
    ("map operations of another", map_operations),
];

pub(crate) fn run(report: &mut Report, cpus: u32) -> anyhow::Result<()> {
    report.plan(1 + CHECKS.len());
    report.check("CPUs", online(cpus));
    for (name, check) in CHECKS {
        report.check(name, check(cpus));
    }
    filesystem::unmount()
}

fn online(cpus: u32) -> anyhow::Result<String> {
    let online = u32::try_from(available_parallelism()?.get())?;
    ensure!(online == cpus, "{online} instead of {cpus}");
    Ok(online.to_string())
}

/// Two tasks on each CPU, so that one is preempted in the midst of a call by the other.
const fn load(cpus: u32) -> Load {
    Load {
        tasks: 2 * cpus,
        operations: 500,
    }
}

/// Clones and dedupes of all tasks together.
fn operations(load: Load) -> u64 {
    2 * u64::from(load.tasks) * u64::from(load.operations)
}

/// A shell's command that runs the workloads at the same time, each on a CPU of its own
/// or a half of one; it fails if one of them does.
fn at_once(load: Load, cpus: u32) -> String {
    let each = (0..load.tasks).map(|task| {
        let dir = filesystem::directory(task);
        format!(
            "taskset -c {} cowprobe bench remap --prepared -n {} {dir} & p=\"$p $!\"; ",
            task % cpus,
            load.operations
        )
    });
    let each: String = each.collect();
    format!("{each}for i in $p; do wait $i || exit 9; done")
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
fn instances_run_out(cpus: u32) -> anyhow::Result<String> {
    let function = "hrtimer_nanosleep";
    let command = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 \
        21 22 23 24 25 26 27 28 29 30; do sleep 4 & done; wait";
    let (_, record) = lossy(&["--probe", function], command)?;
    let target = &record["targets"][3];
    let (calls, returns) = (number(target, "calls")?, number(target, "returns")?);
    let missed = number(target, "return_missed")?;
    ensure!(calls >= 30 && returns < calls, "{target}");
    let left = number(target, "in_flight")? + number(target, "abandoned")?;
    ensure!(
        returns + left == calls,
        "{returns} and {left} of {calls}: {target}"
    );
    ensure!(is_told(missed, left, cpus), "{missed} of {left}: {target}");
    ensure!(
        target["calls_verdict"] == "EXACT" && target["times_verdict"] == "INEXACT",
        "{target}"
    );
    Ok(format!(
        "{calls} calls EXACT, the times of {left} are missing, {missed} of them told by the kernel"
    ))
}

/// Whether so many were told as missed as must be.
const fn is_told(told: u64, true_number: u64, cpus: u32) -> bool {
    told == true_number || (cpus > 1 && 0 < told && told < true_number)
}

/// Several tasks in the function at once.
fn one_start(cpus: u32) -> anyhow::Result<String> {
    let load = load(cpus);
    filesystem::fresh(load)?;
    let (_, record) = lossy(&["--max-in-flight", "1"], &at_once(load, cpus))?;
    let target = &record["targets"][0];
    let (calls, unstored) = (number(target, "calls")?, number(target, "unstored")?);
    ensure!(calls == operations(load) && unstored > 0, "{target}");
    ensure!(number(target, "returns")? + unstored == calls, "{target}");
    ensure!(number(target, "unmatched")? == unstored, "{target}");
    ensure!(
        target["calls_verdict"] == "EXACT" && target["times_verdict"] == "INEXACT",
        "{target}"
    );
    Ok(format!("{calls} calls EXACT, {unstored} not timed"))
}

/// Every start that our own programs keep is such a call, where they have no slots.
fn inside_of_bpf(cpus: u32) -> anyhow::Result<String> {
    let function = "htab_map_update_elem";
    ensure!(
        Path::new("/sys/kernel/debug/kprobes/list").exists(),
        "no debugfs"
    );
    let load = load(cpus);
    filesystem::fresh(load)?;
    let (_, record) = lossy(
        &["--probe", function, "--max-in-flight", "15"],
        &at_once(load, cpus),
    )?;
    let remap = &record["targets"][0];
    ensure!(remap["calls"] == operations(load), "{remap}");
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
    let calls = number(target, "calls")?;
    ensure!(
        is_told(missed, starts, cpus) && calls + missed <= starts,
        "{calls} calls and {missed} missed of {starts} starts: {target}"
    );
    ensure!(target["calls_verdict"] == "INEXACT", "{target}");
    Ok(format!("{missed} missed of {starts} starts"))
}

/// With few slots several tasks want the same: some starts are in the hash, as the calls
/// from inside of BPF tell, and none is lost. Tasks are moved about meanwhile.
fn slots_and_hash(cpus: u32) -> anyhow::Result<String> {
    let function = "htab_map_update_elem";
    let load = Load {
        tasks: 6,
        ..load(cpus)
    };
    filesystem::fresh(load)?;
    let moved = format!(
        "( while :; do for c in 0 {}; do for p in $(pgrep cowprobe); do taskset -pc $c $p; done; \
         done; done >/dev/null 2>&1 ) & m=$!; ({}); r=$?; kill $m; exit $r",
        cpus - 1,
        at_once(load, cpus)
    );
    let room = ["--max-in-flight", "16", "--probe", function];
    let (_, record) = lossy(&room, &moved)?;
    let three = &record["targets"].as_array().context("no targets")?[..3];
    let mut starts = 0;
    for target in three {
        let calls = number(target, "calls")?;
        let returns = number(target, "returns")? + number(target, "in_flight")?;
        ensure!(
            returns == calls && number(target, "unmatched")? == 0,
            "{target}"
        );
        ensure!(target["times_verdict"] == "EXACT", "{target}");
        starts += calls;
    }
    ensure!(
        number(&three[0], "calls")? == operations(load),
        "{}",
        three[0]
    );
    let target = &record["targets"][3];
    let hashed = number(target, "missed")? + number(target, "recursion_misses")?;
    ensure!(0 < hashed && hashed < starts, "{hashed} of {starts}");
    Ok(format!(
        "{hashed} of {starts} starts in the hash, all found"
    ))
}

/// The three functions themselves, on each CPU; a kprobe event, which is no BPF program,
/// sees what ours miss.
fn map_operations(cpus: u32) -> anyhow::Result<String> {
    let load = load(cpus);
    filesystem::fresh(load)?;
    kprobe_profile::start(&FUNCTIONS)?;
    let mut others = Others::start(cpus)?;
    let command = format!("{}; sync; sleep 4", at_once(load, cpus));
    let before = kprobe_profile::quiet(&FUNCTIONS)?;
    let lossy = lossy(&[], &command);
    let after = kprobe_profile::read(&FUNCTIONS)?;
    others.end();
    let (ran, record) = lossy?;
    let ours = calls_and_missed(&record, &FUNCTIONS)?;
    let theirs: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    let mut said = Vec::new();
    for (place, function) in FUNCTIONS.iter().enumerate() {
        let target = &record["targets"][place];
        let (calls, missed) = (
            number(target, "calls")?,
            ours[place] - number(target, "calls")?,
        );
        ensure!(
            calls <= theirs[place],
            "{calls} of {}: {target}",
            theirs[place]
        );
        ensure!(
            ours[place] == theirs[place],
            "{calls} calls and {missed} missed of {}: {target}",
            theirs[place]
        );
        ensure!(
            missed > 0 && target["calls_verdict"] == "INEXACT",
            "{target}"
        );
        let range = format!("INEXACT {calls}..{}", ours[place]);
        ensure!(
            ran.stderr.contains(&range),
            "{function}, {range}: {}",
            ran.stderr
        );
        said.push(format!("{calls}..{}", ours[place]));
    }
    ensure!(ours[0] == operations(load), "{ours:?}");
    Ok(format!("{}, as a kprobe event counts", said.join(" ")))
}

/// Those who work on maps of their own, one on each CPU.
struct Others(Vec<Child>);

impl Others {
    fn start(cpus: u32) -> anyhow::Result<Self> {
        let me = std::env::current_exe()?;
        let each = (0..cpus).map(|cpu| {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string()]).arg(&me);
            command.arg("map-operations").stdin(Stdio::null()).spawn()
        });
        Ok(Self(each.collect::<Result<_, _>>()?))
    }

    fn end(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The same in the midst of a watch: what its documents say of their intervals adds
/// up to what they say of the whole, and a table shows it.
fn of_an_interval(cpus: u32) -> anyhow::Result<String> {
    let load = load(cpus);
    let function = "htab_map_update_elem";
    let watch = |more: &[&str]| -> anyhow::Result<String> {
        filesystem::fresh(load)?;
        let mut command = Command::new("cowprobe");
        command.args(["watch", "--allow-inexact", "--probe", function]);
        command.args(["--max-in-flight", "15"]);
        command.args(["-I", "500", "--duration", "6"]).args(more);
        let watch = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // Between two tables at the beginning and at the end nothing happens.
        thread::sleep(Duration::from_secs(2));
        let status = load.bench("--prepared", 0).stdout(Stdio::null()).status()?;
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
    let documents = text
        .lines()
        .map(document)
        .collect::<anyhow::Result<Vec<_>>>()?;
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
