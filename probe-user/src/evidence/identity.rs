//! What a record says of the program, the kernel, the machine and its filesystems.

use serde::Serialize;

use crate::model::{BlockDevice, Build, Hardware};

/// A filesystem.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct FilesystemRecord {
    /// `s_dev` of its super block, as mountinfo shows it.
    pub(crate) device: String,
    /// Where it was seen first.
    pub(crate) mount_point: Option<String>,
    pub(crate) fsid: Option<String>,
    /// What was mounted, such as "/dev/ram0"; `null`, as the rest, if it was not seen.
    pub(crate) source: Option<String>,
    /// Of that mount.
    pub(crate) mount_options: Option<String>,
    /// Of the filesystem.
    pub(crate) super_options: Option<String>,
    /// The device that the source is; of several it is the first.
    pub(crate) block_device: Option<BlockDevice>,
}

/// What `cowprobe check --json` writes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct CheckRecord {
    /// Always `cowprobe-check-1`.
    #[cfg_attr(test, schemars(extend("const" = "cowprobe-check-1")))]
    pub(crate) schema: &'static str,
    pub(crate) identity: IdentityRecord,
    /// The live mode: "none", "voluntary", "full" or "lazy".
    pub(crate) preemption: Option<String>,
    /// "none", "integrity" or "confidentiality".
    pub(crate) lockdown: Option<String>,
    pub(crate) perf_event_paranoid: Option<i32>,
    /// What probing takes here.
    pub(crate) needed_capabilities: Vec<&'static str>,
    /// What of it this process lacks.
    pub(crate) missing_capabilities: Vec<&'static str>,
    pub(crate) kernel_btf: bool,
    /// btrfs' own, or the kernel's if btrfs is built in.
    pub(crate) btrfs_btf: bool,
    /// `null` if it cannot be read.
    pub(crate) kprobes_armed: Option<bool>,
    /// Whether the kernel tells what probes miss; `null` if none was attached.
    pub(crate) misses_told: Option<bool>,
    /// How `run` and `watch` probe here.
    #[cfg_attr(test, schemars(extend("enum" = ["kprobe"])))]
    pub(crate) hook: &'static str,
    pub(crate) targets: Vec<CheckTargetRecord>,
    /// What stands in the way, a line each.
    pub(crate) problems: Vec<String>,
}

impl CheckRecord {
    /// This version's name.
    pub(crate) const SCHEMA: &'static str = "cowprobe-check-1";
}

/// What `check` found of one target.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct CheckTargetRecord {
    pub(crate) symbol: String,
    /// The module that holds it; `null` if it is built in or absent.
    pub(crate) module: Option<String>,
    pub(crate) required: bool,
    pub(crate) available: bool,
    /// Its probes were attached, for a moment.
    pub(crate) traceable: bool,
}

/// The program that made the record.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Tool {
    #[cfg_attr(test, schemars(extend("const" = "cowprobe")))]
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Its own command line.
    pub(crate) argv: Vec<String>,
    /// SHA-256 of the BPF object, in hexadecimal.
    pub(crate) ebpf_sha256: Option<String>,
}

/// The kernel that it ran on.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct IdentityRecord {
    /// `uname -r`.
    pub(crate) release: String,
    /// `uname -v`.
    pub(crate) version: String,
    /// `uname -m`.
    pub(crate) machine: String,
    pub(crate) boot_id: Option<String>,
    /// The kernel's own command line.
    pub(crate) command_line: Option<String>,
    /// The live mode, whatever the command line asks for: "none", "voluntary", "full"
    /// or "lazy"; `null` where it is fixed or cannot be read.
    pub(crate) preemption: Option<String>,
    /// With `--with-host-name` alone.
    pub(crate) host_name: Option<String>,
    pub(crate) build: Build,
    pub(crate) hardware: Hardware,
    pub(crate) inhibition: VariantRecord,
}

/// How the kernel inhibits writeback.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct VariantRecord {
    /// "xarray", "inline-buffer", "none" or "unknown".
    #[cfg_attr(test, schemars(extend("enum" = ["xarray", "inline-buffer", "none", "unknown"])))]
    pub(crate) variant: &'static str,
    /// The slots of an inline buffer.
    pub(crate) slots: Option<usize>,
}
