//! A fresh btrfs for each window.

use std::process::Command;

use anyhow::{Context as _, ensure};

/// Where it is mounted.
pub(crate) const MOUNT: &str = "/mnt";

/// The workloads that run at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) tasks: u32,
    /// Clones, and dedupes, of each.
    pub(crate) operations: u32,
}

impl Load {
    /// `cowprobe bench remap` for one of the tasks.
    pub(crate) fn bench(self, how: &str, task: u32) -> Command {
        let mut command = Command::new("cowprobe");
        command.args(["bench", "remap", how, "-n", &self.operations.to_string()]);
        command.arg(directory(task));
        command
    }

    /// Makes the directory of a task, and the files in it.
    pub(crate) fn prepare(self, task: u32) -> anyhow::Result<()> {
        let dir = directory(task);
        std::fs::create_dir(&dir).with_context(|| format!("cannot make {dir}"))?;
        let status = self.bench("--prepare", task).status()?;
        ensure!(status.success(), "the files are not prepared: {status}");
        Ok(())
    }
}

/// Runs a program to its end; an error has its output.
pub(crate) fn sh(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let out = Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    ensure!(
        out.status.success(),
        "{program} {}: {}: {text}{}",
        args.join(" "),
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(text)
}

/// Makes and mounts a filesystem with the prepared files of the workloads.
/// The long commit interval keeps the transaction thread out of the window.
pub(crate) fn fresh(load: Load) -> anyhow::Result<()> {
    unmount()?;
    sh("mkfs.btrfs", &["-q", "-f", "/dev/ram0"])?;
    sh(
        "mount",
        &["-t", "btrfs", "-o", "commit=300", "/dev/ram0", MOUNT],
    )?;
    for task in 0..load.tasks {
        load.prepare(task)?;
    }
    sh("sync", &[])?;
    Ok(())
}

/// The directory of a workload.
pub(crate) fn directory(task: u32) -> String {
    format!("{MOUNT}/task{task}")
}

/// Unmounts whatever is there.
pub(crate) fn unmount() -> anyhow::Result<()> {
    let mounts = std::fs::read_to_string("/proc/mounts")?;
    if mounts.lines().any(|l| l.split(' ').nth(1) == Some(MOUNT)) {
        sh("umount", &[MOUNT])?;
    }
    Ok(())
}
