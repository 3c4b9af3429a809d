//! `cargo xtask vm`: one guest from the command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use super::{Machine, Output, VmSpec};
use crate::setup::kernels;

/// Options of `cargo xtask vm`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A version (7.3, 7.2.12, newest), an image file, or the name of an image in `$COWPROBE_KERNELS`
    #[arg(long, value_name = "VERSION|IMAGE", default_value = "newest")]
    kernel: String,
    /// Let the guest's clock count instructions, 1 ns each, so that times are repeatable
    #[arg(long)]
    icount: bool,
    /// Virtual CPUs
    #[arg(long, value_name = "N", default_value_t = 1)]
    smp: u32,
    /// Memory [default: 1024, or 2048 with --rootfs]
    #[arg(long, value_name = "MIB")]
    mem: Option<u32>,
    /// More arguments for the kernel
    #[arg(
        long,
        value_name = "ARGS",
        default_value = "",
        hide_default_value = true
    )]
    append: String,
    /// Run the command in a Debian userland with bpftrace, perf, trace-cmd and fio
    #[arg(long)]
    rootfs: bool,
    /// The modules to load, or "none"; what is built in needs none
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "btrfs,brd"
    )]
    modules: Vec<String>,
    /// A directory whose content is to be in the guest's /t, where the command starts
    #[arg(long, value_name = "DIR")]
    share: Vec<PathBuf>,
    /// Where to put what the command leaves in the guest's /out
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Limit of the whole boot in seconds [default: 120, or 300 with --rootfs]
    #[arg(long, value_name = "SECS")]
    timeout: Option<u64>,
    /// Show at the end what the kernel said
    #[arg(long)]
    console: bool,
    /// The shell command; several words are joined by spaces
    #[arg(last = true, required = true, value_name = "SHELL COMMAND")]
    command: Vec<String>,
}

/// Boots the guest, shows the command's output as it comes, and passes its status on.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let spec = spec(args);
    spec.check()?;
    let request = kernels::Request::parse(&args.kernel)?;
    let machine = Machine::prepare(&request, args.rootfs)?;
    let result = machine.boot(&spec)?;
    if args.console {
        eprintln!("{}", String::from_utf8_lossy(&result.console));
    }
    eprintln!(
        "xtask: {}: status {}, {} + {} bytes of output, {:.1} s in all; in the guest's time the command \
         started at {:.1} s and ran {:.1} s",
        machine.kernel.name,
        result.status,
        result.stdout.len(),
        result.stderr.len(),
        result.took.as_secs_f64(),
        result.started.as_secs_f64(),
        result.ran.as_secs_f64()
    );
    Ok(ExitCode::from(result.status))
}

fn spec(args: &Args) -> VmSpec {
    let mut spec = VmSpec::new(args.command.join(" "));
    if args.rootfs {
        spec = spec.in_rootfs();
    }
    spec.smp = args.smp;
    spec.icount = args.icount;
    spec.append.clone_from(&args.append);
    spec.share.clone_from(&args.share);
    spec.out.clone_from(&args.out);
    spec.output = Output::Shown;
    spec.mem_mib = args.mem.unwrap_or(spec.mem_mib);
    spec.limit = args.timeout.map_or(spec.limit, Duration::from_secs);
    spec.modules.clone_from(&args.modules);
    spec.modules.retain(|name| name != "none");
    spec
}
