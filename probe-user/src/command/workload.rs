//! Whose calls are the workload's, as the command line has it.

use std::{
    fs::{self, File},
    future::pending,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{Interest, unix::AsyncFd};

use super::cgroup;
use crate::{cli::ScopeArgs, kernel::Workload};

/// What the command line names; nothing, where it names nothing.
#[derive(Debug)]
pub(super) enum Named {
    Nothing,
    Cgroup(File),
    Processes(Processes),
}

/// Processes, each with a descriptor that becomes readable when it ends.
#[derive(Debug)]
pub(super) struct Processes {
    ids: Vec<u32>,
    alive: Vec<OwnedFd>,
}

impl Named {
    /// Looks whether it is there.
    pub(super) fn from(args: &ScopeArgs) -> anyhow::Result<Self> {
        if let Some(path) = &args.cgroup {
            return Ok(Self::Cgroup(cgroup::open(path)?));
        }
        if args.pid.is_empty() {
            return Ok(Self::Nothing);
        }
        let alive = args.pid.iter().map(|process| open(*process));
        Ok(Self::Processes(Processes {
            alive: alive.collect::<anyhow::Result<_>>()?,
            ids: args.pid.clone(),
        }))
    }

    /// Until all processes that were named have ended; for ever, where none was.
    pub(super) async fn ended(&self) -> anyhow::Result<()> {
        let Self::Processes(processes) = self else {
            return pending().await;
        };
        for process in &processes.alive {
            // SAFETY: the descriptor is owned by what outlives this.
            let process =
                unsafe { AsyncFd::register_with_interest(process.as_raw_fd(), Interest::READABLE) };
            let process = process.context("cannot wait for a process")?;
            drop(process.readable().await?);
        }
        Ok(())
    }

    pub(super) fn workload(&self) -> Workload<'_> {
        match self {
            Self::Nothing => Workload::Nobody,
            Self::Cgroup(dir) => Workload::Cgroup(dir.as_fd()),
            Self::Processes(processes) => Workload::Processes(&processes.ids),
        }
    }
}

/// Holds on to a process: its number is not taken by another meanwhile.
fn open(process: u32) -> anyhow::Result<OwnedFd> {
    let none = || format!("--pid {process}: there is no such process");
    let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else {
        bail!(none());
    };
    let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    let leader = leader.unwrap_or_default().trim();
    ensure!(
        leader == process.to_string(),
        "--pid {process}: it is a thread; name its process, {leader}"
    );
    let number = i32::try_from(process).ok().and_then(Pid::from_raw);
    pidfd_open(number.with_context(none)?, PidfdFlags::empty()).with_context(none)
}
