//! The toolchain that compiles the eBPF crate: a rustc with the sources of its own library, and a
//! bpf-linker that uses the LLVM of that rustc. It is kept by rustc's version and commit, so another
//! rustc gets another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::{self, Made};
use crate::process;
use crate::repository;

mod linker;
mod rustc_web;
mod sources;

/// The rustc that the workspace is built with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rustc {
    /// Its version, such as 1.95.0.
    pub(crate) release: String,
    /// The first digits of its commit.
    commit: String,
    /// The target triple that it runs on.
    pub(crate) host: String,
    /// The major version of its LLVM.
    llvm: String,
}

/// A toolchain that can build for `bpfel-unknown-none`.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    /// What `rustup run` takes: an absolute path.
    pub(crate) dir: PathBuf,
    /// The directory that holds bpf-linker.
    pub(crate) linker_dir: PathBuf,
}

/// Makes the toolchain, unless it is there, and notes it in the cache as the current one.
pub(crate) fn ensure() -> Result<(Toolchain, Made)> {
    let rustc = Rustc::active()?;
    let home = cache::dir()?.join("ebpf");
    let base = home.join(format!("{}-{}", rustc.release, rustc.commit));
    let (dir, first) = match own_sources(&sysroot()?) {
        Some(sysroot) => (sysroot, Made::Present),
        None => sources::ensure(&rustc, &base)?,
    };
    let (linker_dir, second) = linker::ensure(&dir, &base)?;
    let current = home.join("current");
    let note = format!("{}\n{}\n", dir.display(), linker_dir.display());
    if fs::read_to_string(&current).ok().as_ref() != Some(&note) {
        cache::write(&current, &note)?;
    }
    let made = if first == Made::Made { first } else { second };
    Ok((Toolchain { dir, linker_dir }, made))
}

impl Rustc {
    /// Asks the rustc that is active in the repository.
    pub(crate) fn active() -> Result<Self> {
        Self::parse(&process::read(
            Command::new("rustc").arg("-vV").current_dir(repository()),
        )?)
    }

    /// Asks the rustc of a toolchain.
    fn of(toolchain: &Path) -> Result<Self> {
        Self::parse(&process::read(
            rustup_run(toolchain).args(["rustc", "-vV"]),
        )?)
    }

    fn parse(said: &str) -> Result<Self> {
        let field = |name: &str| {
            said.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .with_context(|| format!("rustc -vV says no {name}"))
        };
        let digits = |text: &str, end: usize| text.get(..end).unwrap_or(text).to_owned();
        let llvm = field("LLVM version")?;
        Ok(Self {
            release: field("release")?.to_owned(),
            commit: digits(field("commit-hash")?, 9),
            host: field("host")?.to_owned(),
            llvm: llvm.split('.').next().unwrap_or(llvm).to_owned(),
        })
    }
}

/// The sysroot of the active rustc.
fn sysroot() -> Result<PathBuf> {
    let mut command = Command::new("rustc");
    command
        .args(["--print", "sysroot"])
        .current_dir(repository());
    Ok(PathBuf::from(process::read(&mut command)?.trim_end()))
}

/// The toolchain itself, if it has the sources of its library.
fn own_sources(toolchain: &Path) -> Option<PathBuf> {
    let core = toolchain.join("lib/rustlib/src/rust/library/core/src/lib.rs");
    core.is_file().then(|| toolchain.to_owned())
}

fn rustup_run(toolchain: &Path) -> Command {
    let mut command = Command::new("rustup");
    command.arg("run").arg(toolchain);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustc_says_who_it_is() {
        let said = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\n\
                    commit-hash: 59807616e1fa2540724bfbac14d7976d7e4a3860\n\
                    commit-date: 2026-04-14\nhost: x86_64-unknown-linux-gnu\n\
                    release: 1.95.0\nLLVM version: 22.1.2\n";
        let rustc = Rustc::parse(said).unwrap();
        assert_eq!(rustc.release, "1.95.0");
        assert_eq!(rustc.commit, "59807616e");
        assert_eq!(rustc.host, "x86_64-unknown-linux-gnu");
        assert_eq!(rustc.llvm, "22");
        assert!(Rustc::parse("rustc 1.95.0").is_err());
    }
}
