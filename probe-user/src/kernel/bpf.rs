//! What of bpf(2) aya 0.14 has no API for: programs that are loaded without the
//! kernel's BTF, links whose fds are ours, the loss counters of both, maps in maps,
//! and reading a hash in batches.

use std::{
    error::Error,
    ffi::CStr,
    fmt, io, mem,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

use aya_obj::generated::{
    bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_link_info, bpf_map_type, bpf_prog_info,
    bpf_prog_type,
};
use probe_ebpf::{STARTS, Start};

use crate::wording::plain;

/// Marks a counter that the kernel did not write. `BPF_OBJ_GET_INFO_BY_FD` starts
/// from the caller's structure (`bpf_prog_get_info_by_fd` and
/// `bpf_link_get_info_by_fd`, kernel/bpf/syscall.c of Linux 7.2), so a field
/// that a kernel does not know comes back as it was.
const UNWRITTEN: u64 = u64::MAX;

/// How much of the verifier's words is kept; it ends with the reason (since Linux 6.4
/// also where there are more).
const LOG_BYTES: usize = 1 << 20;

/// Why the kernel does not take a program.
#[derive(Debug)]
pub(super) struct LoadError {
    error: io::Error,
    /// The last line of what the verifier said.
    reason: Option<String>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = plain(&self.error);
        match &self.reason {
            Some(reason) => write!(f, "the verifier refuses the program: {error}: {reason}"),
            None => write!(f, "the kernel does not take the program: {error}"),
        }
    }
}

