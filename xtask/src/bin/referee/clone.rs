//! One clone at a time, by the referee itself.

use std::{
    fs::{self, File},
    os::fd::AsRawFd as _,
};

use super::filesystem::MOUNT;

/// `struct file_clone_range`, include/uapi/linux/fs.h.
#[repr(C)]
struct CloneRange {
    src_fd: i64,
    src_offset: u64,
    src_length: u64,
    dest_offset: u64,
}

nix::ioctl_write_ptr!(ficlonerange, 0x94, 13, CloneRange);

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
        let range = CloneRange {
            src_fd: i64::from(self.from.as_raw_fd()),
            src_offset,
            src_length: 4096,
            dest_offset: 0,
        };
        // SAFETY: the pointer is to a whole structure, which the kernel only reads.
        unsafe { ficlonerange(self.to.as_raw_fd(), &raw const range) }.map(drop)
    }
}
