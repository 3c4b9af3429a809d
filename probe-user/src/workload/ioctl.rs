//! `FICLONERANGE` and `FIDEDUPERANGE` on one range (`ioctl_ficlonerange(2)`,
//! `ioctl_fideduperange(2)`).

use std::{fs::File, io, os::fd::AsRawFd as _};

/// `_IOWR(0x94, 54, struct file_dedupe_range)`, include/uapi/linux/fs.h; the size in it
/// is that of the head alone.
const FIDEDUPERANGE: libc::Ioctl = 0xc018_9436;
/// `FILE_DEDUPE_RANGE_SAME`, include/uapi/linux/fs.h.
const SAME: i32 = 0;
/// `FILE_DEDUPE_RANGE_DIFFERS`, include/uapi/linux/fs.h.
const DIFFERS: i32 = 1;

/// `struct file_dedupe_range` with one `struct file_dedupe_range_info`.
#[repr(C)]
struct DedupeRange {
    src_offset: u64,
    src_length: u64,
    dest_count: u16,
    reserved1: u16,
    reserved2: u32,
    dest_fd: i64,
    dest_offset: u64,
    bytes_deduped: u64,
    status: i32,
    reserved: u32,
}

/// Clones `length` bytes at `offset` of `src` to the same place of `dest`.
pub(super) fn clone_range(src: &File, dest: &File, offset: u64, length: u64) -> io::Result<()> {
    let range = libc::file_clone_range {
        src_fd: i64::from(src.as_raw_fd()),
        src_offset: offset,
        src_length: length,
        dest_offset: offset,
    };
    // SAFETY: the pointer is to a whole file_clone_range, which the kernel only reads.
    let result = unsafe { libc::ioctl(dest.as_raw_fd(), libc::FICLONERANGE, &raw const range) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Shares `length` bytes at `offset` of `dest` with `src`, and returns how many
/// bytes the kernel says it shared; an error if the contents differ.
pub(super) fn dedupe_range(src: &File, dest: &File, offset: u64, length: u64) -> io::Result<u64> {
    let mut range = DedupeRange {
        src_offset: offset,
        src_length: length,
        dest_count: 1,
        reserved1: 0,
        reserved2: 0,
        dest_fd: i64::from(dest.as_raw_fd()),
        dest_offset: offset,
        bytes_deduped: 0,
        status: 0,
        reserved: 0,
    };
    // SAFETY: the pointer is to a file_dedupe_range that is followed by the one info it announces.
    let result = unsafe { libc::ioctl(src.as_raw_fd(), FIDEDUPERANGE, &raw mut range) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    match range.status {
        SAME => Ok(range.bytes_deduped),
        DIFFERS => Err(io::Error::other("the contents differ")),
        status => Err(io::Error::from_raw_os_error(-status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_kernels_layout() {
        assert_eq!(size_of::<DedupeRange>(), 24 + 32);
        assert_eq!(std::mem::offset_of!(DedupeRange, dest_fd), 24);
        assert_eq!(std::mem::offset_of!(DedupeRange, status), 48);
    }
}
