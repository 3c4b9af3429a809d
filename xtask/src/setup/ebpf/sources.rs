//! Where a rustc with the sources of its library comes from, when the active one has none.
//!
//! In this order: Debian's sources of exactly this rustc beside a copy of it; rustup's component;
//! Debian's rustc for web browsers, which always comes with its sources.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{Rustc, own_sources, rustc_web, rustup_run, sysroot};
use crate::cache::{self, Made};
use crate::process;
use crate::setup::archive::Suite;
use crate::step::Step;

/// Where Debian may have sources of this very rustc.
const SUITES: [&str; 2] = ["trixie-backports", "trixie"];

/// Where a toolchain keeps the sources of its library.
pub(super) const LIBRARY: &str = "lib/rustlib/src/rust/library";

/// Makes a toolchain with sources at `base`, or adds the sources to the active one.
pub(super) fn ensure(rustc: &Rustc, base: &Path) -> Result<(PathBuf, Made)> {
    let target = base.join("toolchain");
    if usable(&target) {
        return Ok((target, Made::Present));
    }
    if target.exists() {
        cache::remove(&target)?;
    }
    let step = Step::start(format!(
        "make an eBPF toolchain for rustc {}",
        rustc.release
    ));
    let mut added = None;
    let made = cache::make(&target, |work| {
        let mut failed = match from_debian(rustc, work) {
            Ok(made) => return Ok(made),
            Err(error) => vec![format!("Debian's rust-src: {error:#}")],
        };
        cache::remove(work)?;
        fs::create_dir_all(work)?;
        match from_rustup() {
            Ok(toolchain) => {
                // Linked, so that the next run finds it at once.
                symlink(&toolchain, work.join("toolchain"))?;
                added = Some(toolchain);
                return Ok(work.join("toolchain"));
            }
            Err(error) => failed.push(format!("rustup: {error:#}")),
        }
        rustc_web::make(work).map_err(|error| {
            failed.push(format!("Debian's rustc-web: {error:#}"));
            anyhow::anyhow!(
                "no rustc with the sources of its library; `rustup component add rust-src` helps \
                 on most machines. Tried:\n{}",
                failed.join("\n")
            )
        })
    })?;
    let toolchain = added.unwrap_or_else(|| target.clone());
    let says = process::read(rustup_run(&toolchain).args(["rustc", "--print", "sysroot"]))?;
    if says.trim_end() != toolchain.to_string_lossy() {
        cache::remove(&target)?;
        bail!(
            "the toolchain in {} is not its own sysroot",
            toolchain.display()
        );
    }
    step.done();
    Ok((toolchain, made))
}

fn usable(toolchain: &Path) -> bool {
    let has_std = || {
        let entries = fs::read_dir(toolchain.join("lib/rustlib")).ok()?;
        let mut targets = entries.filter_map(|e| Some(e.ok()?.path()));
        targets.find(|path| path.join("lib").is_dir())
    };
    own_sources(toolchain).is_some() && has_std().is_some()
}

/// A copy of the active toolchain, by hard links, with Debian's sources in it.
fn from_debian(rustc: &Rustc, work: &Path) -> Result<PathBuf> {
    let (suite, version) = find_sources(rustc)?;
    let packages = suite.download(&[format!("rust-src={version}")], &work.join("packages"))?;
    let toolchain = work.join("toolchain");
    unpack_library(&packages[0], &toolchain.join(LIBRARY))?;
    let sysroot = sysroot()?;
    for name in ["rustc", "cargo", "cargo-clippy", "clippy-driver"] {
        let program = sysroot.join("bin").join(name);
        if program.is_file() {
            link(&program, &toolchain.join("bin"))?;
        }
    }
    link_libraries(&sysroot.join("lib"), &toolchain)?;
    link_targets(&sysroot.join("lib/rustlib"), &toolchain)?;
    Ok(toolchain)
}

fn find_sources(rustc: &Rustc) -> Result<(Suite, String)> {
    for name in SUITES {
        let suite = Suite::open(name)?;
        let wanted = format!("{}+", rustc.release);
        let versions = suite.versions("rust-src")?;
        if let Some(version) = versions.into_iter().find(|v| v.starts_with(&wanted)) {
            return Ok((suite, version));
        }
    }
    bail!("no version {} in {}", rustc.release, SUITES.join(", "))
}

fn from_rustup() -> Result<PathBuf> {
    eprintln!("xtask: asking rustup to add rust-src to the active toolchain");
    let mut command = Command::new("rustup");
    command.args(["component", "add", "rust-src"]);
    process::run(command.current_dir(crate::repository()))?;
    own_sources(&sysroot()?).context("rustup added rust-src, but the sources are not there")
}

/// Unpacks the library out of a package of rustc's sources, which is large beside it.
pub(super) fn unpack_library(package: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    let mut listing = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start dpkg-deb; this part needs Debian")?;
    // tar obeys -C only for the names behind it; the working directory is set, too, so that nothing can
    // ever land elsewhere.
    let status = Command::new("tar")
        .arg("-C")
        .arg(into)
        .args([
            "-x",
            "--strip-components=5",
            "--wildcards",
            "./usr/src/rustc-*/library/*",
        ])
        .current_dir(into)
        .stdin(listing.stdout.take().expect("stdout is a pipe"))
        .status()?;
    ensure!(
        status.success() && listing.wait()?.success(),
        "failed to unpack {}",
        package.display()
    );
    ensure!(
        into.join("core/src/lib.rs").is_file(),
        "no library in {}",
        package.display()
    );
    Ok(())
}

pub(super) fn link_libraries(from: &Path, toolchain: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if file.is_file() && name.contains(".so") {
            link(&file, &toolchain.join("lib"))?;
        }
    }
    Ok(())
}

fn link_targets(from: &Path, toolchain: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if is_target(&entry.file_name()) {
            symlink(
                entry.path(),
                toolchain.join("lib/rustlib").join(entry.file_name()),
            )?;
        }
    }
    Ok(())
}

pub(super) fn is_target(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.contains("-linux-") && !name.starts_with("manifest-")
}

/// Hard-links a file into a directory, or copies it from another file system.
pub(super) fn link(file: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    let real = file
        .canonicalize()
        .with_context(|| format!("failed to find {}", file.display()))?;
    let target = into.join(file.file_name().expect("a file has a name"));
    fs::hard_link(&real, &target)
        .or_else(|_| fs::copy(&real, &target).map(drop))
        .with_context(|| format!("failed to copy {}", file.display()))
}
