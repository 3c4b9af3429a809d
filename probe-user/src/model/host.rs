//! The running kernel, as plain values: which one it is, how it inhibits
//! writeback, and where its functions are.

use std::fmt;

use super::{Build, Hardware};

/// What tells one boot of one kernel from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// As `uname -r` prints it.
    pub(crate) release: String,
    /// As `uname -v` prints it.
    pub(crate) version: String,
    /// As `uname -m` prints it.
    pub(crate) machine: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub(crate) boot_id: Option<String>,
    /// `/proc/cmdline`.
    pub(crate) command_line: Option<String>,
    /// The live mode, which a command line is no proof of.
    pub(crate) preemption: Option<String>,
    pub(crate) build: Build,
    pub(crate) hardware: Hardware,
}

impl Identity {
    /// Says if the mode of preemption is another than the command line asks for.
    pub(crate) fn preemption_not_as_asked(&self) -> Option<String> {
        let live = self.preemption.as_deref()?;
        let mut words = self.command_line.as_deref()?.split_whitespace();
        // The last one holds (`setup_preempt_mode`, kernel/sched/core.c of Linux 7.2).
        let asked = words.rfind(|word| word.starts_with("preempt="))?;
        let asked = asked.strip_prefix("preempt=")?;
        (asked != live).then(|| {
            format!("the kernel runs with preempt={live}, its command line asks for {asked}")
        })
    }
}

/// How the kernel keeps the extent buffers whose writeback a transaction handle
/// inhibits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// `struct xarray writeback_inhibited_ebs` (Linux 7.1).
    Xarray,
    /// `inhibited_ebs[slots]` in the handle itself (Linux 7.2.6 and later).
    InlineBuffer { slots: usize },
    /// Neither: this kernel does not inhibit writeback.
    None,
    /// It could not be told, and why.
    Unknown(String),
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xarray => write!(f, "xarray"),
            Self::InlineBuffer { slots } => write!(f, "inline buffer, {slots} slots"),
            Self::None => write!(f, "none"),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

/// Where a function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// In the kernel image.
    BuiltIn,
    /// In a loaded module.
    Module(String),
    /// Not a function of this kernel: never there, or inlined.
    Absent,
}

impl Presence {
    /// As a user writes it before the colon; the image is `vmlinux`.
    pub(crate) fn place(&self) -> &str {
        match self {
            Self::BuiltIn => "vmlinux",
            Self::Module(name) => name,
            Self::Absent => "nowhere",
        }
    }
}

/// What there is of one function's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Every function of exactly this name.
    pub(crate) places: Vec<Presence>,
    /// Copies that the compiler made for some of its callers, such as
    /// `f.constprop.0`: a call of one is no call of `f` itself.
    pub(crate) twins: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_of_preemption_that_was_not_taken_is_said() {
        for (live, line, said) in [
            (Some("lazy"), Some("quiet preempt=none"), true),
            (Some("full"), Some("preempt=none preempt=full"), false),
            (Some("full"), Some("quiet"), false),
            (None, Some("preempt=none"), false),
            (Some("full"), None, false),
        ] {
            let identity = Identity {
                preemption: live.map(str::to_owned),
                command_line: line.map(str::to_owned),
                ..Identity::default()
            };
            let words = identity.preemption_not_as_asked();
            assert_eq!(words.is_some(), said, "{words:?}");
        }
    }
}
