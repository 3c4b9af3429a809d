//! Sets up, builds, boots and tests cowprobe; `cargo xtask --help` lists what it can do.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod build_cmd;
mod cache;
mod demo;
mod plan;
mod process;
mod setup;
mod step;
mod test;
mod vm;

#[derive(Parser)]
#[command(name = "cargo xtask", about, version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install and make everything that is missing
    Setup(setup::Args),
    /// Build cowprobe as one static binary in target/release
    Build(build_cmd::Args),
    /// Run a shell command as root in a guest with the kernel of your choice
    Vm(vm::Args),
    /// From nothing to a table of the three functions, counted on the newest kernel
    Demo(demo::Args),
    /// Measure in a guest
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Check form, lints, unit tests, and cowprobe in guests beside two referees
    Test(test::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Setup(args) => setup::run(&args),
        Task::Build(args) => build_cmd::run(&args),
        Task::Vm(args) => vm::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Bench(bench) => bench::run(&bench),
        Task::Test(args) => Ok(test::run(&args)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

/// The root of this repository.
pub(crate) fn repository() -> PathBuf {
    let member = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    member
        .parent()
        .expect("the member is in the workspace")
        .to_owned()
}
