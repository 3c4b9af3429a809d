//! What a hit costs, by each tool and hook: a loop of `umask(2)`, one hit a call, with
//! the probes and without, in a guest whose clock counts instructions. Prints a JSON
//! document; judges nothing but that each tool counted every call.

use std::{fs, process::Command};

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::{
    cowprobe::{RECORD, Ran, cowprobe, document, record},
    filesystem::sh,
    kprobe_profile,
    latency::{FUNCTION, HITS, left, maps_of},
};

/// What a hit costs over the loop without probes.
#[derive(Debug, Serialize)]
struct Figure {
    /// "counted", or "timed" for a pair at entry and return.
    what: &'static str,
    hook: &'static str,
    tool: &'static str,
    /// In thousandths of an instruction.
    cost: u64,
}

/// What is done to the loop's command line, and what checks that it was seen.
#[derive(Clone, Copy, Debug)]
enum With {
    /// A script of bpftrace, with what stands for the function.
    Bpftrace(&'static str),
    /// The same that counts in `@count`.
    Counting(&'static str),
    /// Cowprobe with these arguments.
    Cowprobe(&'static [&'static str]),
    /// An event of tracefs.
    KprobeEvent,
}

const ROWS: [(&str, &str, &str, With); 14] = [
    (
        "counted",
        "fentry",
        "nothing",
        With::Bpftrace("fentry:vmlinux:F { }"),
    ),
    (
        "counted",
        "fentry",
        "bpftrace",
        With::Counting("fentry:vmlinux:F { @count = count(); }"),
    ),
    (
        "counted",
        "kprobe",
        "nothing",
        With::Bpftrace("kprobe:F { }"),
    ),
    (
        "counted",
        "kprobe",
        "bpftrace",
        With::Counting("kprobe:F { @count = count(); }"),
    ),
    ("counted", "kprobe", "kprobe_events", With::KprobeEvent),
    (
        "timed",
        "fentry",
        "nothing",
        With::Bpftrace("fentry:vmlinux:F { } fexit:vmlinux:F { }"),
    ),
    (
        "timed",
        "fentry",
        "two clock reads",
        With::Bpftrace("fentry:vmlinux:F { $a = nsecs; } fexit:vmlinux:F { $a = nsecs; }"),
    ),
    (
        "timed",
        "fentry",
        "bpftrace",
        With::Counting(
            "fentry:vmlinux:F { @s[tid] = nsecs; } fexit:vmlinux:F /@s[tid]/ { \
             @h = hist(nsecs - @s[tid]); delete(@s[tid]); @count = count(); }",
        ),
    ),
    (
        "timed",
        "kprobe",
        "nothing",
        With::Bpftrace("kprobe:F { } kretprobe:F { }"),
    ),
    (
        "timed",
        "kprobe",
        "two clock reads",
        With::Bpftrace("kprobe:F { $a = nsecs; } kretprobe:F { $a = nsecs; }"),
    ),
    (
        "timed",
        "kprobe",
        "bpftrace",
        With::Counting(
            "kprobe:F { @s[tid] = nsecs; } kretprobe:F /@s[tid]/ { \
             @h = hist(nsecs - @s[tid]); delete(@s[tid]); @count = count(); }",
        ),
    ),
    ("timed", "kprobe", "cowprobe", With::Cowprobe(&[])),
    (
        "timed",
        "kprobe",
        "cowprobe, no cgroup",
        With::Cowprobe(&["--pid", "1"]),
    ),
    (
        "timed",
        "kprobe",
        "cowprobe watch",
        With::Cowprobe(&["watch"]),
    ),
];

pub(crate) fn run() -> anyhow::Result<()> {
    let me = std::env::current_exe()?;
    let me = me.to_str().context("a path that is not UTF-8")?;
    let bare = || -> anyhow::Result<u64> {
        sh(me, &["umask"])?;
        left()
    };
    let before = bare()?;
    let mut figures = Vec::new();
    for (what, hook, tool, with) in ROWS {
        let loop_ps = measured(with, me).with_context(|| format!("{what}, {hook}, {tool}"))?;
        let cost = loop_ps
            .checked_sub(before)
            .context("probes made it faster")?;
        figures.push(Figure {
            what,
            hook,
            tool,
            cost,
        });
    }
    let after = bare()?;
    ensure!(
        before.abs_diff(after) < 1000,
        "the loop alone took {before} and {after}"
    );
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// What a call takes.
fn measured(with: With, me: &str) -> anyhow::Result<u64> {
    match with {
        With::Bpftrace(script) => {
            maps_of(&script.replace('F', FUNCTION), &format!("{me} umask"))?;
        }
        With::Counting(script) => {
            let maps = maps_of(&script.replace('F', FUNCTION), &format!("{me} umask"))?;
            let count = maps.get("@count").and_then(serde_json::Value::as_u64);
            ensure!(count == Some(HITS), "it counted {count:?} of {HITS}");
        }
        With::Cowprobe(["watch"]) => watched(me)?,
        With::Cowprobe(more) => {
            let args = ["run", "--allow-inexact", "-o", RECORD, "--probe", FUNCTION];
            cowprobe(&[&args, more, &["--", me, "umask"]].concat())?;
            let record = record()?;
            let targets = record["targets"].as_array().context("no targets")?;
            let target = targets.last().context("no target")?;
            ensure!(
                target["calls"] == HITS && target["returns"] == HITS,
                "{target}"
            );
        }
        With::KprobeEvent => {
            kprobe_profile::start(&[FUNCTION])?;
            let ran = sh(me, &["umask"]);
            let hits = kprobe_profile::read(&[FUNCTION])?;
            kprobe_profile::stop()?;
            ran?;
            ensure!(hits == [HITS], "{hits:?}");
        }
    }
    left()
}

/// With an interval in which it reads nothing.
fn watched(me: &str) -> anyhow::Result<()> {
    let mut command = Command::new("cowprobe");
    command.args([
        "watch",
        "--json",
        "-I",
        "60000",
        "--probe",
        FUNCTION,
        "--ready-fd",
        "3",
    ]);
    // The loop begins when the probes stand, and ends the watch.
    let shell = format!(
        "mkfifo /tmp/ready; {command:?} 3>/tmp/ready & read x </tmp/ready; {me} umask; kill $!; wait $!"
    );
    let out = Command::new("sh").args(["-c", &shell]).output()?;
    let ran = Ran::from_output(&out);
    let last = ran.stdout.lines().last().context("no document")?;
    let last = document(last)?;
    let target = last["total"].as_array().and_then(|t| t.last());
    let target = target.with_context(|| ran.stderr.clone())?;
    ensure!(target["calls"] == HITS, "{target}");
    fs::remove_file("/tmp/ready")?;
    Ok(())
}
