//! The guest's initramfs: the cached archives of tools and modules, and one made for each boot with the
//! programs, the plan and what is shared.

use std::fs::{self, File};
use std::io::Write;

use anyhow::{Context, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::cpio::Archive;
use super::{Machine, VmSpec};
use crate::plan::{Module, PLAN_PATH, Plan};
use crate::setup::kernels::modules;

/// Writes the initramfs into memory: no file is left behind, however the boot ends.
pub(super) fn write(machine: &Machine, spec: &VmSpec) -> Result<File> {
    let memory = memfd_create("initramfs", MFdFlags::MFD_CLOEXEC)
        .context("failed to get memory for the initramfs")?;
    let mut file = File::from(memory);
    file.write_all(&read(&machine.tools)?)?;
    if let Some(dir) = &machine.kernel.modules {
        file.write_all(&read(&dir.join("modules.cpio"))?)?;
    }
    file.write_all(&own_part(machine, spec)?)?;
    Ok(file)
}

fn own_part(machine: &Machine, spec: &VmSpec) -> Result<Vec<u8>> {
    let mut cpio = Archive::new();
    for dir in &spec.share {
        cpio.add_tree(dir, "t")
            .with_context(|| format!("failed to share {}", dir.display()))?;
    }
    cpio.add_file(
        "usr/local/bin/cowprobe",
        0o755,
        &read(&machine.programs.cowprobe)?,
    );
    cpio.add_file(
        "usr/local/bin/guest",
        0o755,
        &read(&machine.programs.guest)?,
    );
    cpio.add_symlink("init", "/usr/local/bin/guest");
    let plan = serde_json::to_vec(&plan(machine, spec)?)?;
    cpio.add_file(PLAN_PATH.trim_start_matches('/'), 0o644, &plan);
    Ok(cpio.finish())
}

fn plan(machine: &Machine, spec: &VmSpec) -> Result<Plan> {
    let mut modules = Vec::new();
    if let Some(dir) = &machine.kernel.modules {
        let mut names = vec!["virtio_pci".to_owned(), "virtio_console".to_owned()];
        if spec.rootfs {
            names.extend(["virtio_blk", "ext4"].map(str::to_owned));
        }
        names.extend(spec.modules.iter().cloned());
        modules = modules::load_order(dir, &machine.kernel.name, &names)?
            .into_iter()
            .map(|path| Module {
                parameters: parameters(&path, spec),
                path,
            })
            .collect();
    }
    Ok(Plan {
        command: spec.command.clone(),
        modules,
        rootfs: spec.rootfs,
        bring_back: spec.out.is_some(),
    })
}

fn parameters(path: &str, spec: &VmSpec) -> String {
    if path.ends_with("/brd.ko") {
        let disks = spec.ram_disks;
        format!("rd_nr={} rd_size={}", disks.count, disks.size_kib)
    } else {
        String::new()
    }
}

fn read(file: &std::path::Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("failed to read {}", file.display()))
}
