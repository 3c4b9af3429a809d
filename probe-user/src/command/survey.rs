//! What is here: the kernel, its variant, and where each target is.

use anyhow::Context as _;

use crate::{
    kernel::{Identity, Presence, Symbols, Variant, btrfs_is_there},
    model::{TARGETS, Target},
};

/// What was found before anything is attached.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) identity: Identity,
    pub(super) variant: Variant,
    /// In the order of [`TARGETS`].
    pub(super) presence: Vec<Presence>,
    /// Whether btrfs is built in or loaded.
    pub(super) btrfs: bool,
}

impl Survey {
    /// Looks at the running kernel.
    pub(super) fn take() -> anyhow::Result<Self> {
        let names = TARGETS.map(|t| t.symbol);
        let symbols = Symbols::look_up(&names).context(
            "cannot read /proc/kallsyms; is /proc mounted, has the kernel CONFIG_KALLSYMS?",
        )?;
        Ok(Self {
            identity: Identity::read().context("cannot ask for the kernel's release")?,
            variant: Variant::read(),
            presence: names.iter().map(|n| symbols.presence(n)).collect(),
            btrfs: btrfs_is_there(),
        })
    }

    /// The targets that are here, each in its place.
    pub(super) fn available(&self) -> Vec<Option<&'static Target>> {
        let both = TARGETS.iter().zip(&self.presence);
        both.map(|(target, p)| (*p != Presence::Absent).then_some(target))
            .collect()
    }
}
