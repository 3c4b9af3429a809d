//! Every example of the README and of `--help`, as a user would type it.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};

use super::{
    cowprobe::cowprobe,
    filesystem::{MOUNT, sh, unmount},
    report::Check,
};

pub(crate) const CHECKS: &[Check] = &[
    ("every example of the README", readme),
    ("every example of --help", help),
];

const README: &str = include_str!("../../../../README.md");

/// Where they are typed.
const DIR: &str = "/tmp/examples";

/// The blocks that are meant to be typed; those for a checkout are the host's.
fn blocks() -> impl Iterator<Item = &'static str> {
    let each = README.split("\n```sh\n").skip(1);
    let each = each.filter_map(|rest| Some(rest.split_once("\n```")?.0));
    each.filter(|block| !block.starts_with("cargo "))
}

fn readme() -> anyhow::Result<String> {
    fresh()?;
    let mut typed = 0;
    for block in blocks() {
        // A user would not type twice what makes a FIFO or a filesystem.
        sh("rm", &["-f", &format!("{DIR}/ctl"), &format!("{DIR}/ack")])?;
        if block.contains("mkfs.btrfs") {
            unmount()?;
            sh("wipefs", &["-a", "-q", "/dev/ram0"])?;
        }
        type_it(block)?;
        if block.contains("mkfs.btrfs") {
            fs::write(format!("{MOUNT}/file"), "content")?;
        }
        typed += 1;
    }
    ensure!(typed >= 5, "{typed} blocks");
    Ok(format!("{typed} blocks"))
}

fn help() -> anyhow::Result<String> {
    fresh()?;
    let mut typed = 0;
    for words in [
        &["check"][..],
        &["run"],
        &["watch"],
        &["report"],
        &["verify"],
        &["bench", "remap"],
    ] {
        let help = cowprobe(&[words, &["--help"]].concat())?;
        let (_, examples) = help
            .stdout
            .split_once("\nExamples:\n")
            .with_context(|| format!("{words:?}: {}", help.stdout))?;
        for line in examples.lines().filter(|line| !line.is_empty()) {
            type_it(line.trim_start())?;
            typed += 1;
        }
    }
    Ok(format!("{typed} lines"))
}

/// Also a filesystem that has a file, as the examples have it.
fn fresh() -> anyhow::Result<()> {
    sh("rm", &["-rf", DIR])?;
    fs::create_dir(DIR)?;
    fs::write(format!("{DIR}/inline.patch"), "a patch")?;
    sh("sh", &["-c", &format!("rm -f {MOUNT}/*")])?;
    fs::write(format!("{MOUNT}/file"), "content")?;
    ensure!(Path::new(DIR).is_dir());
    Ok(())
}

/// Again where probes were skipped: then a count is INEXACT, and it says so.
fn type_it(script: &str) -> anyhow::Result<()> {
    let mut stderr = String::new();
    for _ in 0..3 {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", script]).current_dir(DIR);
        let out = shell.stdin(Stdio::null()).output()?;
        if out.status.success() {
            return Ok(());
        }
        stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        if !stderr.contains("INEXACT") {
            break;
        }
    }
    bail!("{script}: {stderr}")
}
