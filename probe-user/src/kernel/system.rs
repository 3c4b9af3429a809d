//! Which kernel this is.

use std::{ffi::CStr, fs, io, mem};

use super::{
    machine::{build, hardware},
    rights::preemption,
};
use crate::model::Identity;

/// Asks the running kernel who it is.
pub(crate) fn identity() -> io::Result<Identity> {
    // SAFETY: a structure of byte arrays; all zero is valid.
    let mut name: libc::utsname = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a whole utsname.
    if unsafe { libc::uname(&raw mut name) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let release = text(&name.release);
    Ok(Identity {
        build: build(&release),
        release,
        version: text(&name.version),
        machine: text(&name.machine),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        command_line: line("/proc/cmdline"),
        preemption: preemption(),
        hardware: hardware(),
    })
}

/// What tells one loading of a module from another; `None` while it is not loaded
/// (or built in).
pub(crate) fn module_instance(name: &str) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Some(fs::metadata(format!("/sys/module/{name}")).ok()?.ino())
}

/// The switches that turn kprobes off without a trace in any counter, as far as
/// they can be read: `Err` names one that is off, `Ok(false)` says that one could
/// not be read.
///
/// `kprobes/enabled` disarms all of them; without `ftrace_enabled` those at a
/// function's entry are registered but never called (`kernel/kprobes.c` and
/// `kernel/trace/ftrace.c` of Linux 7.2).
pub(crate) fn kprobes_armed() -> Result<bool, String> {
    let mut known = true;
    for switch in [
        "/sys/kernel/debug/kprobes/enabled",
        "/proc/sys/kernel/ftrace_enabled",
    ] {
        match fs::read_to_string(switch) {
            Ok(text) if text.trim() == "0" => return Err(format!("{switch} is 0")),
            Ok(_) => {}
            Err(_) => known = false,
        }
    }
    Ok(known)
}

/// One more than the highest number that a CPU of this kernel can have.
pub(crate) fn possible_cpus() -> io::Result<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    highest(&list).map(|n| n + 1).ok_or_else(|| {
        let what = format!("{list:?} is no list of CPUs");
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// Of a list such as `0-3,8-11` (`Documentation/admin-guide/cputopology.rst`).
fn highest(list: &str) -> Option<u32> {
    let ends = list.trim().split([',', '-']);
    ends.map(|end| end.parse().ok())
        .try_fold(0, |most, end: Option<u32>| Some(most.max(end?)))
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

/// The text of a file without its end, if it has any.
pub(super) fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_may_have_gaps() {
        for (list, highest_cpu) in [
            ("0\n", Some(0)),
            ("0-3\n", Some(3)),
            ("0-3,8-11\n", Some(11)),
            ("\n", None),
            ("all\n", None),
        ] {
            assert_eq!(highest(list), highest_cpu, "{list:?}");
        }
    }
}
