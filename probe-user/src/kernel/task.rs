//! Where the flags of a task are: the only layout that the programs need.

use std::{
    fs::{self, File},
    io,
    ops::Deref,
    os::fd::AsRawFd as _,
    ptr::{self, NonNull},
    slice,
};

use super::btf::{guessed_member_offset_bytes, member_offset_bytes, sections};

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const STRUCTURE: &str = "task_struct";
const MEMBER: &str = "flags";

/// The offset of `flags` in `struct task_struct`, quickly; an error says why it is not
/// known. [`is_right`] looks again when there is time.
pub(super) fn flags_offset() -> Result<u32, String> {
    let blob = Blob::open().map_err(|_| format!("no {VMLINUX}"))?;
    let (types, strings) = sections(&blob).map_err(|e| format!("{VMLINUX}: {e}"))?;
    let offset = guessed_member_offset_bytes(types, strings, STRUCTURE, MEMBER);
    let offset = offset.and_then(|offset| u32::try_from(offset).ok());
    offset.ok_or_else(|| format!("no {MEMBER} of {STRUCTURE} in {VMLINUX}"))
}

/// Whether a quick answer is also that of a walk over all types.
pub(crate) fn is_right(flags_offset: u32) -> bool {
    let walk = || -> Option<usize> {
        let blob = Blob::open().ok()?;
        let (types, strings) = sections(&blob).ok()?;
        member_offset_bytes(types, strings, STRUCTURE, MEMBER)
    };
    walk() == usize::try_from(flags_offset).ok()
}

/// The kernel's BTF: mapped, where it can be (since Linux 6.16), for it is handed out a
/// page a read.
enum Blob {
    Mapped(NonNull<u8>, usize),
    Read(Vec<u8>),
}

impl Blob {
    fn open() -> io::Result<Self> {
        let file = File::open(VMLINUX)?;
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(mapped) if start != libc::MAP_FAILED => Ok(Self::Mapped(mapped, length)),
            _ => Ok(Self::Read(fs::read(VMLINUX)?)),
        }
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: the kernel's BTF does not change, and the mapping is as long and lives
            // as long as `self`.
            Self::Mapped(start, length) => unsafe {
                slice::from_raw_parts(start.as_ptr(), *length)
            },
            Self::Read(bytes) => bytes,
        }
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        if let Self::Mapped(start, length) = self {
            // SAFETY: the mapping is ours, and nobody borrows from it any more.
            unsafe { libc::munmap(start.as_ptr().cast(), *length) };
        }
    }
}
