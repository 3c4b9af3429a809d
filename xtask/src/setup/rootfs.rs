//! The Debian image for guests that need more than busybox: tracers to compare with, fio, and so on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::{archive, packages};
use crate::cache::{self, Made};
use crate::process;
use crate::step::Step;

const SUITE: &str = "trixie";

/// What is in the image beside Debian's essential packages.
const PACKAGES: &[&str] = &[
    "bpftool",
    "bpftrace",
    "btrfs-progs",
    "fio",
    "kmod",
    "linux-perf",
    "mount",
    "procps",
    "tmux",
    "trace-cmd",
];

/// Files that no guest reads.
const LEFT_OUT: &[&str] = &[
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/lintian/*",
    "/usr/share/man/*",
    "/usr/share/i18n/*",
];

/// Room for what a command writes; the image is a sparse file.
const FREE_BYTES: u64 = 512 << 20;

/// Makes the image, unless it is there; another list of packages makes another image.
pub(crate) fn ensure() -> Result<(PathBuf, Made)> {
    packages::ensure(packages::ROOTFS)?;
    let key = cache::fingerprint(&[&[SUITE], PACKAGES, LEFT_OUT].concat(), &[])?;
    let image = cache::dir()?
        .join("rootfs")
        .join(format!("{SUITE}-{key}.ext4"));
    let made = cache::make(&image, |work| {
        if !process::is_root() {
            bail!("making the Debian image needs root: run `cargo xtask setup --all` as root once");
        }
        let root = work.join("root");
        let step = Step::start("install Debian for the guest");
        debootstrap(&root)?;
        step.done();
        let step = Step::start("pack the guest's Debian into an image");
        let image = work.join("image");
        pack(&root, &image)?;
        step.done();
        Ok(image)
    })?;
    Ok((image, made))
}

fn debootstrap(root: &Path) -> Result<()> {
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--mode=root", "--variant=essential", "--quiet"])
        .arg(format!("--include={}", PACKAGES.join(",")))
        .args([
            "--aptopt=Acquire::Languages \"none\"",
            "--aptopt=APT::Install-Recommends \"false\"",
        ])
        .args(
            LEFT_OUT
                .iter()
                .map(|path| format!("--dpkgopt=path-exclude={path}")),
        )
        .arg(SUITE)
        .arg(root)
        .arg(archive::source_line(SUITE)?);
    process::run(&mut command)?;
    // What the guest binds over these; made here so that the image need not be written at boot.
    for dir in ["t", "out", "usr/lib/modules", "usr/local/bin"] {
        fs::create_dir_all(root.join(dir))?;
    }
    Ok(())
}

fn pack(root: &Path, image: &Path) -> Result<()> {
    let file = fs::File::create(image)?;
    file.set_len(bytes_below(root)? * 5 / 4 + FREE_BYTES)?;
    process::run(
        process::tool("mkfs.ext4")
            .args([
                "-q",
                "-F",
                "-m",
                "0",
                "-O",
                "^has_journal",
                "-L",
                "rootfs",
                "-d",
            ])
            .arg(root)
            .arg(image),
    )
}

fn bytes_below(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += found.blocks() * 512;
        if found.is_dir() {
            bytes += bytes_below(&entry.path())?;
        }
    }
    Ok(bytes)
}
