//! What happens to the kernel under the probes, and what it tells of errors.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    super::{
        clone::Pair,
        cowprobe::{RECORD, Ran, cowprobe, record},
        filesystem::{self, Load, sh},
    },
    MARK, nothing_ran,
};

pub(crate) const ENABLED: &str = "/sys/kernel/debug/kprobes/enabled";

pub(super) fn kprobes_are_off() -> anyhow::Result<String> {
    fs::write(ENABLED, "0").with_context(|| format!("cannot write {ENABLED}"))?;
    let ran = cowprobe(&["run", "--", "touch", MARK]);
    let checked = cowprobe(&["check"]);
    fs::write(ENABLED, "1")?;
    let (ran, checked) = (ran?, checked?);
    ran.expect(2)?;
    ran.expect_line(&["switched off", ENABLED])?;
    nothing_ran()?;
    checked.expect(1)?;
    ensure!(checked.stdout.contains(ENABLED), "{}", checked.stdout);
    Ok(ran.stderr)
}

pub(super) fn kprobes_go_off_in_the_window() -> anyhow::Result<String> {
    let script = format!("echo 0 > {ENABLED}");
    let ran = cowprobe(&["run", "-o", RECORD, "--", "sh", "-c", &script]);
    fs::write(ENABLED, "1")?;
    let ran = ran?;
    ran.expect(1)?;
    ensure!(
        ran.stderr.contains("switched off in the window"),
        "{}",
        ran.stderr
    );
    no_counts()?;
    Ok("no counts, exit 1".to_owned())
}

pub(super) fn the_module_is_loaded_again() -> anyhow::Result<String> {
    filesystem::unmount()?;
    let script = "rmmod btrfs && modprobe btrfs";
    let ran = cowprobe(&["run", "-o", RECORD, "--", "sh", "-c", script])?;
    ran.expect(1)?;
    ensure!(
        ran.stderr.contains("btrfs was unloaded in the window"),
        "{}",
        ran.stderr
    );
    no_counts()?;
    Ok("no counts, exit 1".to_owned())
}

/// btrfs must not be loaded yet, and is then.
pub(super) fn the_module_is_waited_for() -> anyhow::Result<String> {
    let mut command = Command::new("cowprobe");
    command.args(["run", "--wait-for-module", "--", "touch", MARK]);
    let child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    thread::sleep(Duration::from_secs(1));
    nothing_ran()?;
    sh("modprobe", &["btrfs"])?;
    let ran = Ran::from_output(&child.wait_with_output()?);
    ran.expect(0)?;
    ensure!(Path::new(MARK).exists(), "the command did not run");
    Ok("the command ran when btrfs was there".to_owned())
}

fn no_counts() -> anyhow::Result<()> {
    let record = record()?;
    for target in record["targets"].as_array().context("no targets")? {
        ensure!(target["calls"] == Value::Null, "{target}");
    }
    Ok(())
}

/// How many clones fail in [`failing_clones`].
const FAILING: u64 = 40;

pub(super) fn failures_are_errors() -> anyhow::Result<String> {
    filesystem::fresh(Load {
        tasks: 1,
        operations: 1,
    })?;
    let me = std::env::current_exe()?;
    let me = me.to_str().context("a path that is not UTF-8")?;
    let ran = cowprobe(&["run", "-o", RECORD, "--", me, "failing-clones"])?;
    filesystem::unmount()?;
    ran.expect(0)?;
    let remap = &record()?["targets"][0];
    for (field, value) in [
        ("calls", FAILING),
        ("errors", FAILING),
        ("returns", FAILING),
    ] {
        ensure!(remap[field] == value, "{field} is {}", remap[field]);
    }
    Ok(format!("{FAILING} calls, {FAILING} errors"))
}

/// Clones from a place that is no multiple of the block size: btrfs itself refuses
/// that, with EINVAL.
pub(crate) fn failing_clones() -> anyhow::Result<()> {
    let pair = Pair::new()?;
    for _ in 0..FAILING {
        let result = pair.clone_from(1);
        ensure!(result == Err(nix::errno::Errno::EINVAL), "{result:?}");
    }
    sh("sync", &[]).map(drop)
}