impl LoadError {
    /// Whether the verifier said why.
    pub(super) const fn has_reason(&self) -> bool {
        self.reason.is_some()
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// Has the kernel verify a program. The verifier is asked for its reasons only after it
/// refused.
pub(super) fn load_program(
    kind: bpf_prog_type,
    name: &CStr,
    license: &CStr,
    instructions: &[bpf_insn],
) -> Result<OwnedFd, LoadError> {
    let load = |log: &mut [u8]| -> io::Result<OwnedFd> {
        let mut attr = zeroed_attr();
        // SAFETY: the union is all zero, which is valid for each of its members.
        let program = unsafe { &mut attr.__bindgen_anon_3 };
        program.prog_type = kind as u32;
        program.insns = instructions.as_ptr() as u64;
        program.insn_cnt = u32::try_from(instructions.len()).expect("a small program");
        program.license = license.as_ptr() as u64;
        // The kernel keeps 15 characters and a NUL.
        let kept = program.prog_name.len() - 1;
        for (to, from) in program.prog_name[..kept].iter_mut().zip(name.to_bytes()) {
            // Signed on some machines, unsigned on others.
            *to = libc::c_char::from_ne_bytes([*from]);
        }
        if !log.is_empty() {
            program.log_level = 1;
            program.log_size = u32::try_from(log.len()).expect("a small buffer");
            program.log_buf = log.as_mut_ptr() as u64;
        }
        let fd = bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)?;
        // SAFETY: the kernel just made this fd for us, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    let error = match load(&mut []) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let mut log = vec![0; LOG_BYTES];
    if let Ok(program) = load(&mut log) {
        return Ok(program);
    }
    let log = CStr::from_bytes_until_nul(&log).unwrap_or_default();
    let log = log.to_string_lossy();
    let mut lines = log.lines().map(str::trim);
    // The last line is a statistic.
    let reason = lines.rfind(|l| !l.is_empty() && !l.starts_with("processed "));
    Err(LoadError {
        error,
        reason: reason.map(str::to_owned),
    })
}

/// Lets a program run at each hit of a perf event, as long as the link is open.
pub(super) fn link_to_event(program: BorrowedFd<'_>, event: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = zeroed_attr();
    attr.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd().cast_unsigned();
    attr.link_create.__bindgen_anon_2.target_fd = event.as_raw_fd().cast_unsigned();
    attr.link_create.attach_type = bpf_attach_type::BPF_PERF_EVENT as u32;
    let fd = bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr)?;
    // SAFETY: the kernel just made this fd for us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets a program run at a tracepoint as long as the link is open.
pub(super) fn link_to_tracepoint(program: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let mut attr = zeroed_attr();
    attr.raw_tracepoint.name = name.as_ptr() as u64;
    attr.raw_tracepoint.prog_fd = program.as_raw_fd().cast_unsigned();
    let fd = bpf(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attr)?;
    // SAFETY: the kernel just made this fd for us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How often the kprobe or kretprobe behind a perf link was skipped (`missed`,
/// since Linux 6.7); `None` if this kernel does not tell.
pub(super) fn link_missed(link: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    // SAFETY: a structure of integers and unions of integers; all zero is valid.
    let mut info: bpf_link_info = unsafe { mem::zeroed() };
    info.__bindgen_anon_1
        .perf_event
        .__bindgen_anon_1
        .kprobe
        .missed = UNWRITTEN;
    match info_by_fd(link, &mut info) {
        Ok(()) => {}
        // A kernel whose structure ends before `missed` refuses what it does not know.
        Err(e) if e.raw_os_error() == Some(libc::E2BIG) => return Ok(None),
        Err(e) => return Err(e),
    }
    // SAFETY: every bit pattern of the union is a valid integer.
    let missed = unsafe {
        info.__bindgen_anon_1
            .perf_event
            .__bindgen_anon_1
            .kprobe
            .missed
    };
    Ok((missed != UNWRITTEN).then_some(missed))
}

/// How often a program was not run because another ran on that CPU
/// (`recursion_misses`, a field since Linux 5.12); `None` if this kernel does not tell.
pub(super) fn recursion_misses(program: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    // SAFETY: a structure of integers; all zero is valid.
    let mut info: bpf_prog_info = unsafe { mem::zeroed() };
    info.recursion_misses = UNWRITTEN;
    match info_by_fd(program, &mut info) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::E2BIG) => return Ok(None),
        Err(e) => return Err(e),
    }
    Ok((info.recursion_misses != UNWRITTEN).then_some(info.recursion_misses))
}

/// A new array map of one 32-bit element; of maps like `inner`, if it is given.
pub(super) fn create_array(inner: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let mut attr = zeroed_attr();
    // SAFETY: the union is all zero, which is valid for each of its members.
    let map = unsafe { &mut attr.__bindgen_anon_1 };
    (map.key_size, map.value_size, map.max_entries) = (4, 4, 1);
    map.map_type = match inner {
        Some(inner) => {
            map.inner_map_fd = inner.as_raw_fd().cast_unsigned();
            bpf_map_type::BPF_MAP_TYPE_ARRAY_OF_MAPS as u32
        }
        None => bpf_map_type::BPF_MAP_TYPE_ARRAY as u32,
    };
    let fd = bpf(bpf_cmd::BPF_MAP_CREATE, &mut attr)?;
    // SAFETY: the kernel just made this fd for us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets element 0 of an array map, whose elements are of the length of `value`.
pub(super) fn update_first(map: BorrowedFd<'_>, value: &[u8]) -> io::Result<()> {
    update(map, 0, value)
}

/// Sets an element of a map whose keys are of 32 bits, and whose elements are of the
/// length of `value`.
pub(super) fn update(map: BorrowedFd<'_>, key: u32, value: &[u8]) -> io::Result<()> {
    let mut attr = zeroed_attr();
    // SAFETY: the union is all zero, which is valid for each of its members.
    let element = unsafe { &mut attr.__bindgen_anon_2 };
    element.map_fd = map.as_raw_fd().cast_unsigned();
    element.key = (&raw const key) as u64;
    element.__bindgen_anon_1.value = value.as_ptr() as u64;
    bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// Makes a map constant for user space, and so for the verifier.
pub(super) fn freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = zeroed_attr();
    attr.__bindgen_anon_2.map_fd = map.as_raw_fd().cast_unsigned();
    bpf(bpf_cmd::BPF_MAP_FREEZE, &mut attr).map(drop)
}

/// All calls under way that a hash of starts holds, in one call of the kernel (bucket by bucket:
/// an element that comes or goes meanwhile disturbs no other).
pub(super) fn starts(map: BorrowedFd<'_>) -> io::Result<Vec<Start>> {
    let mut keys = vec![0_u64; STARTS as usize];
    let mut starts = vec![Start::default(); STARTS as usize];
    let mut position = 0_u32;
    let mut attr = zeroed_attr();
    attr.batch.map_fd = map.as_raw_fd().cast_unsigned();
    attr.batch.out_batch = (&raw mut position) as u64;
    attr.batch.keys = keys.as_mut_ptr() as u64;
    attr.batch.values = starts.as_mut_ptr() as u64;
    attr.batch.count = STARTS;
    match bpf(bpf_cmd::BPF_MAP_LOOKUP_BATCH, &mut attr) {
        Ok(_) => {}
        // The end of the map was reached, as it must be with room for every element.
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
        Err(e) => return Err(e),
    }
    // SAFETY: the kernel wrote how many elements it copied.
    let count = unsafe { attr.batch.count };
    starts.truncate(count as usize);
    Ok(starts)
}

/// What the kernel tells of a program, a link or a BTF.
pub(super) fn info_by_fd<T>(fd: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    let mut attr = zeroed_attr();
    attr.info.bpf_fd = fd.as_raw_fd().cast_unsigned();
    attr.info.info = std::ptr::from_mut(info) as u64;
    attr.info.info_len = u32::try_from(size_of::<T>()).expect("a small structure");
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr).map(drop)
}

/// A request without anything in it.
pub(super) fn zeroed_attr() -> bpf_attr {
    // SAFETY: a union of structures of integers; all zero is valid, and the kernel wants
    // unused fields to be zero.
    unsafe { mem::zeroed() }
}

/// The system call.
pub(super) fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: `attr` is a whole bpf_attr of the size given, and the pointers in it are to
    // values that outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            std::ptr::from_mut(attr),
            size_of::<bpf_attr>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::try_from(result).expect("an fd or zero"))
}
