//! The memory of a map, shared with the BPF programs.
//!
//! What is read here costs no hit: a map operation of bpf(2) that is preempted makes
//! the kernel skip the kprobe programs of its CPU meanwhile
//! (`bpf_disable_instrumentation`, `include/linux/bpf.h` of Linux 7.2), a load from
//! memory does not.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::AtomicU64,
};

/// What may be done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// A store would be a fault (SIGSEGV): nobody clears a tally.
    Read,
    Write,
}

/// All words of an array map that was made with `BPF_F_MMAPABLE`.
#[derive(Debug)]
pub(super) struct Shared {
    start: NonNull<AtomicU64>,
    words: usize,
}

impl Shared {
    /// Maps the first `words` of a map.
    pub(super) fn new(map: BorrowedFd<'_>, words: usize, access: Access) -> io::Result<Self> {
        let protection = match access {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        let length = words * size_of::<AtomicU64>();
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at 0 unasked");
        Ok(Self { start, words })
    }

    /// The words. Each is written whole by a program, so that a load is of some
    /// instant; two loads are of two.
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is as long and lives as long as `self`, pages are aligned, and
        // programs write whole aligned words.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let length = self.words * size_of::<AtomicU64>();
        // SAFETY: the mapping is ours, and nobody borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), length) };
    }
}
