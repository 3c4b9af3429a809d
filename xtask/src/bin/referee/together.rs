//! Counts that must be exact beside another cowprobe, on nested calls, and when a
//! CPU goes away in the window. For a guest with two CPUs.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    FUNCTIONS,
    cowprobe::{RECORD, Ran, calls_and_missed, cowprobe, document, missed, record, status},
    filesystem::{self, Load},
    kprobe_profile, others, overlay,
    report::{Check, Report},
    symbols::traceable_in_btrfs,
};

/// The record of the inner cowprobe.
const INNER: &str = "/tmp/inner.json";

/// So often `watch` reads while there is load, 10 ms apart.
const MANY_READS: u32 = 50;
/// Far more workloads than that takes.
const MANY_LOADS: u32 = 100;

const CHECKS: &[Check] = &[
    ("other BPF programs", others::are_noted),
    ("two at once", two_at_once),
    ("a CPU goes away", a_cpu_goes_away),
    ("watch costs no hit", watching_costs_nothing),
    ("nested calls", nested_calls),
    ("35 targets", all_that_are_possible),
];

const LOAD: Load = Load {
    tasks: 1,
    operations: 1000,
};

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CHECKS.len());
    report.run(CHECKS);
    filesystem::unmount()
}

/// Calls and missed calls of a target.
fn calls(target: &Value) -> anyhow::Result<u64> {
    let fields = ["calls", "missed", "recursion_misses"];
    let each = fields.iter().map(|name| {
        let n = target[*name].as_u64();
        n.with_context(|| format!("{name}: {target}"))
    });
    each.sum()
}

fn two_at_once() -> anyhow::Result<String> {
    filesystem::fresh(LOAD)?;
    let dir = filesystem::directory(0);
    let ran = cowprobe(&[
        "run",
        "-o",
        RECORD,
        "--",
        "cowprobe",
        "run",
        "-o",
        INNER,
        "--",
        "cowprobe",
        "bench",
        "remap",
        "--prepared",
        &dir,
    ])?;
    let outer = record()?;
    let inner = document(&fs::read_to_string(INNER)?)?;
    // What fails the inner one is passed on by the outer.
    ran.expect(status(&[missed(&outer), missed(&inner)].concat()))?;
    for record in [&outer, &inner] {
        let remap = calls(&record["targets"][0])?;
        ensure!(remap == 2000, "{remap} of 2000 remaps");
    }
    let [outer_on, inner_on] = [&outer, &inner].map(|r| &r["targets"][0]["other_programs"]);
    ensure!(*outer_on == Value::Array(Vec::new()), "{outer_on}");
    let names = [0, 1].map(|i| (&inner_on[i]["kind"], &inner_on[i]["name"]));
    for is in [
        ("kprobe", "cowprobe_entry"),
        ("kretprobe", "cowprobe_return"),
    ] {
        ensure!(
            names
                .iter()
                .any(|(kind, name)| **kind == *is.0 && **name == *is.1),
            "{inner_on}"
        );
    }
    for place in 1..3 {
        let (outer, inner) = (
            calls(&outer["targets"][place])?,
            calls(&inner["targets"][place])?,
        );
        // The outer window is the longer one.
        ensure!(inner >= 2000 && outer >= inner, "{outer} around {inner}");
    }
    Ok("2000 twice".to_owned())
}

/// Read a hundred times a second, with two CPUs and a load that is known.
fn watching_costs_nothing() -> anyhow::Result<String> {
    filesystem::fresh(LOAD)?;
    let mut watch = Command::new("cowprobe");
    watch
        .args(["watch", "-I", "10", "--json"])
        .stdout(Stdio::piped());
    let mut watch = watch.spawn()?;
    let mut lines = BufReader::new(watch.stdout.take().context("no pipe")?).lines();
    // The first document says that the window is open.
    lines.next().context("it says nothing")??;
    // Read all the time, or it stands still before a full pipe.
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let read = thread::spawn(move || {
        let mut last = String::new();
        for line in lines {
            last = line?;
            counted.fetch_add(1, Relaxed);
        }
        std::io::Result::Ok(last)
    });
    // However fast the machine, it is read many times under load.
    let mut loads = 0;
    let status = loop {
        let status = LOAD.bench("--prepared", 0).stdout(Stdio::null()).status()?;
        loads += 1;
        let enough = count.load(Relaxed) > MANY_READS || loads == MANY_LOADS;
        if enough || !status.success() {
            break status;
        }
        // Its files were used up; to write them again remaps nothing.
        filesystem::sh("rm", &["-rf", &filesystem::directory(0)])?;
        LOAD.prepare(0)?;
    };
    let calls = 2000 * loads;
    filesystem::sh("kill", &["-INT", &watch.id().to_string()])?;
    watch.wait()?;
    ensure!(status.success(), "the workload: {status}");
    let last = read.join().expect("it does not panic")?;
    let count = count.load(Relaxed);
    let last = document(&last)?;
    ensure!(
        last["last"] == true && count > MANY_READS,
        "{count} documents, {last}"
    );
    for target in last["total"].as_array().context("no targets")? {
        ensure!(target["verdict"] == "EXACT", "{target}");
    }
    ensure!(last["total"][0]["calls"] == calls, "{last}");
    Ok(format!("{calls}, EXACT, read {count} times meanwhile"))
}

