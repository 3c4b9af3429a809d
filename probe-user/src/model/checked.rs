//! What `check` finds of a kernel, a user and the targets.

use super::{Identity, Losses, Need, Presence, Target, Variant};

/// What this kernel and this user allow.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    pub(crate) identity: Identity,
    pub(crate) variant: Variant,
    pub(crate) lockdown: Option<String>,
    pub(crate) perf_event_paranoid: Option<i32>,
    /// What probing takes here.
    pub(crate) needed_capabilities: Vec<&'static str>,
    /// What of it this process lacks.
    pub(crate) missing_capabilities: Vec<&'static str>,
    pub(crate) kernel_btf: bool,
    /// btrfs' own, or the kernel's if btrfs is built in.
    pub(crate) btrfs_btf: bool,
    /// Switched on; `false` if that cannot be read, an error if they are off.
    pub(crate) kprobes_armed: Result<bool, String>,
    pub(crate) rows: Vec<CheckRow<'a>>,
    /// What stands in the way, a line each.
    pub(crate) problems: Vec<String>,
}

/// What was found of one target.
#[derive(Debug)]
pub(crate) struct CheckRow<'a> {
    pub(crate) target: &'a Target,
    pub(crate) presence: &'a Presence,
    /// What the kernel tells of its losses, if its probes could be attached.
    pub(crate) traced: Option<Losses>,
}

impl Checked<'_> {
    /// Whether every required target can be probed.
    pub(crate) fn passed(&self) -> bool {
        let mut rows = self.rows.iter();
        self.kprobes_armed.is_ok()
            && rows.all(|row| row.traced.is_some() || row.target.need != Need::Required)
    }

    /// Whether the kernel tells what probes miss; `None` if none was attached.
    pub(crate) fn losses_told(&self) -> Option<bool> {
        let losses = self.rows.iter().find_map(|row| row.traced)?;
        Some(losses.entry_missed.is_some() && losses.entry_recursion_misses.is_some())
    }
}
