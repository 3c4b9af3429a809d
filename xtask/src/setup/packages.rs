//! The Debian packages that the host needs, by name.

use std::process::Command;

use anyhow::{Result, bail};

use crate::cache;
use crate::process;
use crate::step::Step;

/// What building needs.
pub(crate) const BUILD: &[&str] = &["binutils", "gcc", "libc6-dev"];

/// What fetching and unpacking kernels needs.
pub(crate) const KERNEL: &[&str] = &["debian-archive-keyring", "kmod", "xz-utils", "zstd"];

/// What booting a guest needs.
pub(crate) const VM: &[&str] = &["qemu-system-x86", "btrfs-progs"];

/// What making the Debian image for the guest needs.
pub(crate) const ROOTFS: &[&str] = &["debian-archive-keyring", "mmdebstrap", "e2fsprogs"];

/// Installs the packages that are missing and answers which these were.
pub(crate) fn ensure(wanted: &[&'static str]) -> Result<Vec<&'static str>> {
    if missing(wanted)?.is_empty() {
        return Ok(Vec::new());
    }
    let _lock = cache::lock("packages")?;
    let missing = missing(wanted)?;
    if missing.is_empty() {
        return Ok(missing);
    }
    let list = missing.join(" ");
    if !process::is_root() {
        bail!(
            "missing packages; install them with:\n    \
             sudo apt-get install --no-install-recommends {list}"
        );
    }
    let step = Step::start(format!("install {list}"));
    process::run(apt_get().arg("update"))?;
    process::run(
        apt_get()
            .args(["install", "--no-install-recommends", "-y"])
            .args(&missing),
    )?;
    step.done();
    Ok(missing)
}

fn missing(wanted: &[&'static str]) -> Result<Vec<&'static str>> {
    let asked = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${db:Status-Status}\n"])
        .args(wanted)
        .output();
    let Ok(answer) = asked else {
        bail!(
            "no dpkg-query here, so packages cannot be checked; this needs Debian (or a container \
             of it) with: {}",
            wanted.join(" ")
        );
    };
    // A package that dpkg has never heard of makes it fail, and is simply absent from the answer.
    Ok(not_installed(
        wanted,
        &String::from_utf8_lossy(&answer.stdout),
    ))
}

fn not_installed(wanted: &[&'static str], answer: &str) -> Vec<&'static str> {
    let mut missing: Vec<&'static str> = wanted
        .iter()
        .filter(|name| {
            !answer
                .lines()
                .any(|line| line == format!("{name} installed"))
        })
        .copied()
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-q", "-o", "DPkg::Lock::Timeout=120"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_installed_counts_as_there() {
        let answer = "gcc installed\nkmod config-files\n";
        assert_eq!(
            not_installed(&["gcc", "kmod", "zstd", "kmod"], answer),
            ["kmod", "zstd"]
        );
    }
}
