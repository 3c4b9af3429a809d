//! `cargo xtask setup`: installs and makes what the other commands need. Each part can be had on its
//! own, so a command makes sure of no more than it uses.

use std::process::ExitCode;

use anyhow::Result;

use crate::cache::{self, Made};
use crate::step;

pub(crate) mod archive;
pub(crate) mod ebpf;
pub(crate) mod guest_tools;
pub(crate) mod kernels;
pub(crate) mod packages;
pub(crate) mod rootfs;

/// Options of `cargo xtask setup`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also make what only some tests need: the Debian image and the older kernels
    #[arg(long)]
    all: bool,
    /// The kernels to fetch
    #[arg(long, value_name = "VERSION", default_value = "newest")]
    kernel: Vec<String>,
}

/// The kernels that the tests boot beside the newest.
const OLDER_KERNELS: [&str; 2] = ["7.2", "6.12"];

/// Makes sure of everything and says of each part whether it was there.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let wanted = [packages::BUILD, packages::KERNEL, packages::VM].concat();
    let wanted = if args.all {
        [&wanted, packages::ROOTFS].concat()
    } else {
        wanted
    };
    let installed = packages::ensure(&wanted)?;
    if installed.is_empty() {
        println!("present    packages");
    } else {
        println!("installed  {}", installed.join(", "));
    }
    let (toolchain, made) = ebpf::ensure()?;
    say(made, &format!("eBPF toolchain {}", toolchain.dir.display()));
    let (_, made) = guest_tools::ensure()?;
    say(made, "tools for the guest");
    let mut kernels: Vec<&str> = args.kernel.iter().map(String::as_str).collect();
    if args.all {
        kernels.extend(OLDER_KERNELS);
    }
    for wish in kernels {
        let (kernel, made) = kernels::Request::parse(wish)?.ensure()?;
        say(made, &format!("kernel {}", kernel.name));
    }
    if args.all {
        let (_, made) = rootfs::ensure()?;
        say(made, "Debian image for the guest");
    }
    println!("cache      {}", cache::dir()?.display());
    for step in step::finished() {
        println!("{:>8.1} s {}", step.took.as_secs_f64(), step.name);
    }
    Ok(ExitCode::SUCCESS)
}

fn say(made: Made, what: &str) {
    let made = match made {
        Made::Present => "present",
        Made::Made => "made",
    };
    println!("{made:<10} {what}");
}
