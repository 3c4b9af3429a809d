//! Waits until every BPF program that runs now has ended.
//!
//! An update of a map in a map returns only after an RCU grace period
//! (`maybe_wait_bpf_programs`, `kernel/bpf/syscall.c` of Linux 7.2), and programs
//! run inside RCU read sections. `membarrier(2)` is no substitute: it waits for
//! nothing on one CPU.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use super::bpf;

/// A map of one map, kept for its updates.
#[derive(Debug)]
pub(super) struct Grace {
    outer: OwnedFd,
    inner: OwnedFd,
}

impl Grace {
    /// Makes the maps.
    pub(super) fn new() -> io::Result<Self> {
        let inner = bpf::create_array(None)?;
        let outer = bpf::create_array(Some(inner.as_fd()))?;
        Ok(Self { outer, inner })
    }

    /// Returns when all programs that ran at the call have ended.
    pub(super) fn wait(&self) -> io::Result<()> {
        bpf::update_first(self.outer.as_fd(), &self.inner.as_raw_fd().to_ne_bytes())
    }
}
