//! What is loaded and attached on this machine, whoever did it: lists of ids, and what
//! the kernel tells of each. All of it takes `CAP_SYS_ADMIN`.

use std::{
    ffi::CStr,
    io, mem,
    os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

use aya_obj::generated::{
    BPF_F_KPROBE_MULTI_RETURN, bpf_attach_type, bpf_btf_info, bpf_cmd, bpf_link_info,
    bpf_link_type, bpf_perf_event_type, bpf_prog_info, bpf_prog_type, bpf_task_fd_type,
};

use super::bpf::{bpf, info_by_fd, zeroed_attr};

/// Longer than any function's name (`KSYM_NAME_LEN`, 512 since Linux 6.1) with its
/// module's (`MODULE_NAME_LEN`).
const NAME_BYTES: usize = 640;

/// Since Linux 7.1; not in aya's bindings.
const BPF_TRACE_FSESSION: u32 = 58;

/// A kind of thing that has ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Program,
    Link,
    Btf,
}

/// What makes a program run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    Kprobe(Probed),
    Kretprobe(Probed),
    /// The functions' addresses; zeros where they are hidden.
    Multi {
        of_return: bool,
        addresses: Vec<u64>,
    },
    /// As bpftrace calls it; the program knows its function.
    Tracing(&'static str),
    /// Nothing that is on a function of the kernel.
    Other,
    /// This kernel does not tell.
    Untold,
}

/// Where a kprobe is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probed {
    /// `[MODULE:]SYMBOL`; `None` if it was made by address.
    pub(super) function: Option<String>,
    /// From the function's beginning.
    pub(super) offset: u64,
    /// 0 if it is hidden.
    pub(super) address: u64,
}

/// A program, and what the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) id: u32,
    /// At most 15 characters.
    pub(super) name: String,
    /// Whether it is one for kprobes (and uprobes).
    pub(super) is_kprobe: bool,
    /// The ids of the BTF, and of the type in it, that it was loaded for.
    pub(super) traces: (u32, u32),
}

/// Every id that is in use.
pub(super) fn ids(kind: Kind) -> io::Result<Vec<u32>> {
    let command = match kind {
        Kind::Program => bpf_cmd::BPF_PROG_GET_NEXT_ID,
        Kind::Link => bpf_cmd::BPF_LINK_GET_NEXT_ID,
        Kind::Btf => bpf_cmd::BPF_BTF_GET_NEXT_ID,
    };
    let mut ids = Vec::new();
    let mut attr = zeroed_attr();
    loop {
        attr.__bindgen_anon_6.__bindgen_anon_1.start_id = ids.last().copied().unwrap_or(0);
        match bpf(command, &mut attr) {
            // SAFETY: the kernel wrote an id.
            Ok(_) => ids.push(unsafe { attr.__bindgen_anon_6.next_id }),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(ids),
            Err(e) => return Err(e),
        }
    }
}

