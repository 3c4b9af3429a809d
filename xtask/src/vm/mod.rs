//! Guests: a kernel booted in QEMU for the time of one shell command.
//!
//! The processor is always emulated: a guest is the same on every machine, and the kernels of build
//! machines often cannot be trusted with hardware virtualisation.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

mod command;
pub(crate) mod cpio;
mod failure;
mod initramfs;
mod machine;
mod qemu;
mod streams;

pub(crate) use command::{Args, run};
pub(crate) use machine::Machine;

/// One boot.
#[derive(Clone, Debug)]
pub(crate) struct VmSpec {
    /// The shell command, run as root in `/t`.
    pub(crate) command: String,
    /// Virtual CPUs.
    pub(crate) smp: u32,
    /// Memory.
    pub(crate) mem_mib: u32,
    /// Make the guest's clock count instructions: 1 ns each.
    pub(crate) icount: bool,
    /// More of a kernel command line.
    pub(crate) append: String,
    /// Run the command in the Debian image.
    pub(crate) rootfs: bool,
    /// Directories whose content is in the guest's `/t`.
    pub(crate) share: Vec<PathBuf>,
    /// Where to put what the command leaves in `/out`.
    pub(crate) out: Option<PathBuf>,
    /// The limit of the whole boot, in the host's time.
    pub(crate) limit: Duration,
    /// The modules to load, by name, if they are not built in.
    pub(crate) modules: Vec<String>,
    /// The RAM disks `/dev/ram0` and so on.
    pub(crate) ram_disks: RamDisks,
    /// What happens with the command's output beside being collected.
    pub(crate) output: Output,
}

/// The block devices of brd.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RamDisks {
    /// How many.
    pub(crate) count: u32,
    /// How large each is.
    pub(crate) size_kib: u32,
}

/// What happens with the command's output beside being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// It is copied to our own stdout and stderr as it comes.
    Shown,
    /// Nothing.
    Quiet,
}

/// What came of a boot whose command came to its end.
#[derive(Debug)]
pub(crate) struct VmResult {
    /// The command's status; 128 + n if signal n killed it.
    pub(crate) status: u8,
    /// All that the command wrote to stdout.
    pub(crate) stdout: Vec<u8>,
    /// All that the command wrote to stderr.
    pub(crate) stderr: Vec<u8>,
    /// All that the kernel said.
    pub(crate) console: Vec<u8>,
    /// The whole boot in the host's time.
    pub(crate) took: Duration,
    /// The boot until the command started, in the guest's time.
    pub(crate) started: Duration,
    /// The command, in the guest's time.
    pub(crate) ran: Duration,
}

impl VmSpec {
    /// A boot for a command, quiet and with the defaults of `cargo xtask vm`.
    pub(crate) fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            smp: 1,
            mem_mib: 1024,
            icount: false,
            append: String::new(),
            rootfs: false,
            share: Vec::new(),
            out: None,
            limit: Duration::from_mins(2),
            modules: ["btrfs", "brd"].map(str::to_owned).into(),
            ram_disks: RamDisks {
                count: 2,
                size_kib: 512 << 10,
            },
            output: Output::Quiet,
        }
    }

    /// The same boot in the Debian image, with more memory and time.
    pub(crate) fn in_rootfs(mut self) -> Self {
        self.rootfs = true;
        self.mem_mib = self.mem_mib.max(2048);
        self.limit = self.limit.max(Duration::from_mins(5));
        self
    }

    fn check(&self) -> Result<()> {
        ensure!(
            !self.icount || self.smp == 1,
            "instructions can only be counted on one CPU: use --icount with --smp 1"
        );
        // QEMU 7.2 emulates no x2APIC.
        ensure!((1..=255).contains(&self.smp), "--smp takes 1 to 255");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_instructions_needs_one_cpu() {
        let mut spec = VmSpec::new("true");
        spec.icount = true;
        spec.check().unwrap();
        spec.smp = 2;
        assert!(spec.check().unwrap_err().to_string().contains("--smp 1"));
        spec.icount = false;
        spec.check().unwrap();
    }
}
