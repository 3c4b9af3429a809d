//! What the host tells the guest, and what the guest answers: the contract of both programs.

use serde::{Deserialize, Serialize};

/// Where the guest finds its plan.
pub(crate) const PLAN_PATH: &str = "/plan.json";

/// The virtio-serial ports by name: the command's stdout.
pub(crate) const PORT_OUT: &str = "out";
/// The command's stderr.
pub(crate) const PORT_ERR: &str = "err";
/// A tar of what the command left in `/out`.
pub(crate) const PORT_FILES: &str = "files";
/// One [`Verdict`] as JSON; an empty port means that the guest never came to its end.
pub(crate) const PORT_VERDICT: &str = "verdict";

/// What one boot is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The shell command.
    pub(crate) command: String,
    /// The modules to load, in order.
    pub(crate) modules: Vec<Module>,
    /// Run the command in the Debian image on the first virtio disk.
    pub(crate) rootfs: bool,
    /// Send `/out` back.
    pub(crate) bring_back: bool,
}

/// One kernel module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Module {
    /// Its file in the guest.
    pub(crate) path: String,
    /// Its parameters, as `insmod` takes them.
    pub(crate) parameters: String,
}

/// How the boot ended.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Verdict {
    /// The command came to its end.
    Ended {
        /// Its exit status; 128 + n if signal n killed it.
        status: u8,
        /// Seconds from the kernel's start until the command started.
        started_s: f64,
        /// Seconds from the kernel's start until the command ended.
        ended_s: f64,
    },
    /// The guest could not do what the plan says.
    Failed {
        /// Why.
        reason: String,
    },
}
