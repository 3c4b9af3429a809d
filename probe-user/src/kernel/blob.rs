//! The kernel's BTF as bytes: mapped, where it can be (since Linux 6.16), for it is
//! handed out a page a read.

use std::{
    fs::{self, File},
    io,
    ops::Deref,
    os::fd::AsRawFd as _,
    ptr::{self, NonNull},
    slice,
};

use crate::wording::plain;

/// The kernel's, or that of a module.
#[derive(Debug)]
pub(super) enum Blob {
    Mapped(NonNull<u8>, usize),
    Read(Vec<u8>),
}

impl Blob {
    /// That of `vmlinux` or of a module; an error says which is not there.
    pub(super) fn of(place: &str) -> Result<Self, String> {
        let path = format!("/sys/kernel/btf/{place}");
        Self::open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => format!("no {path}"),
            _ => format!("{path}: {}", plain(&e)),
        })
    }

    /// That of a module; `None` if there is no such module, or it has none.
    pub(super) fn of_module(name: &str) -> Result<Option<Self>, String> {
        if has_btf(name) {
            return Self::of(name).map(Some);
        }
        Ok(None)
    }

    fn open(path: &str) -> io::Result<Self> {
        let file = File::open(path)?;
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
            _ => Ok(Self::Read(fs::read(path)?)),
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

/// Whether the kernel (`vmlinux`) or a module brings BTF.
pub(crate) fn has_btf(place: &str) -> bool {
    fs::exists(format!("/sys/kernel/btf/{place}")).unwrap_or(false)
}
