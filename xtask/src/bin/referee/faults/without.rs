//! What a user or a kernel may lack: counting goes on where it can, and what is
//! lost is named.

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    super::{
        FUNCTIONS,
        cowprobe::{RECORD, Ran, calls_and_missed, missed, record, status},
        filesystem::{self, Load},
    },
    MARK, nothing_ran,
};

const LOAD: Load = Load {
    tasks: 1,
    operations: 100,
};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

pub(super) fn cap_bpf() -> anyhow::Result<String> {
    refused_with("+perfmon", ": CAP_BPF missing;")
}

pub(super) fn cap_perfmon() -> anyhow::Result<String> {
    refused_with("+bpf", ": CAP_PERFMON missing;")
}

/// Runs as a user with this capability alone.
fn refused_with(capability: &str, words: &str) -> anyhow::Result<String> {
    let before = fs::read_to_string(PARANOID)?;
    fs::write(PARANOID, "2")?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups"]);
    command.args(["--inh-caps", capability, "--ambient-caps", capability]);
    command.args(["cowprobe", "run", "--", "touch", MARK]);
    let out = command.stdin(Stdio::null()).output();
    fs::write(PARANOID, before)?;
    let ran = Ran::from_output(&out?);
    ran.expect(2)?;
    ran.expect_line(&[words, "run as root"])?;
    nothing_ran()?;
    Ok(ran.stderr)
}

pub(super) fn pointers() -> anyhow::Result<String> {
    let restrict = "/proc/sys/kernel/kptr_restrict";
    let before = fs::read_to_string(restrict)?;
    fs::write(restrict, "2")?;
    let counted = counted_after("true");
    fs::write(restrict, before)?;
    let (ran, record) = counted?;
    ensure!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    ensure!(
        record["identity"]["inhibition"]["variant"] == "inline-buffer",
        "{record}"
    );
    Ok("200 calls, nothing is lost: no address is needed".to_owned())
}

pub(super) fn tracefs() -> anyhow::Result<String> {
    let hide = "umount /sys/kernel/tracing && umount -l /sys/kernel/debug";
    let (ran, _) = counted_after(hide)?;
    ensure!(
        ran.stderr
            .contains("warning: cannot read whether kprobes are switched on"),
        "{}",
        ran.stderr
    );
    Ok("200 calls; that the switch of kprobes cannot be read is said".to_owned())
}

pub(super) fn btf() -> anyhow::Result<String> {
    let (_, record) = counted_after("mount -t tmpfs tmpfs /sys/kernel/btf")?;
    ensure!(
        record["identity"]["inhibition"]["variant"] == "unknown",
        "{record}"
    );
    let hidden = "mount -t tmpfs tmpfs /sys/kernel/btf && cowprobe check";
    let checked = Ran::from_output(&in_own_mounts(hidden)?);
    checked.expect(0)?;
    let line = |name: &str| checked.stdout.lines().find(|l| l.starts_with(name));
    for (name, words) in [
        ("inhibition", "no /sys/kernel/btf/vmlinux"),
        ("BTF", "none"),
    ] {
        ensure!(
            line(name).is_some_and(|l| l.contains(words)),
            "{}",
            checked.stdout
        );
    }
    Ok("200 calls; the inhibition is unknown".to_owned())
}

/// Counts a load of known size after a shell's command, which may mount.
fn counted_after(command: &str) -> anyhow::Result<(Ran, Value)> {
    filesystem::fresh(LOAD)?;
    let dir = filesystem::directory(0);
    let bench = format!(
        "cowprobe bench remap --prepared -n {} {dir}",
        LOAD.operations
    );
    let script = format!("{command} && cowprobe run -o {RECORD} -- {bench}");
    let out = in_own_mounts(&script)?;
    filesystem::unmount()?;
    let ran = Ran::from_output(&out);
    let record = record().with_context(|| ran.stderr.clone())?;
    ran.expect(status(&missed(&record)))?;
    let remap = &record["targets"][0];
    let calls = calls_and_missed(&record, &FUNCTIONS)?[0];
    ensure!(calls == 200 && remap["errors"] == 0, "{remap}");
    Ok((ran, record))
}

fn in_own_mounts(script: &str) -> anyhow::Result<std::process::Output> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]);
    command
        .stdin(Stdio::null())
        .output()
        .context("cannot start unshare")
}
