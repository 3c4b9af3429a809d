//! The table of targets. A target is data: its symbol, what its absence means,
//! and what its calls can tell.

use probe_ebpf::{DECODE_ERRNO, DECODE_REMAP_FLAGS};

/// Whether a run can do without a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Its absence fails the run.
    Required,
}

impl Need {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
        }
    }
}

/// How a target's calls divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// They do not.
    One,
    /// Clone and dedupe, by `remap_flags`.
    CloneDedupe,
}

/// A kernel function to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The function's name, exactly.
    pub(crate) symbol: &'static str,
    /// The module that it is looked for in; built in, it belongs to vmlinux.
    pub(crate) module: &'static str,
    pub(crate) need: Need,
    pub(crate) kinds: Kinds,
    /// Whether the function returns a signed value, negative for errors.
    pub(crate) returns_errno: bool,
}

impl Target {
    /// The decoder bits of the contract.
    pub(crate) const fn decoder(&self) -> u32 {
        let kinds = match self.kinds {
            Kinds::One => 0,
            Kinds::CloneDedupe => DECODE_REMAP_FLAGS,
        };
        if self.returns_errno {
            kinds | DECODE_ERRNO
        } else {
            kinds
        }
    }
}

/// The three functions of the writeback inhibition, in the order of every output.
/// Signatures: `fs/btrfs/reflink.c` and `fs/btrfs/extent_io.c` of Linux 7.2 and 7.3.
pub(crate) const TARGETS: [Target; 3] = [
    Target {
        symbol: "btrfs_remap_file_range",
        module: "btrfs",
        need: Need::Required,
        kinds: Kinds::CloneDedupe,
        returns_errno: true,
    },
    Target {
        symbol: "btrfs_inhibit_eb_writeback",
        module: "btrfs",
        need: Need::Required,
        kinds: Kinds::One,
        returns_errno: false,
    },
    Target {
        symbol: "btrfs_uninhibit_all_eb_writeback",
        module: "btrfs",
        need: Need::Required,
        kinds: Kinds::One,
        returns_errno: false,
    },
];
