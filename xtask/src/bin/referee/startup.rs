//! How long cowprobe and bpftrace take until the same six probes are attached and
//! until they are gone, and how much memory they hold meanwhile. Prints a JSON
//! document; judges nothing.
//!
//! Both run a command when they are attached: that it runs is the sign.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{FUNCTIONS, filesystem::sh, latency::Script};

/// What the command leaves when it ends.
const STAMP: &str = "/tmp/stamp";
const KPROBES: &str = "/sys/kernel/debug/kprobes/list";

/// What the command saw.
#[derive(Debug, Deserialize, Serialize)]
struct Stamp {
    began_ns: u64,
    ended_ns: u64,
    rss_kib: u64,
    peak_kib: u64,
}

/// One tool's figures, a value a run.
#[derive(Debug, Default, Serialize)]
struct Figures {
    tool: &'static str,
    /// From its start until the command runs.
    attached_ms: Vec<f64>,
    /// From the command's end until no probe is left.
    detached_ms: Vec<f64>,
    /// From the command's end until the tool has ended.
    ended_ms: Vec<f64>,
    rss_kib: Vec<u64>,
    peak_kib: Vec<u64>,
    /// The program, with the libraries that it loads.
    size_kib: u64,
}

/// Runs both in turn, so that both see the same machine.
pub(crate) fn run(runs: u32) -> anyhow::Result<()> {
    let me = std::env::current_exe()?;
    let me = me.to_str().context("a path that is not UTF-8")?;
    let each = FUNCTIONS.iter().enumerate();
    let script: String = each.map(|(i, f)| Script::Plain.of(f, i)).collect();
    let mut tools = [
        Figures {
            tool: "cowprobe",
            size_kib: size_kib("/usr/local/bin/cowprobe")?,
            ..Figures::default()
        },
        Figures {
            tool: "bpftrace",
            size_kib: size_kib("/usr/bin/bpftrace")?,
            ..Figures::default()
        },
    ];
    for _ in 0..runs {
        for figures in &mut tools {
            let mut command = Command::new(figures.tool);
            if figures.tool == "cowprobe" {
                command.args(["run", "--", me, "stamp"]);
            } else {
                command.args(["-e", &script, "-c", &format!("{me} stamp")]);
            }
            one(command, figures)?;
        }
    }
    println!("{}", serde_json::to_string(&tools)?);
    Ok(())
}

fn one(mut command: Command, figures: &mut Figures) -> anyhow::Result<()> {
    ensure!(kprobes()? == 0, "there are kprobes already");
    if Path::new(STAMP).exists() {
        fs::remove_file(STAMP)?;
    }
    let start_ns = monotonic_ns()?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    let limit = Instant::now() + Duration::from_mins(2);
    while !Path::new(STAMP).exists() {
        ensure!(
            Instant::now() < limit,
            "{} does not run the command",
            figures.tool
        );
        thread::sleep(Duration::from_millis(5));
    }
    while kprobes()? > 0 {
        ensure!(Instant::now() < limit, "{} does not detach", figures.tool);
        thread::sleep(Duration::from_millis(1));
    }
    let detached_ns = monotonic_ns()?;
    let status = child.wait()?;
    let exited_ns = monotonic_ns()?;
    ensure!(status.success(), "{}: {status}", figures.tool);
    let stamp: Stamp = serde_json::from_str(&fs::read_to_string(STAMP)?)?;
    #[expect(clippy::cast_precision_loss, reason = "times of seconds")]
    let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
    figures.attached_ms.push(ms(start_ns, stamp.began_ns));
    figures.detached_ms.push(ms(stamp.ended_ns, detached_ns));
    figures.ended_ms.push(ms(stamp.ended_ns, exited_ns));
    figures.rss_kib.push(stamp.rss_kib);
    figures.peak_kib.push(stamp.peak_kib);
    Ok(())
}

/// The command: says when it runs, and how large its parent is.
pub(crate) fn stamp() -> anyhow::Result<()> {
    let began_ns = monotonic_ns()?;
    ensure!(
        kprobes()? >= 2 * FUNCTIONS.len(),
        "not all probes are there"
    );
    let status = fs::read_to_string(format!("/proc/{}/status", nix::unistd::getppid()))?;
    let kib = |name: &str| -> anyhow::Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.with_context(|| format!("no {name}"))?.parse()?)
    };
    let (rss_kib, peak_kib) = (kib("VmRSS:")?, kib("VmHWM:")?);
    let stamp = Stamp {
        began_ns,
        ended_ns: monotonic_ns()?,
        rss_kib,
        peak_kib,
    };
    // In one step, for whoever waits for it.
    fs::write(format!("{STAMP}.new"), serde_json::to_string(&stamp)?)?;
    Ok(fs::rename(format!("{STAMP}.new"), STAMP)?)
}

/// A line for each kprobe and kretprobe.
fn kprobes() -> anyhow::Result<usize> {
    let list = fs::read_to_string(KPROBES).with_context(|| format!("cannot read {KPROBES}"))?;
    Ok(list.lines().count())
}

fn size_kib(program: &str) -> anyhow::Result<u64> {
    // A static program has no libraries, which ldd calls an error.
    let libraries = sh("ldd", &[program]).unwrap_or_default();
    let files = libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    let sizes = files
        .chain([program])
        .map(|file| Ok(fs::metadata(file)?.len()));
    Ok(sizes.sum::<anyhow::Result<u64>>()? >> 10)
}

fn monotonic_ns() -> anyhow::Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(u64::try_from(time.tv_sec())? * 1_000_000_000 + u64::try_from(time.tv_nsec())?)
}
