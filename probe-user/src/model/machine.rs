//! What a kernel was built from and runs on. These values are written into a record as
//! they are: a field that is not known is `None`, and nothing here names a person or a
//! host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What tells one build of a kernel from another of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Build {
    /// Compiler and linker, as /proc/version names them.
    pub(crate) compiler: Option<String>,
    /// SHA-256 of the configuration's text.
    pub(crate) config_sha256: Option<String>,
    /// The file that has it.
    pub(crate) config_source: Option<String>,
    /// The GNU build id of the kernel image, in hexadecimal.
    pub(crate) kernel_build_id: Option<String>,
    /// The same of btrfs; `null` where it is built in.
    pub(crate) btrfs_build_id: Option<String>,
    /// The bits of /proc/sys/kernel/tainted.
    pub(crate) taint: Option<u64>,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Hardware {
    pub(crate) cpu_model: Option<String>,
    pub(crate) microcode: Option<String>,
    /// The processor says that it is one of a virtual machine; `null` where it does not
    /// say either.
    pub(crate) virtual_machine: Option<bool>,
    /// As a list, such as "0-3,8".
    pub(crate) cpus_online: Option<String>,
    pub(crate) cpus_possible: Option<String>,
    /// Whether threads share a core.
    pub(crate) smt_active: Option<bool>,
    /// As a list.
    pub(crate) numa_nodes: Option<String>,
    pub(crate) numa_balancing: Option<bool>,
    pub(crate) memory_kib: Option<u64>,
    pub(crate) clocksource: Option<String>,
    /// `cpufreq`'s driver, governor and preference, each value that some CPU has; empty
    /// without cpufreq.
    pub(crate) scaling_driver: Vec<String>,
    pub(crate) scaling_governor: Vec<String>,
    pub(crate) energy_performance_preference: Vec<String>,
    pub(crate) turbo: Option<bool>,
    /// What the kernel says of each vulnerability of the processor, by its name.
    pub(crate) mitigations: BTreeMap<String, String>,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct BlockDevice {
    /// The kernel's name for it, such as "ram0".
    pub(crate) name: String,
    /// Who has its major number in /proc/devices: "ramdisk" for brd, "zram", "loop" …
    pub(crate) driver: Option<String>,
    pub(crate) bytes: Option<u64>,
    pub(crate) rotational: Option<bool>,
}
