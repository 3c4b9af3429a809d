//! What of bpf(2) aya 0.14 has no API for: an fd of a link, and the loss counters
//! of links and programs.

use std::{
    fs, io, mem,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
};

use aya_obj::generated::{bpf_attr, bpf_cmd, bpf_link_info, bpf_prog_info};

/// Marks a counter that the kernel did not write. `BPF_OBJ_GET_INFO_BY_FD` starts
/// from the caller's structure (`bpf_prog_get_info_by_fd` and
/// `bpf_link_get_info_by_fd`, kernel/bpf/syscall.c of Linux 7.2), so a field
/// that a kernel does not know comes back as it was.
const UNWRITTEN: u64 = u64::MAX;

/// A second fd of a link that this process holds, found by the link's id in
/// `/proc/self/fdinfo`: aya does not hand out its own, and
/// `BPF_LINK_GET_FD_BY_ID` wants `CAP_SYS_ADMIN`.
pub(super) fn own_link_fd(id: u32) -> io::Result<OwnedFd> {
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        // The fd of this very listing is closed again when it is read.
        let info = fs::read_to_string(entry.path()).unwrap_or_default();
        let mut ids = info.lines().filter_map(|l| l.strip_prefix("link_id:"));
        if ids.any(|text| text.trim().parse() == Ok(id)) {
            let name = entry.file_name();
            let fd = name.to_str().and_then(|name| name.parse().ok());
            let fd = fd.ok_or(io::ErrorKind::InvalidData)?;
            // SAFETY: the kernel just listed the fd as the link's, which the caller holds.
            return unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
        }
    }
    Err(io::ErrorKind::NotFound.into())
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
/// (`recursion_misses`, since Linux 5.12); `None` if this kernel does not tell.
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

fn info_by_fd<T>(fd: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    let mut attr = zeroed_attr();
    attr.info.bpf_fd = fd.as_raw_fd().cast_unsigned();
    attr.info.info = std::ptr::from_mut(info) as u64;
    attr.info.info_len = u32::try_from(size_of::<T>()).expect("a small structure");
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr)
}

fn zeroed_attr() -> bpf_attr {
    // SAFETY: a union of structures of integers; all zero is valid, and the kernel wants
    // unused fields to be zero.
    unsafe { mem::zeroed() }
}

fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<()> {
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
    Ok(())
}
