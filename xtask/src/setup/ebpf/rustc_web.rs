//! Debian's rustc for building web browsers, which always comes with its sources: the last resort for a
//! toolchain.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::sources::{LIBRARY, is_target, link, link_libraries, unpack_library};
use super::sysroot;
use crate::setup::archive::{self, Suite};

/// Debian's own rustc and its sources, unpacked as a toolchain.
pub(super) fn make(work: &Path) -> Result<PathBuf> {
    let suite = Suite::Host;
    let needs = suite.depends(&["rustc-web", "libstd-rust-web-dev"])?;
    let std = newest(needs, "libstd-rust-web-").context("rustc-web has no library")?;
    let llvm = newest(suite.depends(&[&std])?, "libllvm").context("rustc-web has no LLVM")?;
    let sources = suite.download(&["rust-web-src".to_owned()], &work.join("sources"))?;
    let wanted = [
        "rustc-web".to_owned(),
        "libstd-rust-web-dev".to_owned(),
        std,
        llvm,
    ];
    let toolchain = work.join("toolchain");
    let root = toolchain.join("debian");
    for package in suite.download(&wanted, &work.join("packages"))? {
        archive::unpack(&package, &root)?;
    }
    unpack_library(&sources[0], &toolchain.join(LIBRARY))?;
    link(&root.join("usr/bin/rustc"), &toolchain.join("bin"))?;
    link(&sysroot()?.join("bin/cargo"), &toolchain.join("bin"))?;
    // Beside rustc's own, where `rustup run` makes the loader look: bpf-linker opens LLVM there.
    let libraries = root.join("usr/lib");
    let triplet = dir_that_holds(&libraries, "librustc_driver-")?;
    link_libraries(&triplet, &toolchain)?;
    if !holds(&toolchain.join("lib"), "libLLVM") {
        for llvm in fs::read_dir(&libraries)?.filter_map(|e| Some(e.ok()?.path().join("lib"))) {
            if holds(&llvm, "libLLVM") {
                link_libraries(&llvm, &toolchain)?;
            }
        }
    }
    for entry in fs::read_dir(libraries.join("rustlib"))? {
        let name = entry?.file_name();
        let target = Path::new("../../debian/usr/lib/rustlib").join(&name);
        if is_target(&name) {
            symlink(target, toolchain.join("lib/rustlib").join(&name))?;
        }
    }
    Ok(toolchain)
}

/// The last by name of the packages whose name starts so and goes on with a digit.
fn newest(names: Vec<String>, start: &str) -> Option<String> {
    names
        .into_iter()
        .filter(|name| {
            name.strip_prefix(start)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
        .max()
}

fn dir_that_holds(dir: &Path, start: &str) -> Result<PathBuf> {
    fs::read_dir(dir)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| holds(path, start))
        .with_context(|| format!("no {start}* below {}", dir.display()))
}

fn holds(dir: &Path, start: &str) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|e| e.file_name().to_string_lossy().starts_with(start)))
    })
}
