//! Targets. A target is data: its symbol, what its absence means, and what its
//! calls can tell.

use probe_ebpf::{DECODE_ERRNO, DECODE_REMAP_FLAGS};

/// Whether a run can do without a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Its absence fails the run.
    Required,
    /// Its absence is said.
    Diagnostic,
}

impl Need {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Diagnostic => "diagnostic",
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The function's name, exactly.
    pub(crate) symbol: String,
    /// The only module in which it is meant; anywhere if it is `None`.
    pub(crate) module: Option<String>,
    pub(crate) need: Need,
    pub(crate) kinds: Kinds,
    /// Whether the function returns a signed value, negative for errors.
    pub(crate) returns_errno: bool,
}

impl Target {
    /// The three functions of the writeback inhibition, in the order of every
    /// output. Signatures: `fs/btrfs/reflink.c` and `fs/btrfs/extent_io.c` of Linux
    /// 7.2 and 7.3.
    pub(crate) fn three() -> [Self; 3] {
        let void = |symbol: &str| Self {
            symbol: symbol.to_owned(),
            // Built in, it is in no module.
            module: None,
            need: Need::Required,
            kinds: Kinds::One,
            returns_errno: false,
        };
        [
            Self {
                kinds: Kinds::CloneDedupe,
                returns_errno: true,
                ..void("btrfs_remap_file_range")
            },
            void("btrfs_inhibit_eb_writeback"),
            void("btrfs_uninhibit_all_eb_writeback"),
        ]
    }

    /// Any other function; nothing is known of its arguments and its return.
    pub(crate) fn other(module: Option<&str>, symbol: &str) -> Self {
        Self {
            symbol: symbol.to_owned(),
            module: module.map(str::to_owned),
            need: Need::Required,
            kinds: Kinds::One,
            returns_errno: false,
        }
    }

    /// As `--probe` takes it: `[MODULE:]SYMBOL`.
    pub(crate) fn name(&self) -> String {
        match &self.module {
            Some(module) => format!("{module}:{}", self.symbol),
            None => self.symbol.clone(),
        }
    }

    /// As the kernel takes it for a kprobe: `vmlinux` is no module.
    pub(crate) fn kprobe_name(&self) -> String {
        match self.module.as_deref() {
            Some("vmlinux") => self.symbol.clone(),
            _ => self.name(),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_no_module_to_the_kernel() {
        for (module, kprobe) in [
            (None, "f"),
            (Some("vmlinux"), "f"),
            (Some("btrfs"), "btrfs:f"),
        ] {
            assert_eq!(Target::other(module, "f").kprobe_name(), kprobe);
        }
    }
}
