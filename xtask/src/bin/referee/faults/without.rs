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
    refused_with("2", "+perfmon", ": CAP_BPF missing;")
}

pub(super) fn cap_perfmon() -> anyhow::Result<String> {
    refused_with("2", "+bpf", ": CAP_PERFMON missing;")
}

pub(super) fn cap_sys_admin() -> anyhow::Result<String> {
    refused_with("3", "+bpf,+perfmon", ": CAP_SYS_ADMIN missing,")
}

/// Does as a user with these capabilities alone.
fn refused_with(paranoid: &str, capabilities: &str, words: &str) -> anyhow::Result<String> {
    let mut said = String::new();
    for args in [&["run", "--", "touch", MARK][..], &["watch"]] {
        let ran = as_nobody(paranoid, capabilities, args)?;
        ran.expect(2)?;
        ran.expect_line(&[words, "run as root"])?;
        nothing_ran()?;
        said = ran.stderr;
    }
    let checked = as_nobody(paranoid, capabilities, &["check"])?;
    checked.expect(1)?;
    let (lacks, _) = words[2..].split_once(" missing").context("no words")?;
    let line = format!("\ncapabilities  {lacks} missing; run as root\n");
    ensure!(checked.stdout.contains(&line), "{}", checked.stdout);
    Ok(said)
}

/// What an ordinary user needs, and no more; what is not needed is a warning.
pub(super) fn capabilities_are_enough() -> anyhow::Result<String> {
    for (paranoid, capabilities, needed) in [
        ("2", "+bpf,+perfmon", "CAP_BPF and CAP_PERFMON"),
        ("3", "+bpf,+perfmon,+sys_admin", "CAP_SYS_ADMIN"),
        ("3", "+sys_admin", "CAP_SYS_ADMIN"),
    ] {
        let run = as_nobody(paranoid, capabilities, &["run", "--", "id", "-u"])?;
        let watch = ["watch", "-I", "100", "--duration", "0.5"];
        let watch = as_nobody(paranoid, capabilities, &watch)?;
        for ran in [&run, &watch] {
            ran.expect(0).context(capabilities)?;
            let switch = "warning: cannot read whether kprobes are switched on";
            ensure!(ran.stderr.contains(switch), "{}", ran.stderr);
        }
        let untold = run.stderr.contains("not known whether other BPF programs");
        ensure!(
            untold != capabilities.contains("sys_admin"),
            "{}",
            run.stderr
        );
        // No cgroup can be made: forks are followed.
        let workload = "the workload is not told from other tasks";
        ensure!(!run.stderr.contains(workload), "{}", run.stderr);
        ensure!(run.stdout == "65534\n", "{}", run.stdout);
        ensure!(
            run.stderr.contains("EXACT") && watch.stdout.contains("EXACT"),
            "{run:?}"
        );
        let checked = as_nobody(paranoid, capabilities, &["check"])?;
        checked.expect(0)?;
        for line in [
            format!("\nparanoid      {paranoid}, so probing takes {needed}\n"),
            "\ncapabilities  all that are needed\n".to_owned(),
        ] {
            ensure!(checked.stdout.contains(&line), "{}", checked.stdout);
        }
    }
    Ok("CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN where paranoid is 3".to_owned())
}

/// Runs cowprobe as a user with these capabilities alone, at this level of
/// `kernel.perf_event_paranoid`.
fn as_nobody(paranoid: &str, capabilities: &str, args: &[&str]) -> anyhow::Result<Ran> {
    let before = fs::read_to_string(PARANOID)?;
    fs::write(PARANOID, paranoid)?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups"]);
    command.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]);
    command.arg("cowprobe").args(args);
    let out = command.stdin(Stdio::null()).output();
    fs::write(PARANOID, before)?;
    Ok(Ran::from_output(&out?))
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
