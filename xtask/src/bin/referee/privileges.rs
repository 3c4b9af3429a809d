//! What cowprobe may still do while its command runs, and what the command may.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    FUNCTIONS,
    cowprobe::{Ran, cowprobe, document},
    filesystem::sh,
};

/// A directory of another user, into which only `CAP_DAC_OVERRIDE` writes.
const THEIRS: &str = "/tmp/theirs";
/// Left by a command that runs.
const RUNS: &str = "/tmp/it-runs";
const NOBODY: u32 = 65534;

/// `CAP_CHOWN`, `CAP_DAC_OVERRIDE`, `CAP_DAC_READ_SEARCH`, `CAP_FOWNER`, `CAP_KILL`.
const KEPT: u64 = 0b10_1111;

/// Of root, on any kernel: the capabilities are gone, all that a run does after that
/// goes on, and the command has its own.
pub(crate) fn given_up() -> anyhow::Result<String> {
    fs::create_dir_all(THEIRS)?;
    fs::set_permissions(THEIRS, Permissions::from_mode(0o700))?;
    chown(THEIRS, Some(NOBODY), Some(NOBODY))?;
    let place = format!("{THEIRS}/record.json");
    // The thread that forked for the command has its capabilities until it ends.
    let command = "sleep 0.5; cat /proc/self/status; \
        for task in /proc/$PPID/task/*; do cat $task/status; done";
    let ran = cowprobe(
        &[
            &["run", "-o", &place],
            &["--diagnostic", FUNCTIONS[1], "--diagnostic", FUNCTIONS[2]][..],
            &["--", "sh", "-c", command],
        ]
        .concat(),
    )?;
    ran.expect(0)?;
    let record = document(&fs::read_to_string(&place)?)?;
    fs::remove_dir_all(THEIRS)?;
    let tasks: Vec<&str> = ran.stdout.split("Name:").skip(1).collect();
    let [command, threads @ ..] = &tasks[..] else {
        anyhow::bail!("no status: {}", ran.stdout);
    };
    let me = fs::read_to_string("/proc/self/status")?;
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let (ours, theirs) = (capabilities(&me, set)?, capabilities(command, set)?);
        ensure!(ours == theirs, "{set} of the command: {theirs:x}, {ours:x}");
        let kept = match set {
            "CapInh" | "CapAmb" => 0,
            _ => KEPT,
        };
        ensure!(threads.len() == 1, "{} threads", threads.len());
        for thread in threads {
            let has = capabilities(thread, set)?;
            ensure!(has == ours & kept, "{set} of cowprobe: {has:x}");
        }
    }
    let remap = &record["targets"][0];
    ensure!(remap["verdict"] == "EXACT", "{remap}");
    ensure!(remap["executed_by"]["workload"] == 0, "{remap}");
    let warnings = record["warnings"].as_array().context("no warnings")?;
    let of_us = |w: &&Value| !w.as_str().is_some_and(|w| w.contains("absent"));
    ensure!(warnings.iter().find(of_us).is_none(), "{warnings:?}");
    no_cgroup_is_left()?;
    signals_reach_another_user()?;
    Ok(format!("cowprobe has {KEPT:x}, the command all"))
}

fn capabilities(status: &str, set: &str) -> anyhow::Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(set));
    let hex = line.with_context(|| format!("no {set}: {status}"))?;
    Ok(u64::from_str_radix(hex.trim_start_matches(':').trim(), 16)?)
}

fn no_cgroup_is_left() -> anyhow::Result<()> {
    let left = sh("find", &["/sys/fs/cgroup", "-name", "cowprobe-*"])?;
    ensure!(left.is_empty(), "left behind: {left}");
    Ok(())
}

/// TERM is passed on to a command that has become another user.
fn signals_reach_another_user() -> anyhow::Result<()> {
    let _ = fs::remove_file(RUNS);
    let script = format!("touch {RUNS}; exec setpriv --reuid {NOBODY} --clear-groups sleep 60");
    let mut command = Command::new("cowprobe");
    command.args(["run", "--allow-inexact"]);
    command.args(["--diagnostic", FUNCTIONS[1], "--diagnostic", FUNCTIONS[2]]);
    command.args(["--", "sh", "-c", &script]);
    let child = command.stderr(Stdio::piped()).spawn()?;
    for _ in 0..600 {
        if Path::new(RUNS).exists() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    thread::sleep(Duration::from_millis(500));
    sh("kill", &["-TERM", &child.id().to_string()])?;
    Ran::from_output(&child.wait_with_output()?).expect(143)
}
