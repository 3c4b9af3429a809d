//! Which kernel this is.

use std::{ffi::CStr, fs, io, mem};

/// What tells one boot of one kernel from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// As `uname -r` prints it.
    pub(crate) release: String,
    /// As `uname -v` prints it.
    pub(crate) version: String,
    /// As `uname -m` prints it.
    pub(crate) machine: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub(crate) boot_id: Option<String>,
    /// `/proc/cmdline`.
    pub(crate) command_line: Option<String>,
}

impl Identity {
    /// Of the running kernel.
    pub(crate) fn read() -> io::Result<Self> {
        // SAFETY: a structure of byte arrays; all zero is valid.
        let mut name: libc::utsname = unsafe { mem::zeroed() };
        // SAFETY: the pointer is to a whole utsname.
        if unsafe { libc::uname(&raw mut name) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            release: text(&name.release),
            version: text(&name.version),
            machine: text(&name.machine),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            command_line: line("/proc/cmdline"),
        })
    }
}

/// `CLOCK_MONOTONIC` in ns, the clock of `bpf_ktime_get_ns`.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let (s, ns) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    s * 1_000_000_000 + ns
}

fn text(field: &[libc::c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|c| c.cast_unsigned()).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}
