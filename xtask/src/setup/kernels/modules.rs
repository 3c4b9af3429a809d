//! The modules of a kernel: which are kept, and in which order they load.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::image;
use crate::process;

/// What a guest may want, by name or by the alias that the kernel asks for. What a kernel lacks or has
/// built in is no fault.
const KEPT: &[&str] = &[
    "btrfs",
    "crypto-crc32c",
    "crypto-xxhash64",
    "crypto-sha256",
    "crypto-blake2b-256",
    "brd",
    "loop",
    "zram",
    "null_blk",
    "dm-flakey",
    "ext4",
    "overlay",
    "virtio_blk",
    "virtio_console",
    "virtio_pci",
];

/// Copies what is wanted of the modules in `from`, decompressed and indexed, to `to`; both are roots
/// with the modules in `lib/modules/<release>`.
pub(crate) fn keep(from: &Path, release: &str, to: &Path) -> Result<()> {
    let (all, kept) = (dir(from, release), dir(to, release));
    depmod(from, release)?;
    fs::create_dir_all(&kept)?;
    for name in fs::read_dir(&all)? {
        let name = name?.file_name();
        let text = name.to_string_lossy();
        if text.starts_with("modules.builtin") || text == "modules.order" {
            fs::copy(all.join(&name), kept.join(&name))?;
        }
    }
    let mut copied = 0;
    for file in wanted(from, release)? {
        let relative = file.strip_prefix(&all).with_context(|| {
            format!(
                "modprobe names {}, which is not in {}",
                file.display(),
                all.display()
            )
        })?;
        let packed = fs::read(&file)?;
        let (target, bytes) = match file.extension().and_then(|e| e.to_str()) {
            Some("xz") => (
                relative.with_extension(""),
                image::decompress("xz", &packed)?,
            ),
            Some("zst") => (
                relative.with_extension(""),
                image::decompress("zstd", &packed)?,
            ),
            _ => (relative.to_owned(), packed),
        };
        let target = kept.join(target);
        fs::create_dir_all(target.parent().expect("it is below the modules"))?;
        fs::write(target, bytes)?;
        copied += 1;
    }
    ensure!(
        copied > 0,
        "kernel {release} has none of the wanted modules"
    );
    depmod(to, release)
}

/// The files to load for `names`, in order, as paths in the guest. What is built in needs no file.
pub(crate) fn load_order(root: &Path, release: &str, names: &[String]) -> Result<Vec<String>> {
    let dir = dir(root, release);
    let dep = fs::read_to_string(dir.join("modules.dep"))?;
    let builtin = fs::read_to_string(dir.join("modules.builtin"))?;
    let mut order: Vec<String> = Vec::new();
    for name in names {
        let Some(files) = with_dependencies(&dep, name) else {
            ensure!(
                builtin.lines().any(|path| stem(path) == stem(name)),
                "kernel {release} has no module {name}; leave it out, or take another kernel"
            );
            continue;
        };
        for file in files {
            let path = format!("/lib/modules/{release}/{file}");
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    Ok(order)
}

/// A module's file after those that it depends on, from the text of `modules.dep`.
fn with_dependencies<'a>(dep: &'a str, name: &str) -> Option<Vec<&'a str>> {
    dep.lines().find_map(|line| {
        let (file, needs) = line.split_once(':')?;
        // depmod lists what is needed last first.
        (stem(file) == stem(name)).then(|| needs.split_whitespace().rev().chain([file]).collect())
    })
}

/// A module's name, in which `-` and `_` are the same.
fn stem(path: &str) -> String {
    let file = path
        .rsplit('/')
        .next()
        .expect("split gives at least one part");
    file.split(".ko")
        .next()
        .expect("split gives at least one part")
        .replace('-', "_")
}

fn dir(root: &Path, release: &str) -> PathBuf {
    root.join("lib/modules").join(release)
}

fn depmod(root: &Path, release: &str) -> Result<()> {
    process::run(process::tool("depmod").arg("-b").arg(root).arg(release))
}

/// The files of all that is kept, dependencies included.
fn wanted(root: &Path, release: &str) -> Result<Vec<PathBuf>> {
    let modprobe = process::find("modprobe").context("no modprobe; install the package kmod")?;
    let mut files: Vec<PathBuf> = Vec::new();
    for name in KEPT {
        let asked = Command::new(&modprobe)
            .arg("-d")
            .arg(root)
            .args(["-S", release, "--show-depends", "-i", name])
            .output()?;
        for line in String::from_utf8_lossy(&asked.stdout).lines() {
            let file = line
                .strip_prefix("insmod ")
                .and_then(|rest| rest.split(' ').next());
            if let Some(file) = file.map(PathBuf::from).filter(|file| !files.contains(file)) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/fs/btrfs/btrfs.ko: kernel/crypto/xor.ko kernel/lib/raid6/raid6_pq.ko\n\
                       kernel/crypto/xor.ko:\n\
                       kernel/drivers/md/dm-mod.ko:\n\
                       kernel/drivers/md/dm-flakey.ko: kernel/drivers/md/dm-mod.ko\n";

    #[test]
    fn dependencies_come_first_and_last_first() {
        let order = with_dependencies(DEP, "btrfs").unwrap();
        assert_eq!(
            order,
            [
                "kernel/lib/raid6/raid6_pq.ko",
                "kernel/crypto/xor.ko",
                "kernel/fs/btrfs/btrfs.ko"
            ]
        );
        assert_eq!(with_dependencies(DEP, "dm_flakey").unwrap().len(), 2);
        assert_eq!(with_dependencies(DEP, "brd"), None);
    }

    #[test]
    fn load_order_has_each_file_once_and_knows_what_is_built_in() {
        let root = tempfile::tempdir().unwrap();
        let dir = dir(root.path(), "1.2.3");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("modules.dep"), DEP).unwrap();
        fs::write(dir.join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
        let load = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            load_order(root.path(), "1.2.3", &names)
        };
        assert_eq!(load(&["xor", "btrfs", "ext4"]).unwrap().len(), 3);
        let error = load(&["brd"]).unwrap_err().to_string();
        assert!(
            error.starts_with("kernel 1.2.3 has no module brd"),
            "{error}"
        );
    }
}
