//! One clone or dedupe at a time, by the referee itself.

use std::{
    fs::{self, File},
    os::fd::AsRawFd as _,
};

use anyhow::ensure;

use super::filesystem::MOUNT;

/// `struct file_clone_range`, include/uapi/linux/fs.h.
#[repr(C)]
struct CloneRange {
    src_fd: i64,
    src_offset: u64,
    src_length: u64,
    dest_offset: u64,
}

/// `struct file_dedupe_range`, without the destinations that follow it.
#[repr(C)]
struct DedupeRange {
    src_offset: u64,
    src_length: u64,
    dest_count: u16,
    reserved1: u16,
    reserved2: u32,
}

/// `struct file_dedupe_range_info`: one destination.
#[repr(C)]
struct Destination {
    dest_fd: i64,
    dest_offset: u64,
    bytes_deduped: u64,
    status: i32,
    reserved: u32,
}

/// Both, as the ioctl reads and writes them.
#[repr(C)]
struct DedupeOne {
    range: DedupeRange,
    to: Destination,
}

nix::ioctl_write_ptr!(ficlonerange, 0x94, 13, CloneRange);
// The number has the size of the first part alone.
nix::ioctl_readwrite!(fideduperange, 0x94, 54, DedupeRange);

/// The length of every range.
pub(crate) const BLOCK: u64 = 4096;

/// Clones a block.
pub(crate) fn clone_block(
    (from, src_offset): (&File, u64),
    (to, dest_offset): (&File, u64),
) -> nix::Result<()> {
    let range = CloneRange {
        src_fd: i64::from(from.as_raw_fd()),
        src_offset,
        src_length: BLOCK,
        dest_offset,
    };
    // SAFETY: the pointer is to a whole structure, which the kernel only reads.
    unsafe { ficlonerange(to.as_raw_fd(), &raw const range) }.map(drop)
}

/// Dedupes a block; an error also if it was not deduped.
pub(crate) fn dedupe_block(
    (from, src_offset): (&File, u64),
    (to, dest_offset): (&File, u64),
) -> anyhow::Result<()> {
    let mut one = DedupeOne {
        range: DedupeRange {
            src_offset,
            src_length: BLOCK,
            dest_count: 1,
            reserved1: 0,
            reserved2: 0,
        },
        to: Destination {
            dest_fd: i64::from(to.as_raw_fd()),
            dest_offset,
            bytes_deduped: 0,
            status: 0,
            reserved: 0,
        },
    };
    // SAFETY: the pointer is to both parts, as `dest_count` says, which nobody else uses.
    unsafe { fideduperange(from.as_raw_fd(), (&raw mut one).cast()) }?;
    ensure!(
        one.to.status == 0 && one.to.bytes_deduped == BLOCK,
        "status {}, {} bytes deduped",
        one.to.status,
        one.to.bytes_deduped
    );
    Ok(())
}

/// Two files of four blocks.
#[derive(Debug)]
pub(crate) struct Pair {
    from: File,
    to: File,
}

impl Pair {
    /// Makes them.
    pub(crate) fn new() -> anyhow::Result<Self> {
        for name in ["from", "to"] {
            fs::write(format!("{MOUNT}/{name}"), [1; 16384])?;
        }
        Self::open()
    }

    /// Takes those that are there.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let file = |name: &str| {
            let path = format!("{MOUNT}/{name}");
            File::options().read(true).write(true).open(path)
        };
        Ok(Self {
            from: file("from")?,
            to: file("to")?,
        })
    }

    /// Clones a block; an offset that is no multiple of it is refused by btrfs.
    pub(crate) fn clone_from(&self, src_offset: u64) -> nix::Result<()> {
        clone_block((&self.from, src_offset), (&self.to, 0))
    }
}
