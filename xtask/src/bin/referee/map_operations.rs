//! Map operations that last long, so that others are in the midst of one when they are
//! preempted. While a map operation is under way on a CPU, the kernel runs no kprobe
//! program there and counts that in `recursion_misses` (`bpf_disable_instrumentation`,
//! include/linux/bpf.h of Linux 7.2).

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use nix::libc;

/// The commands and constants of bpf(2), include/uapi/linux/bpf.h.
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_BATCH: libc::c_int = 24;
const MAP_TYPE_HASH: u32 = 1;
const NO_PREALLOC: u32 = 1;

/// Walked in one operation (`__htab_map_lookup_and_delete_batch` goes on while buckets
/// are empty): some milliseconds.
const BUCKETS: u32 = 1 << 17;

/// `union bpf_attr`, as `BPF_MAP_CREATE` reads it.
#[repr(C)]
struct Create {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// `union bpf_attr`, as the batch operations read it.
#[repr(C)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Walks an empty map again and again, until it is killed.
pub(crate) fn run() -> anyhow::Result<()> {
    let map = map().context("cannot make a map")?;
    loop {
        walk(&map)?;
        // Others need the CPU as well, or nothing but losses is left.
        thread::sleep(Duration::from_millis(3));
    }
}

fn map() -> io::Result<OwnedFd> {
    let mut create = Create {
        map_type: MAP_TYPE_HASH,
        key_size: 4,
        value_size: 4,
        max_entries: BUCKETS,
        map_flags: NO_PREALLOC,
    };
    // SAFETY: the pointer is to a whole structure of this length.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            MAP_CREATE,
            &raw mut create,
            size_of::<Create>(),
        )
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0);
    let fd = fd.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn walk(map: &OwnedFd) -> anyhow::Result<()> {
    let (mut next, mut key, mut value) = (0_u32, 0_u32, 0_u32);
    let mut batch = Batch {
        from: 0,
        to: (&raw mut next).addr() as u64,
        keys: (&raw mut key).addr() as u64,
        values: (&raw mut value).addr() as u64,
        count: 1,
        map_fd: map.as_raw_fd().cast_unsigned(),
        elem_flags: 0,
        flags: 0,
    };
    // SAFETY: the pointers are to whole values, and there is room for the one element
    // that is asked for.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            MAP_LOOKUP_BATCH,
            &raw mut batch,
            size_of::<Batch>(),
        )
    };
    let error = io::Error::last_os_error();
    ensure!(
        result < 0 && error.raw_os_error() == Some(libc::ENOENT),
        "an empty map has something: {result}, {error}"
    );
    Ok(())
}