fn a_cpu_goes_away() -> anyhow::Result<String> {
    let online = "/sys/devices/system/cpu/cpu1/online";
    filesystem::fresh(LOAD)?;
    let dir = filesystem::directory(0);
    let script = format!(
        "taskset -c 1 cowprobe bench remap --prepared {dir} && echo 0 > {online} && grep -q 0 {online}"
    );
    let ran = cowprobe(&["run", "-o", RECORD, "--", "sh", "-c", &script]);
    fs::write(online, "1").context("cannot bring the CPU back")?;
    let record = record()?;
    ran?.expect(status(&missed(&record)))?;
    let remap = &record["targets"][0];
    ensure!(calls(remap)? == 2000, "{remap}");
    Ok("2000 counted on a CPU that is offline when they are read".to_owned())
}

fn nested_calls() -> anyhow::Result<String> {
    overlay::mount()?;
    let probe = overlay::NESTED;
    let ran = cowprobe(&[
        "run",
        "--probe",
        probe,
        "-o",
        RECORD,
        "--",
        "sh",
        "-c",
        overlay::OPENS,
    ]);
    overlay::unmount()?;
    ran?.expect(0)?;
    let record = record()?;
    let target = &record["targets"][3];
    ensure!(target["symbol"] == probe, "{target}");
    let calls = target["calls"].as_u64().context("no calls")?;
    ensure!(calls >= 2000, "{calls} calls are too few to be nested");
    for (field, value) in [
        ("returns", calls),
        ("in_flight", 0),
        ("unmatched", 0),
        ("abandoned", 0),
    ] {
        ensure!(
            target[field] == value,
            "{field} is {}: {target}",
            target[field]
        );
    }
    Ok(format!("{calls} calls, each met by its own return"))
}

/// The three and 32 others, beside a kprobe event on each.
fn all_that_are_possible() -> anyhow::Result<String> {
    let names = traceable_in_btrfs(32)?;
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let all = [&FUNCTIONS[..], &names].concat();
    kprobe_profile::start(&all)?;
    filesystem::fresh(LOAD)?;
    let dir = filesystem::directory(0);
    let mut args = vec!["run", "-o", RECORD];
    for name in &names {
        args.extend(["--probe", name]);
    }
    // In the end nothing is left that could be at the window's edge.
    let script = format!("cowprobe bench remap --prepared {dir} && sync && sleep 3");
    args.extend(["--", "sh", "-c", &script]);
    thread::sleep(Duration::from_secs(3));
    let before = kprobe_profile::read(&all)?;
    let ran = cowprobe(&args)?;
    let after = kprobe_profile::read(&all)?;
    let record = record()?;
    ran.expect(status(&missed(&record)))?;
    let ours = calls_and_missed(&record, &all)?;
    let theirs: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    for ((name, ours), theirs) in all.iter().zip(&ours).zip(&theirs) {
        ensure!(ours == theirs, "{name}: {ours}, by kprobe_profile {theirs}");
    }
    let detached = detaching(&ran, &record)?;
    let hit = ours.iter().filter(|n| **n > 0).count();
    ensure!(hit > FUNCTIONS.len(), "none of the 32 was called");
    Ok(format!(
        "{hit} of {} were called, {} times in all; {detached}",
        all.len(),
        ours.iter().sum::<u64>()
    ))
}

/// How long detaching took; it is said where it was long.
fn detaching(ran: &Ran, record: &Value) -> anyhow::Result<String> {
    let ns = record["detach_ns"].as_u64().context("no detach_ns")?;
    let said = ran.stderr.contains("cowprobe: detaching took ");
    ensure!(
        ns > 0 && said == (ns > 1_000_000_000),
        "{ns}: {}",
        ran.stderr
    );
    Ok(format!("detached in {} ms", ns / 1_000_000))
}
