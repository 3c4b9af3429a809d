//! The tools of a guest's initramfs: busybox with all its applets, and btrfs-progs with their
//! libraries, as a cpio archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::archive::{self, Suite};
use super::packages;
use crate::cache::{self, Made};
use crate::process;
use crate::step::Step;
use crate::vm::cpio::Archive;

/// Taken from the host as they are.
const HOST_TOOLS: [&str; 2] = ["mkfs.btrfs", "btrfs"];

/// Where the guest mounts things and where commands work.
const DIRECTORIES: [&str; 9] = [
    "proc", "sys", "dev", "tmp", "mnt", "root", "out", "t", "etc",
];

/// Makes the archive, unless it is there; an update of btrfs-progs makes another.
pub(crate) fn ensure() -> Result<(PathBuf, Made)> {
    packages::ensure(packages::VM)?;
    let tools = HOST_TOOLS
        .iter()
        .map(|name| {
            let found = process::find(name).with_context(|| {
                format!("no {name} on this machine; install the package btrfs-progs")
            })?;
            Ok(found.canonicalize()?)
        })
        .collect::<Result<Vec<PathBuf>>>()?;
    let key = cache::fingerprint(&DIRECTORIES, &tools)?;
    let cpio = cache::dir()?
        .join("guest-tools")
        .join(format!("{key}.cpio"));
    let made = cache::make(&cpio, |work| {
        let busybox = busybox()?;
        let step = Step::start("pack the tools for the guest");
        let file = work.join("cpio");
        fs::write(&file, pack(&busybox, &tools)?)?;
        step.done();
        Ok(file)
    })?;
    Ok((cpio, made))
}

/// A static busybox, which is never installed: the package would replace the machine's own.
fn busybox() -> Result<PathBuf> {
    let binary = cache::dir()?.join("busybox");
    cache::make(&binary, |work| {
        let step = Step::start("download busybox");
        let suite = Suite::open("trixie")?;
        let files = suite.download(&["busybox-static".to_owned()], work)?;
        archive::unpack(&files[0], &work.join("root"))?;
        step.done();
        ["usr/bin/busybox", "bin/busybox"]
            .iter()
            .map(|path| work.join("root").join(path))
            .find(|path| path.is_file())
            .context("no busybox in the package busybox-static")
    })?;
    Ok(binary)
}

fn pack(busybox: &Path, tools: &[PathBuf]) -> Result<Vec<u8>> {
    let mut cpio = Archive::new();
    for directory in DIRECTORIES {
        cpio.add_directory(directory);
    }
    // Without these two, a program that starts before devtmpfs is mounted has no stdio.
    cpio.add_device("dev/console", 5, 1);
    cpio.add_device("dev/null", 1, 3);
    cpio.add_symlink("sbin", "bin");
    cpio.add_symlink("usr/bin", "../bin");
    cpio.add_symlink("usr/sbin", "../bin");
    cpio.add_symlink("usr/lib", "../lib");
    cpio.add_symlink("etc/mtab", "/proc/mounts");
    cpio.add_file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n");
    cpio.add_file("etc/group", 0o644, b"root:x:0:\n");
    cpio.add_file("bin/busybox", 0o755, &fs::read(busybox)?);
    let mut libraries: Vec<String> = Vec::new();
    for (name, tool) in HOST_TOOLS.iter().zip(tools) {
        cpio.add_file(&format!("bin/{name}"), 0o755, &fs::read(tool)?);
        let listed = process::read(Command::new("ldd").arg(tool))?;
        libraries.extend(parse_ldd(&listed).map(str::to_owned));
    }
    libraries.sort();
    libraries.dedup();
    for library in libraries {
        let path = library.trim_start_matches('/');
        let path = path.strip_prefix("usr/").unwrap_or(path);
        cpio.add_file(path, 0o755, &fs::read(&library)?);
    }
    for applet in process::read(Command::new(busybox).arg("--list"))?.lines() {
        if applet != "busybox" && !HOST_TOOLS.contains(&applet) {
            cpio.add_symlink(&format!("bin/{applet}"), "busybox");
        }
    }
    Ok(cpio.finish())
}

/// The files in what ldd says: `name => /path (address)` or `/path (address)`.
fn parse_ldd(listed: &str) -> impl Iterator<Item = &str> {
    listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_names_libraries_and_the_loader() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                      \tlibuuid.so.1 => /lib/x86_64-linux-gnu/libuuid.so.1 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<_> = parse_ldd(listed).collect();
        assert_eq!(
            found,
            [
                "/lib/x86_64-linux-gnu/libuuid.so.1",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
    }
}
