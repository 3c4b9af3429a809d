//! Follows the processes of the workload from fork to fork, where no cgroup tells who
//! belongs to it.

use std::{
    ffi::CStr,
    fs,
    os::fd::{AsFd as _, OwnedFd},
    sync::atomic::Ordering,
};

use anyhow::{Context as _, bail};
use aya::maps::MapData;

use super::{
    bpf,
    load::{LoadedFollower, Loader},
    shared::Shared,
};

const TRACEPOINT: &CStr = c"sched_process_fork";
/// `PROC_PID_INIT_INO`, `include/linux/proc_ns.h` of Linux 7.2: where numbers of processes
/// are those that programs see.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Processes are followed as long as this is there.
#[derive(Debug)]
pub(super) struct Following {
    followed: OwnedFd,
    shared: Shared,
    program: OwnedFd,
    _link: OwnedFd,
}

impl Following {
    /// Begins with no process. To be called before a copy is loaded.
    pub(super) fn begin(loader: &mut Loader) -> anyhow::Result<Self> {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if namespace.as_os_str() != FIRST_NAMESPACE {
            bail!("processes cannot be followed from within a PID namespace");
        }
        let followed = duplicate(loader.follow()?)?;
        let LoadedFollower { shared, program } = loader.load_follower()?;
        let link = bpf::link_to_tracepoint(program.as_fd(), TRACEPOINT);
        Ok(Self {
            followed,
            shared,
            program,
            _link: link.context("cannot attach to sched_process_fork")?,
        })
    }

    /// A process, and all that it forks from now on, belongs to the workload.
    pub(super) fn add(&self, process: u32) -> anyhow::Result<()> {
        let added = bpf::update(self.followed.as_fd(), process, &[1]);
        added.with_context(|| format!("cannot follow process {process}"))
    }

    /// How many processes at least were lost sight of.
    pub(super) fn lost(&self) -> anyhow::Result<u64> {
        let no_room = self.shared.words()[1].load(Ordering::Relaxed);
        let skipped = bpf::recursion_misses(self.program.as_fd())?;
        Ok(no_room + skipped.unwrap_or(0))
    }
}

fn duplicate(map: &MapData) -> anyhow::Result<OwnedFd> {
    Ok(map.fd().as_fd().try_clone_to_owned()?)
}
