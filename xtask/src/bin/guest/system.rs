//! What a machine needs beside its file systems: modules, a name, and the loopback interface.

use std::ffi::CString;
use std::fs::{self, File};
use std::process::Command;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

use crate::plan::Module;

/// Loads the modules in order and sets up the rest.
pub(crate) fn set_up(modules: &[Module]) -> Result<()> {
    for module in modules {
        load(module).with_context(|| format!("failed to load {}", module.path))?;
    }
    fs::write("/proc/sys/kernel/hostname", "guest").context("failed to set the host's name")?;
    // A kernel without network is no fault.
    Command::new("/bin/ip")
        .args(["link", "set", "lo", "up"])
        .output()
        .context("failed to run ip from the initramfs")?;
    Ok(())
}

/// Seconds since the kernel's start.
pub(crate) fn uptime_s() -> Result<f64> {
    let text = fs::read_to_string("/proc/uptime").context("failed to read /proc/uptime")?;
    let first = text.split(' ').next().unwrap_or_default();
    first
        .parse()
        .with_context(|| format!("/proc/uptime says {text:?}"))
}

fn load(module: &Module) -> Result<()> {
    let file = File::open(&module.path)?;
    let parameters = CString::new(module.parameters.as_str())?;
    match finit_module(&file, &parameters, ModuleInitFlags::empty()) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
