//! kprobes by `perf_event_open(2)`: the kernel removes one when its fd is closed,
//! so that nothing outlives us.

use std::{
    error::Error,
    ffi::CString,
    fmt, fs, io, mem,
    os::fd::{FromRawFd as _, OwnedFd},
};

use aya_obj::generated::{PERF_FLAG_FD_CLOEXEC, perf_event_attr};

const PMU: &str = "/sys/bus/event_source/devices/kprobe";

/// Which end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Entry,
    Return,
}

/// This kernel has no kprobe events.
#[derive(Debug)]
pub(super) struct NoKprobes;

impl fmt::Display for NoKprobes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this kernel has no kprobe events; one with CONFIG_KPROBE_EVENTS is needed"
        )
    }
}

impl Error for NoKprobes {}

/// The kernel's source of kprobe events.
#[derive(Debug)]
pub(super) struct Kprobes {
    /// `perf_event_attr.type`.
    event_type: u32,
    /// The bit of `perf_event_attr.config` that makes a kretprobe.
    return_bit: u64,
}

impl Kprobes {
    /// Finds it in sysfs.
    pub(super) fn find() -> Result<Self, NoKprobes> {
        let read = |name: &str| fs::read_to_string(format!("{PMU}/{name}")).ok();
        let event_type = read("type").and_then(|text| text.trim().parse().ok());
        // Such as config:0.
        let bit = read("format/retprobe")
            .and_then(|text| text.trim().strip_prefix("config:")?.parse::<u32>().ok());
        match (event_type, bit) {
            (Some(event_type), Some(bit @ 0..64)) => Ok(Self {
                event_type,
                return_bit: 1 << bit,
            }),
            _ => Err(NoKprobes),
        }
    }

    /// A probe on `[MODULE:]SYMBOL`, for all tasks on all CPUs (the one that
    /// `perf_event_open` wants to be named means nothing to BPF programs). The error is
    /// `ENOENT` if there is no such function, and since Linux 6.7 `EADDRNOTAVAIL` if
    /// there are several in the kernel's image or among modules (`create_local_trace_kprobe`,
    /// `kernel/trace/trace_kprobe.c`).
    pub(super) fn open(&self, function: &str, side: Side) -> io::Result<OwnedFd> {
        let function = CString::new(function)?;
        // SAFETY: a structure of integers and unions of integers; all zero is valid.
        let mut attr: perf_event_attr = unsafe { mem::zeroed() };
        attr.size = u32::try_from(size_of::<perf_event_attr>()).expect("a small structure");
        attr.type_ = self.event_type;
        if side == Side::Return {
            attr.config = self.return_bit;
        }
        attr.__bindgen_anon_3.kprobe_func = function.as_ptr() as u64;
        let (every_task, cpu, no_group) = (-1, any_cpu(), -1);
        // SAFETY: `attr` is whole, and the name in it outlives the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attr,
                every_task,
                cpu,
                no_group,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = i32::try_from(fd).expect("an fd");
        // SAFETY: the kernel just made this fd for us, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The first that is online, such as 0 of `0-3`.
fn any_cpu() -> i32 {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let first = online.split(|c: char| !c.is_ascii_digit()).next();
    first.and_then(|cpu| cpu.parse().ok()).unwrap_or(0)
}
