//! Whose calls are the workload's, as the command line has it.

use std::{
    fs::{self, File},
    os::fd::AsFd as _,
};

use anyhow::{bail, ensure};

use super::cgroup;
use crate::{cli::ScopeArgs, kernel::Workload};

/// What the command line names; nothing, where it names nothing.
#[derive(Debug)]
pub(super) enum Named {
    Nothing,
    Cgroup(File),
    Processes(Vec<u32>),
}

impl Named {
    /// Looks whether it is there.
    pub(super) fn from(args: &ScopeArgs) -> anyhow::Result<Self> {
        if let Some(path) = &args.cgroup {
            return Ok(Self::Cgroup(cgroup::open(path)?));
        }
        for process in &args.pid {
            let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else {
                bail!("--pid {process}: there is no such process");
            };
            let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
            let leader = leader.unwrap_or_default().trim();
            ensure!(
                leader == process.to_string(),
                "--pid {process}: it is a thread; name its process, {leader}"
            );
        }
        if args.pid.is_empty() {
            return Ok(Self::Nothing);
        }
        Ok(Self::Processes(args.pid.clone()))
    }

    pub(super) fn workload(&self) -> Workload<'_> {
        match self {
            Self::Nothing => Workload::Nobody,
            Self::Cgroup(dir) => Workload::Cgroup(dir.as_fd()),
            Self::Processes(processes) => Workload::Processes(processes),
        }
    }
}
