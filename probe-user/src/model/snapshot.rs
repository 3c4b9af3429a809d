//! All tallies at one instant.

use std::collections::BTreeMap;

use probe_ebpf::{Filesystem, Tally};

/// The kernel's own counters of hits that a target's probes did not get. `None`
/// where this kernel does not have the counter.
///
/// - `missed`: the kprobe fired while the CPU was in another kprobe, or, for a
///   return, no instance was free (`nmissed`; perf links report it since Linux
///   6.7).
/// - `recursion_misses`: the kprobe fired but the program was not run, because
///   another BPF program was running on that CPU (for kprobes since Linux 6.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) entry_missed: Option<u64>,
    pub(crate) entry_recursion_misses: Option<u64>,
    pub(crate) return_missed: Option<u64>,
    pub(crate) return_recursion_misses: Option<u64>,
}

/// One target's counters, summed over all possible CPUs, since its probes exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) tally: Tally,
    /// Calls of this window that have not returned: counted if the window is closed,
    /// else derived from the tally.
    pub(crate) in_flight: u64,
    /// The same of each filesystem, if they are told apart. Losses are not.
    pub(crate) parts: Option<BTreeMap<Filesystem, Part>>,
    pub(crate) losses: Losses,
}

/// What a target counted on one filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) tally: Tally,
    pub(crate) in_flight: u64,
}

/// What can be told of who executes a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Classes {
    /// Nothing, and why.
    Untold(String),
    /// The kernel's threads from other tasks, and more.
    Told {
        /// The workload's tasks from others.
        workload: bool,
        /// Interrupts from the tasks that they found.
        interrupt: bool,
    },
}

#[cfg(test)]
impl Classes {
    pub(crate) const fn all() -> Self {
        let (workload, interrupt) = (true, true);
        Self::Told {
            workload,
            interrupt,
        }
    }

    pub(crate) const fn of_threads() -> Self {
        let (workload, interrupt) = (false, false);
        Self::Told {
            workload,
            interrupt,
        }
    }
}

/// All targets' counters at one instant. A target that is not attached has no
/// reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// `CLOCK_MONOTONIC`, in ns.
    pub(crate) at_ns: u64,
    /// Whose calls are in flight, and whose extremes are meant.
    pub(crate) epoch: u64,
    pub(crate) classes: Classes,
    pub(crate) readings: Vec<Option<Reading>>,
}
