//! The one room that speaks to the kernel and names aya: loads and attaches the
//! probes, reads their maps, asks for losses, and looks up what this kernel has.

mod bpf;
mod btf;
mod object;
mod probes;
mod symbols;
mod system;
mod variant;

pub(crate) use object::sha256 as object_sha256;
pub(crate) use probes::{Edge, Probes};
pub(crate) use symbols::{Presence, Symbols, btrfs_is_there};
pub(crate) use system::{Identity, monotonic_ns};
pub(crate) use variant::Variant;
