//! What needs no guest: form, lints and unit tests.

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::report::Part;
use crate::setup::ebpf;
use crate::{build_cmd, process, repository};

/// A part's name and what it does.
type Named = (&'static str, fn(&mut Part));

/// The parts, cheapest first.
pub(super) const PARTS: &[Named] = &[
    ("format", |part| part.check(format())),
    ("clippy, host", |part| part.check(clippy_host())),
    ("clippy, eBPF", |part| part.check(clippy_ebpf())),
    ("unit tests", |part| unit_tests(part, &[])),
    ("README", |part| part.check(readme())),
];

/// What takes long: with `--full` alone.
pub(super) const LONG_PARTS: &[Named] = &[("unit tests, long", |part| {
    unit_tests(part, &["--release", "--bins", "--", "--ignored"]);
})];

fn format() -> Result<()> {
    process::run_shown(build_cmd::plain_cargo().args(["fmt", "--all", "--check"]))
}

fn clippy_host() -> Result<()> {
    let mut cargo = build_cmd::cargo()?;
    cargo.args([
        "clippy",
        "--quiet",
        "--locked",
        "--workspace",
        "--all-targets",
        "--features",
        build_cmd::REFEREE_FEATURE,
    ]);
    process::run_shown(cargo.args(["--", "-D", "warnings"]))
}

/// Lints the programs with the flags that aya-build compiles them with.
fn clippy_ebpf() -> Result<()> {
    let (toolchain, _) = ebpf::ensure()?;
    let mut command = Command::new("rustup");
    command
        .arg("run")
        .arg(&toolchain.dir)
        .args(["cargo", "clippy", "--quiet", "--locked", "--release"])
        .args(["--package", "probe-ebpf", "--features", "program", "--bins"])
        .args(["--target", "bpfel-unknown-none", "-Z", "build-std=core"])
        .arg("--target-dir")
        .arg(build_cmd::target_dir().join("clippy-ebpf"))
        .args(["--", "-D", "warnings"])
        .current_dir(repository())
        .env("RUSTC_BOOTSTRAP", "1")
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            "--cfg=bpf_target_arch=\"x86_64\"",
        )
        .env_remove("RUSTC")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    process::run_shown(&mut command)
}

/// Types what the README has for a checkout. The other blocks are typed in a guest, and
/// this program is what `cargo xtask test` is.
fn readme() -> Result<()> {
    let text = fs::read_to_string(repository().join("README.md"))?;
    let blocks = text.split("\n```sh\n").skip(1);
    let blocks = blocks.filter_map(|rest| Some(rest.split_once("\n```")?.0));
    let mut typed = 0;
    for block in blocks.filter(|block| block.starts_with("cargo ")) {
        let lines = block.split('\n').filter(|line| *line != "cargo xtask test");
        let lines: Vec<_> = lines.collect();
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &lines.join("\n")]);
        process::run_shown(shell.current_dir(repository()).stdin(Stdio::null()))?;
        typed += 1;
    }
    ensure!(typed > 2, "{typed} blocks");
    Ok(())
}

fn unit_tests(part: &mut Part, more: &[&str]) {
    let (passed, result) = match cargo_test(more) {
        Ok((passed, failed, said)) => (passed, {
            let named = failed.join(", ");
            if failed.is_empty() {
                Ok(())
            } else {
                Err(anyhow::anyhow!("{named}\n{said}"))
            }
        }),
        Err(error) => (0, Err(error)),
    };
    part.passed(passed);
    if let Err(error) = result {
        part.failed(format!("{error:#}"));
    }
}

/// Runs all unit and command line tests, or those that are asked for; returns how many passed and the names of those
/// that failed.
fn cargo_test(more: &[&str]) -> Result<(usize, Vec<String>, String)> {
    let mut cargo = build_cmd::cargo()?;
    cargo.args([
        "test",
        "--quiet",
        "--locked",
        "--workspace",
        "--features",
        build_cmd::REFEREE_FEATURE,
        "--no-fail-fast",
    ]);
    cargo.args(more);
    if !more.contains(&"--") {
        cargo.arg("--");
    }
    cargo.args(["--format", "pretty"]);
    let output = cargo
        .stdin(Stdio::null())
        .output()
        .context("failed to start cargo test")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let ended = |how: &'static str| {
        let line = move |line: &str| {
            line.strip_prefix("test ")?
                .strip_suffix(how)
                .map(str::to_owned)
        };
        said.lines().filter_map(line).collect::<Vec<_>>()
    };
    let (passed, failed) = (ended(" ... ok").len(), ended(" ... FAILED"));
    let all = format!("{}{said}", String::from_utf8_lossy(&output.stderr));
    ensure!(
        output.status.success() || !failed.is_empty(),
        "cargo test ended with {}:\n{all}",
        output.status
    );
    ensure!(passed > 0, "cargo test ran no test:\n{all}");
    Ok((passed, failed, all))
}
