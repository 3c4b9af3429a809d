//! The one room that speaks to the kernel and names aya: loads and attaches the
//! probes, reads their maps, asks for losses, and looks up what this kernel has.

mod attach;
mod blob;
mod bpf;
mod btf;
mod check;
mod error;
mod follow;
mod grace;
mod listed;
mod load;
mod machine;
mod mounts;
mod object;
mod others;
mod perf;
mod privileges;
mod probed;
mod probes;
mod processes;
mod reach;
mod rights;
mod seen;
mod shared;
mod symbols;
mod system;
mod task;
mod variant;

pub(crate) use blob::has_btf;
pub(crate) use error::{AttachError, permitted};
pub(crate) use machine::host_name;
pub(crate) use mounts::{mount_of, mounts, open_mountinfo};
pub(crate) use object::sha256 as object_sha256;
pub(crate) use privileges::give_up as give_up_privileges;
pub(crate) use probed::probed;
pub(crate) use probes::{Probes, Wanted, Workload};
pub(crate) use reach::reaches;
pub(crate) use rights::{lockdown, missing_capabilities, needed_capabilities, perf_event_paranoid};
pub(crate) use seen::Seen as OthersSeen;
pub(crate) use symbols::{Symbols, btrfs_is_there, btrfs_presence, is_blacklisted};
pub(crate) use system::{identity, kprobes_armed, module_instance, monotonic_ns};
pub(crate) use variant::{is_in_btf, variant};
