//! Builds static binaries: cowprobe for the user and the guest, and the guest's init.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::cache;
use crate::process;
use crate::repository;
use crate::setup::ebpf;
use crate::setup::packages;
use crate::step::Step;

/// Options of `cargo xtask build`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build with optimisation (the default)
    #[arg(long, conflicts_with = "debug")]
    release: bool,
    /// Build fast and without optimisation
    #[arg(long)]
    debug: bool,
}

/// What a guest runs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The tool itself.
    pub(crate) cowprobe: PathBuf,
    /// The guest's init.
    pub(crate) guest: PathBuf,
}

/// Builds cowprobe and says where it is.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let profile = if args.debug { "debug" } else { "release" };
    let (mut cargo, mut built) = prepare(profile, &[COWPROBE])?;
    process::run_shown(&mut cargo)?;
    let cowprobe = built.remove(0);
    let place = target_dir().join(profile).join("cowprobe");
    fs::create_dir_all(place.parent().expect("it has a directory"))?;
    cache::remove(&place)?;
    fs::hard_link(&cowprobe, &place)
        .or_else(|_| fs::copy(&cowprobe, &place).map(drop))
        .with_context(|| format!("failed to write {}", place.display()))?;
    println!("{}", place.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds what a guest runs. The compiler's warnings are not shown here: this is for those who want to
/// boot.
pub(crate) fn programs() -> Result<Programs> {
    let mut built = build("build cowprobe and the guest's init", &[COWPROBE, GUEST])?;
    let guest = for_guest(&built.remove(1))?;
    let cowprobe = for_guest(&built.remove(0))?;
    Ok(Programs { cowprobe, guest })
}

/// A copy without debug information, which is most of a binary: an emulated processor takes a second to
/// unpack it at each boot.
fn for_guest(binary: &Path) -> Result<PathBuf> {
    let name = binary.file_name().expect("a binary has a name");
    let dir = binary.with_file_name("for-guest");
    let copy = dir.join(name);
    let time = |file: &Path| fs::metadata(file).and_then(|found| found.modified());
    if !matches!((time(&copy), time(binary)), (Ok(copied), Ok(built)) if copied > built) {
        fs::create_dir_all(&dir)?;
        let fresh = tempfile::NamedTempFile::new_in(&dir)?;
        process::run(
            Command::new("strip")
                .args(["--strip-debug", "-o"])
                .arg(fresh.path())
                .arg(binary),
        )?;
        fresh.persist(&copy)?;
    }
    Ok(copy)
}

/// Builds what judges cowprobe inside a guest.
fn referee() -> Result<PathBuf> {
    let (mut cargo, mut built) = prepare("release", &[REFEREE])?;
    let step = Step::start("build the referee");
    process::run_told(&mut cargo)?;
    step.done();
    Ok(built.remove(0))
}

fn build(step: &str, binaries: &[Binary]) -> Result<Vec<PathBuf>> {
    let (mut cargo, built) = prepare("release", binaries)?;
    let step = Step::start(step);
    process::run_told(&mut cargo)?;
    step.done();
    Ok(built)
}

/// The referee alone in a directory, for a guest to share.
pub(crate) fn referee_alone() -> Result<TempDir> {
    let share = tempfile::tempdir().context("failed to make a directory for the referee")?;
    fs::copy(referee()?, share.path().join("referee")).context("failed to copy the referee")?;
    Ok(share)
}

/// A package and its binary.
type Binary = (&'static str, &'static str);

const COWPROBE: Binary = ("probe-user", "cowprobe");
const GUEST: Binary = ("xtask", "guest");
const REFEREE: Binary = ("xtask", "referee");
/// What builds it.
pub(crate) const REFEREE_FEATURE: &str = "xtask/referee";

/// The call of cargo that builds these binaries, and where they will be.
fn prepare(profile: &str, binaries: &[Binary]) -> Result<(Command, Vec<PathBuf>)> {
    let host = ebpf::Rustc::active()?.host;
    let mut cargo = cargo()?;
    // The flags are for one target by name, so build scripts and procedural macros, which are built
    // without one, stay dynamic.
    let flags = format!(
        "CARGO_TARGET_{}_RUSTFLAGS",
        host.replace('-', "_").to_uppercase()
    );
    cargo.env(flags, "-C target-feature=+crt-static");
    // By name, because the user's cargo may be set up to build elsewhere.
    let target_dir = target_dir();
    cargo.args(["build", "--locked", "--target", &host]);
    cargo.arg("--target-dir").arg(&target_dir);
    if profile == "release" {
        cargo.arg("--release");
    }
    for (package, binary) in binaries {
        cargo.args(["-p", package, "--bin", binary]);
        if (package, binary) == (&REFEREE.0, &REFEREE.1) {
            cargo.args(["--features", REFEREE_FEATURE]);
        }
    }
    let dir = target_dir.join(&host).join(profile);
    let built = binaries
        .iter()
        .map(|(_, binary)| dir.join(binary))
        .collect();
    Ok((cargo, built))
}

/// Cargo, told where the eBPF toolchain for probe-user's build script is.
pub(crate) fn cargo() -> Result<Command> {
    packages::ensure(packages::BUILD)?;
    let (toolchain, _) = ebpf::ensure()?;
    let mut command = plain_cargo();
    command
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("COWPROBE_EBPF_TOOLCHAIN", &toolchain.dir)
        .env("COWPROBE_BPF_LINKER_DIR", &toolchain.linker_dir);
    Ok(command)
}

/// Cargo in the repository, for what compiles nothing.
pub(crate) fn plain_cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(repository());
    command
}

/// Where cargo builds.
pub(crate) fn target_dir() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    repository().join(named.unwrap_or_else(|| PathBuf::from("target")))
}
