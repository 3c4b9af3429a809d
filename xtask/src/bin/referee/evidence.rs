//! What a record says of the kernel, the machine and its filesystems, beside what other
//! programs say of them.

use std::fs;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    bundle,
    cowprobe::{RECORD, cowprobe, missed, record, status},
    examples,
    filesystem::{self, Load, MOUNT, sh},
    report::{Check, Report},
};

const CHECKS: &[Check] = &[
    ("the kernel and the machine", identity),
    ("the filesystem", filesystem),
    ("no name of the host unless asked", host_name),
];

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CHECKS.len() + bundle::CHECKS.len() + examples::CHECKS.len());
    filesystem::fresh(Load {
        tasks: 0,
        operations: 0,
    })?;
    report.run(CHECKS);
    report.run(bundle::CHECKS);
    report.run(examples::CHECKS);
    filesystem::unmount()
}

/// The record of a short run.
fn short_run(more: &[&str]) -> anyhow::Result<Value> {
    let bench = ["--", "cowprobe", "bench", "remap", "-n", "10", MOUNT];
    let ran = cowprobe(&[&["run", "-o", RECORD], more, &bench].concat())?;
    let record = record()?;
    ran.expect(status(&missed(&record)))?;
    Ok(record)
}

fn shell(script: &str) -> anyhow::Result<String> {
    Ok(sh("sh", &["-c", script])?.trim_end().to_owned())
}

fn identity() -> anyhow::Result<String> {
    let before = shell("date -u +%FT%TZ")?;
    let record = short_run(&[])?;
    let after = shell("date -u +%FT%TZ")?;
    let started = record["started_at"].as_str().context("no start")?;
    ensure!(
        (&*before..=&*after).contains(&started),
        "{before} {started} {after}"
    );
    let here = &record["identity"];
    for (there, script) in [
        (&here["release"], "uname -r"),
        (&here["version"], "uname -v"),
        (&here["boot_id"], "cat /proc/sys/kernel/random/boot_id"),
        (&here["command_line"], "cat /proc/cmdline"),
        (
            &here["preemption"],
            "sed 's/.*(\\(.*\\)).*/\\1/' /sys/kernel/debug/sched/preempt",
        ),
        (
            &here["build"]["btrfs_build_id"],
            "od -An -v -tx1 -j16 /sys/module/btrfs/notes/.note.gnu.build-id | tr -d ' \\n'",
        ),
        (
            &here["hardware"]["cpu_model"],
            "lscpu | sed -n 's/^Model name: *//p'",
        ),
        (
            &here["hardware"]["cpus_online"],
            "lscpu | sed -n 's/^On-line CPU(s) list: *//p'",
        ),
        (
            &here["hardware"]["mitigations"]["spectre_v2"],
            "cat /sys/devices/system/cpu/vulnerabilities/spectre_v2",
        ),
    ] {
        let said = shell(script)?;
        ensure!(!said.is_empty() && *there == *said, "{script}: {there}");
    }
    // The kernel's own id is in the one that a core dump of it would have.
    let id = here["build"]["kernel_build_id"].as_str().context("no id")?;
    let notes = shell("od -An -v -tx1 /sys/kernel/notes | tr -d ' \\n'")?;
    ensure!(id.len() == 40 && notes.contains(id), "{id}");
    let compiler = here["build"]["compiler"].as_str().context("no compiler")?;
    ensure!(fs::read_to_string("/proc/version")?.contains(compiler));
    ensure!(here["hardware"]["virtual_machine"] == true, "{here}");
    let memory = shell("free -k | awk '/^Mem:/ { print $2 }'")?;
    ensure!(here["hardware"]["memory_kib"].as_u64() == Some(memory.parse()?));
    Ok(format!("{id}, {compiler}"))
}

fn filesystem() -> anyhow::Result<String> {
    let find = |field: &str| shell(&format!("findmnt -nro {field} {MOUNT}"));
    for scoped in [false, true] {
        let scope = ["--mount", MOUNT];
        let record = short_run(if scoped { &scope } else { &[] })?;
        let all = record["filesystems"].as_array().context("none")?;
        let [one] = &all[..] else {
            anyhow::bail!("{all:?}");
        };
        for (field, name) in [
            ("mount_point", "TARGET"),
            ("source", "SOURCE"),
            ("fsid", "UUID"),
            ("mount_options", "VFS-OPTIONS"),
            ("super_options", "FS-OPTIONS"),
        ] {
            let said = find(name)?;
            ensure!(one[field] == said, "{field}: {} not {said}", one[field]);
        }
        let device = &one["block_device"];
        let bytes = shell("blockdev --getsize64 /dev/ram0")?;
        ensure!(device["bytes"].as_u64() == Some(bytes.parse()?), "{device}");
        let named = (&device["name"], &device["driver"]);
        ensure!(*named.0 == "ram0" && *named.1 == "ramdisk", "{device}");
        if scoped {
            ensure!(record["scope"]["filesystems"][0] == *one, "{record}");
        }
    }
    find("FS-OPTIONS")
}

fn host_name() -> anyhow::Result<String> {
    const NAME: &str = "cowprobe-guest-7";
    sh(
        "sh",
        &["-c", &format!("echo {NAME} > /proc/sys/kernel/hostname")],
    )?;
    short_run(&[])?;
    ensure!(!fs::read_to_string(RECORD)?.contains(NAME), "it is there");
    let record = short_run(&["--with-host-name"])?;
    ensure!(record["identity"]["host_name"] == NAME);
    Ok(NAME.to_owned())
}