/// Opens one of them; `ENOENT` if it went away.
pub(super) fn open(kind: Kind, id: u32) -> io::Result<OwnedFd> {
    let command = match kind {
        Kind::Program => bpf_cmd::BPF_PROG_GET_FD_BY_ID,
        Kind::Link => bpf_cmd::BPF_LINK_GET_FD_BY_ID,
        Kind::Btf => bpf_cmd::BPF_BTF_GET_FD_BY_ID,
    };
    let mut attr = zeroed_attr();
    attr.__bindgen_anon_6.__bindgen_anon_1.start_id = id;
    let fd = bpf(command, &mut attr)?;
    // SAFETY: the kernel just made this fd for us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a program is.
pub(super) fn program(fd: BorrowedFd<'_>) -> io::Result<Program> {
    // SAFETY: a structure of integers; all zero is valid.
    let mut info: bpf_prog_info = unsafe { mem::zeroed() };
    info_by_fd(fd, &mut info)?;
    Ok(Program {
        id: info.id,
        name: text(&info.name.map(libc::c_char::cast_unsigned)),
        is_kprobe: info.type_ == bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32,
        traces: (info.attach_btf_obj_id, info.attach_btf_id),
    })
}

/// The id of a link's program, and what makes it run.
pub(super) fn link(fd: BorrowedFd<'_>) -> io::Result<(u32, Hook)> {
    // SAFETY: a structure of integers and unions of integers; all zero is valid.
    let mut info: bpf_link_info = unsafe { mem::zeroed() };
    info_by_fd(fd, &mut info)?;
    let hook = if info.type_ == bpf_link_type::BPF_LINK_TYPE_PERF_EVENT as u32 {
        perf_hook(fd)?
    } else if info.type_ == bpf_link_type::BPF_LINK_TYPE_KPROBE_MULTI as u32 {
        // SAFETY: the kernel wrote this member of the union.
        let multi = unsafe { info.__bindgen_anon_1.kprobe_multi };
        Hook::Multi {
            of_return: multi.flags & BPF_F_KPROBE_MULTI_RETURN != 0,
            addresses: addresses(fd, multi.count)?,
        }
    } else if info.type_ == bpf_link_type::BPF_LINK_TYPE_TRACING as u32 {
        // SAFETY: the kernel wrote this member of the union.
        tracing_hook(unsafe { info.__bindgen_anon_1.tracing.attach_type })
    } else {
        Hook::Other
    };
    Ok((info.prog_id, hook))
}

/// Of an event that another task has open: its program's id, and what makes that run.
/// An error if the event has no program.
pub(super) fn event(pid: u32, fd: u32) -> io::Result<(u32, Hook)> {
    let mut name = [0_u8; NAME_BYTES];
    let mut attr = zeroed_attr();
    attr.task_fd_query.pid = pid;
    attr.task_fd_query.fd = fd;
    attr.task_fd_query.buf = name.as_mut_ptr() as u64;
    attr.task_fd_query.buf_len = u32::try_from(NAME_BYTES).expect("small");
    bpf(bpf_cmd::BPF_TASK_FD_QUERY, &mut attr)?;
    // SAFETY: the kernel wrote this member of the union.
    let answer = unsafe { attr.task_fd_query };
    let probed = || Probed {
        function: some_text(&name),
        offset: answer.probe_offset,
        address: answer.probe_addr,
    };
    let hook = if answer.fd_type == bpf_task_fd_type::BPF_FD_TYPE_KPROBE as u32 {
        Hook::Kprobe(probed())
    } else if answer.fd_type == bpf_task_fd_type::BPF_FD_TYPE_KRETPROBE as u32 {
        Hook::Kretprobe(probed())
    } else {
        Hook::Other
    };
    Ok((answer.prog_id, hook))
}

/// The name of a BTF of the kernel or of a module; `None` for that of a program.
pub(super) fn btf_name(id: u32) -> io::Result<Option<String>> {
    let mut name = [0_u8; NAME_BYTES];
    // SAFETY: a structure of integers; all zero is valid.
    let mut info: bpf_btf_info = unsafe { mem::zeroed() };
    info.name = name.as_mut_ptr() as u64;
    info.name_len = u32::try_from(NAME_BYTES).expect("small");
    info_by_fd(open(Kind::Btf, id)?.as_fd(), &mut info)?;
    Ok((info.kernel_btf != 0).then(|| text(&name)))
}

/// Asked for a second time, with room for the name: other links take its place in the
/// structure for something else.
fn perf_hook(fd: BorrowedFd<'_>) -> io::Result<Hook> {
    let mut name = [0_u8; NAME_BYTES];
    // SAFETY: a structure of integers and unions of integers; all zero is valid.
    let mut info: bpf_link_info = unsafe { mem::zeroed() };
    // SAFETY: the union is all zero, which is valid for each of its members.
    let kprobe = unsafe { &mut info.__bindgen_anon_1.perf_event.__bindgen_anon_1.kprobe };
    kprobe.func_name = name.as_mut_ptr() as u64;
    kprobe.name_len = u32::try_from(NAME_BYTES).expect("small");
    info_by_fd(fd, &mut info)?;
    // SAFETY: every bit pattern of the union is valid integers.
    let (kind, kprobe) = unsafe {
        let event = info.__bindgen_anon_1.perf_event;
        (event.type_, event.__bindgen_anon_1.kprobe)
    };
    let probed = || Probed {
        function: some_text(&name),
        offset: kprobe.offset.into(),
        address: kprobe.addr,
    };
    Ok(
        if kind == bpf_perf_event_type::BPF_PERF_EVENT_KPROBE as u32 {
            Hook::Kprobe(probed())
        } else if kind == bpf_perf_event_type::BPF_PERF_EVENT_KRETPROBE as u32 {
            Hook::Kretprobe(probed())
        } else if kind == bpf_perf_event_type::BPF_PERF_EVENT_UNSPEC as u32 {
            // Before Linux 6.6.
            Hook::Untold
        } else {
            Hook::Other
        },
    )
}

fn addresses(fd: BorrowedFd<'_>, count: u32) -> io::Result<Vec<u64>> {
    let mut addresses = vec![0_u64; count as usize];
    if count > 0 {
        // SAFETY: a structure of integers and unions of integers; all zero is valid.
        let mut info: bpf_link_info = unsafe { mem::zeroed() };
        info.__bindgen_anon_1.kprobe_multi.addrs = addresses.as_mut_ptr() as u64;
        info.__bindgen_anon_1.kprobe_multi.count = count;
        info_by_fd(fd, &mut info)?;
    }
    Ok(addresses)
}

fn tracing_hook(attach_type: u32) -> Hook {
    let named = [
        (bpf_attach_type::BPF_TRACE_FENTRY as u32, "fentry"),
        (bpf_attach_type::BPF_TRACE_FEXIT as u32, "fexit"),
        (bpf_attach_type::BPF_MODIFY_RETURN as u32, "fmod_ret"),
        (BPF_TRACE_FSESSION, "fsession"),
    ];
    let name = named.iter().find(|(number, _)| *number == attach_type);
    name.map_or(Hook::Other, |(_, name)| Hook::Tracing(name))
}

fn text(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

fn some_text(bytes: &[u8]) -> Option<String> {
    Some(text(bytes)).filter(|text| !text.is_empty())
}
