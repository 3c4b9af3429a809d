//! bpf-linker, built to use the LLVM of the rustc that it serves, so that no LLVM is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Rustc;
use crate::cache::{self, Made};
use crate::process;
use crate::repository;
use crate::step::Step;

/// Later versions no longer take rustc's own LLVM.
const VERSION: &str = "0.10.4";

/// The major versions of LLVM that this version can use.
const LLVMS: [&str; 3] = ["20", "21", "22"];

/// Builds the linker for a toolchain, unless it is there, and answers with its directory.
pub(super) fn ensure(toolchain: &Path, base: &Path) -> Result<(PathBuf, Made)> {
    let home = base.join(format!("bpf-linker-{VERSION}"));
    let made = cache::make(&home, |work| {
        let llvm = Rustc::of(toolchain)?.llvm;
        let features = features(&llvm)?;
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
            .args(["--no-default-features", "--features", &features])
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

/// The features that make the linker use this LLVM of rustc.
fn features(llvm: &str) -> Result<String> {
    ensure!(
        LLVMS.contains(&llvm),
        "this rustc has LLVM {llvm}, and bpf-linker {VERSION} takes {} only: use rustc 1.95, which has \
         LLVM 22 (`rustup override set 1.95`)",
        LLVMS.join(", ")
    );
    Ok(format!("llvm-{llvm},rust-llvm-{llvm}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_llvm_is_refused_with_the_rustc_that_fits() {
        assert_eq!(features("22").unwrap(), "llvm-22,rust-llvm-22");
        for llvm in ["19", "23", ""] {
            let error = features(llvm).unwrap_err().to_string();
            assert!(error.contains("rustup override set 1.95"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
