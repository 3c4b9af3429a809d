//! The one room that speaks to the kernel and names aya: loads and attaches the
//! probes, reads their maps, asks for losses, and looks up what this kernel has.

mod attach;
mod bpf;
mod btf;
mod check;
mod error;
mod grace;
mod listed;
mod load;
mod object;
mod others;
mod perf;
mod privileges;
mod probes;
mod rights;
mod seen;
mod shared;
mod symbols;
mod system;
mod task;
mod variant;

pub(crate) use error::AttachError;
pub(crate) use object::sha256 as object_sha256;
pub(crate) use privileges::give_up as give_up_privileges;
pub(crate) use probes::Probes;
pub(crate) use rights::{
    lockdown, missing_capabilities, needed_capabilities, perf_event_paranoid, preemption,
};
pub(crate) use seen::Seen as OthersSeen;
pub(crate) use symbols::{Symbols, btrfs_is_there, btrfs_presence, is_blacklisted};
pub(crate) use system::{identity, kprobes_armed, module_instance, monotonic_ns};
pub(crate) use task::is_right as is_right_flags_offset;
pub(crate) use variant::{has_btf, is_in_btf, variant};
