//! Both referees together, and the quiet between windows.

use std::{thread, time::Duration};

use anyhow::bail;

use super::{bpftrace, kprobe_profile};

/// What both referees have counted since they were started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) kprobe_profile: Vec<u64>,
    pub(crate) bpftrace: Vec<u64>,
    /// Of bpftrace's calls, those that its count missed and the kernel told.
    pub(crate) bpftrace_missed: u64,
}

impl Reading {
    /// Reads both.
    pub(crate) fn take(functions: &[&str]) -> anyhow::Result<Self> {
        let (bpftrace, bpftrace_missed) = bpftrace::read(functions)?;
        Ok(Self {
            kprobe_profile: kprobe_profile::read(functions)?,
            bpftrace,
            bpftrace_missed,
        })
    }

    /// Reads both when nothing moves: two readings a second apart are equal.
    pub(crate) fn quiet(functions: &[&str]) -> anyhow::Result<Self> {
        let mut last = Self::take(functions)?;
        for _ in 0..30 {
            thread::sleep(Duration::from_secs(1));
            let next = Self::take(functions)?;
            if next == last {
                return Ok(next);
            }
            last = next;
        }
        bail!("the filesystem does not come to rest: {last:?}");
    }
}
