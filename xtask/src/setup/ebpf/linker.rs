//! bpf-linker, built to use the LLVM of the rustc that it serves, so that no LLVM is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Rustc;
use crate::cache::{self, Made};
use crate::process;
use crate::repository;
use crate::step::Step;

/// Later versions no longer take rustc's own LLVM.
const VERSION: &str = "0.10.4";

/// Builds the linker for a toolchain, unless it is there, and answers with its directory.
pub(super) fn ensure(toolchain: &Path, base: &Path) -> Result<(PathBuf, Made)> {
    let home = base.join(format!("bpf-linker-{VERSION}"));
    let made = cache::make(&home, |work| {
        let llvm = Rustc::of(toolchain)?.llvm;
        let step = Step::start(format!("build bpf-linker {VERSION} for LLVM {llvm}"));
        let product = work.join("product");
        // Outside the repository's configuration: this is no part of the workspace.
        let mut cargo = Command::new("cargo");
        cargo
            .current_dir(repository())
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("CARGO_BUILD_TARGET")
            .args([
                "install",
                "bpf-linker",
                "--version",
                VERSION,
                "--locked",
                "--debug",
            ])
            .args(["--no-default-features", "--features"])
            .arg(format!("llvm-{llvm},rust-llvm-{llvm}"))
            .arg("--root")
            .arg(&product)
            .arg("--target-dir")
            .arg(work.join("build"));
        process::run(&mut cargo).context("failed to build bpf-linker")?;
        step.done();
        Ok(product)
    })?;
    Ok((home.join("bin"), made))
}
