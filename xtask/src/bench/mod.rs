//! `cargo xtask bench`: figures that are printed and judged by nobody here.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Subcommand;

use crate::build_cmd;
use crate::setup::kernels::Request;
use crate::step::Step;
use crate::vm::{Machine, VmSpec};

mod overhead;
mod startup;

/// What is measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// From start to attached, detaching, memory and size, beside bpftrace in one guest
    Startup(startup::Args),
    /// What a hit costs, by tool and hook, in a guest whose clock counts instructions
    Overhead(overhead::Args),
}

/// Measures in a guest and prints a table, or JSON.
pub(crate) fn run(bench: &Bench) -> Result<ExitCode> {
    match bench {
        Bench::Startup(args) => startup::run(args),
        Bench::Overhead(args) => overhead::run(args),
    }
}

/// What all of them take.
#[derive(clap::Args)]
struct Common {
    /// The kernel to boot: a version, a file, or the name of an image
    #[arg(long, value_name = "VERSION|IMAGE", default_value = "newest")]
    kernel: String,
    /// Print what the guest said, as JSON
    #[arg(long)]
    json: bool,
}

impl Common {
    /// Has the referee measure, and returns the kernel's name and what the referee said.
    fn measured(&self, suite: &str, icount: bool) -> Result<(String, String)> {
        let request = Request::parse(&self.kernel)?;
        let machine = Machine::prepare(&request, true)?;
        let share = build_cmd::referee_alone()?;
        let mut spec = VmSpec::new(format!("/t/referee {suite}")).in_rootfs();
        spec.share = vec![share.path().to_owned()];
        spec.icount = icount;
        let step = Step::start(format!("boot {} and measure", machine.kernel.name));
        let result = machine.boot(&spec)?;
        step.done();
        let said = String::from_utf8_lossy(&result.stdout).into_owned();
        ensure!(
            result.status == 0,
            "the guest failed: {said}{}",
            String::from_utf8_lossy(&result.stderr)
        );
        Ok((machine.kernel.name, said))
    }
}
