//! What is done to a window, and what it takes to undo it.

use std::{fs, path::Path};

use super::super::{
    FUNCTIONS,
    faults::ENABLED,
    filesystem::{MOUNT, sh},
};

/// What happens in the window beside its clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Provoked {
    Nothing,
    /// Calls: every start that our own programs keep is one from inside of BPF, where they
    /// have no slots.
    Missed,
    /// Times: there is room for one start, and two tasks sleep at once.
    Untimed,
    /// btrfs is unloaded.
    Unloaded,
    /// It is unloaded and loaded again.
    Reloaded,
    /// Kprobes are switched off.
    SwitchedOff,
}

/// Where two tasks can be at once, for as long as is wanted.
const SLEEP: &str = "hrtimer_nanosleep";

impl Provoked {
    /// What is called from inside of BPF.
    pub(super) const MISSING: &str = "htab_map_update_elem";

    /// Whose verdict it is about.
    pub(super) const fn target(self) -> &'static str {
        match self {
            Self::Missed => Self::MISSING,
            Self::Untimed => SLEEP,
            _ => FUNCTIONS[0],
        }
    }

    /// What cowprobe is told besides.
    pub(super) const fn args(self) -> &'static [&'static str] {
        match self {
            Self::Missed => &["--probe", Self::MISSING, "--max-in-flight", "15"],
            Self::Untimed => &["--probe", SLEEP, "--max-in-flight", "1"],
            _ => &[],
        }
    }

    /// Why there is no count.
    pub(super) const fn cause(self) -> &'static str {
        match self {
            Self::SwitchedOff => "kprobes were switched off in the window",
            _ => "btrfs was unloaded in the window",
        }
    }

    /// A shell's command that does it, after the clone.
    pub(super) fn command(self) -> anyhow::Result<String> {
        let me = std::env::current_exe()?;
        let then = match self {
            Self::Nothing | Self::Missed => "true".to_owned(),
            Self::Untimed => "{ sleep 0.5 & sleep 0.5; wait; }".to_owned(),
            Self::Unloaded => format!("umount {MOUNT} && rmmod btrfs"),
            Self::Reloaded => format!("umount {MOUNT} && rmmod btrfs && modprobe btrfs"),
            Self::SwitchedOff => format!("echo 0 > {ENABLED}"),
        };
        Ok(format!("{} clone-once && {then}", me.display()))
    }
}

/// Puts everything back, outside of any window.
pub(super) fn restore() -> anyhow::Result<()> {
    fs::write(ENABLED, "1")?;
    if !Path::new("/sys/module/btrfs").exists() {
        sh("modprobe", &["btrfs"])?;
    }
    if !Path::new(&format!("{MOUNT}/from")).exists() {
        sh("mount", &["-o", "commit=300", "/dev/ram0", MOUNT])?;
    }
    Ok(())
}
