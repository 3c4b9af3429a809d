//! The BPF programs. One copy of this object is loaded for each target, with the
//! target's decoder fixed in read-only data, so that the verifier removes what
//! the target does not need.
//!
//! No logging, no branches that depend on user space at run time, and no map is
//! ever cleared.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    missing_docs,
    unreachable_pub,
    reason = "the form that aya's macros want and what they make of it; words are 64 bits here"
)]

mod store;

use aya_ebpf::{
    Global,
    bindings::{BPF_ANY, BPF_F_MMAPABLE},
    helpers::{
        bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_task_btf,
        bpf_get_smp_processor_id, bpf_ktime_get_ns, bpf_probe_read_kernel,
        generated::bpf_this_cpu_ptr,
    },
    macros::{kprobe, kretprobe, map, raw_tracepoint},
    maps::{Array, CgroupArray, HashMap},
    programs::{ProbeContext, RawTracePointContext, RetProbeContext},
};
use probe_ebpf::{
    COUNT_UNKNOWN, Class, DECODE_ERRNO, DECODE_REMAP_FLAGS, EPOCHS, FOLLOWED as MOST_FOLLOWED,
    Filesystem, KIND_PLAIN, NO_HOP, PF_KTHREAD, PLACES as MOST_PLACES, PREEMPT_COUNT_MARK, Start,
    Tally,
    h2::{TABLE, TABLE_VALUES, slot_by},
    in_interrupt, remap_kind,
};
use store::Put;

#[map]
static TALLY: Array<Tally> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The cgroup of the workload, put in before a window opens.
#[map]
static WORKLOAD: CgroupArray = CgroupArray::with_max_entries(1, 0);

/// The processes of the workload, where there is no cgroup: one map for all targets.
#[map]
static FOLLOWED: HashMap<u32, u8> = HashMap::with_max_entries(MOST_FOLLOWED, 0);

/// Declares settings, which user space sets before loading.
macro_rules! settings {
    ($($name:ident = $default:expr;)*) => {
        $(#[unsafe(no_mangle)] static $name: Global<u32> = Global::new($default);)*
    };
}

settings! {
    DECODER = 0;
    FLAGS_OFFSET = 0;
    TGID_OFFSET = 0;
    COUNT = COUNT_UNKNOWN;
    COUNT_OFFSET = 0;
    FOLLOWING = 0;
    PLACES = 1;
    ARGUMENT = 0;
    HOP_0 = NO_HOP;
    HOP_1 = NO_HOP;
    HOP_2 = NO_HOP;
    DEVICE_OFFSET = 0;
}

/// The histogram's table, in the programs' own read-only memory.
static SLOTS_TABLE: [u8; TABLE_VALUES] = TABLE;

/// The gate, written by user space: 0 is closed, else the epoch of the window. In the
/// second word are the processes of the workload for which there was no room.
#[unsafe(no_mangle)]
static mut SHARED: [u64; 2] = [0; 2];

/// Counts a call and keeps its start. Starts are kept with the gate closed, too:
/// so a return without one is a loss.
#[kprobe]
pub fn cowprobe_entry(ctx: ProbeContext) -> u32 {
    let epoch = gate();
    let frame = entry_frame(&ctx);
    let filesystem = filesystem(&ctx);
    let counted = epoch != 0;
    if counted {
        let Some(tally) = tally_of(filesystem) else {
            return 0;
        };
        let kind = if DECODER.load() & DECODE_REMAP_FLAGS == 0 {
            KIND_PLAIN
        } else {
            remap_kind(ctx.arg(5).unwrap_or(0))
        };
        // SAFETY: the pointer is to this CPU's, and this program alone writes this field.
        unsafe { (*tally).calls[kind][class() as usize] += 1 };
    }
    let start = Start {
        at_ns: 0,
        epoch,
        filesystem,
    };
    match store::put(frame, start, now_ns) {
        Put::Kept => {}
        Put::Replaced(stale_epoch, filesystem) => {
            if counted
                && stale_epoch == epoch
                && let Some(tally) = tally_of(filesystem)
            {
                // SAFETY: as above.
                unsafe { (*tally).abandoned += 1 };
            }
        }
        Put::Lost => {
            if counted && let Some(tally) = tally_of(filesystem) {
                // SAFETY: as above.
                unsafe { (*tally).unstored += 1 };
            }
        }
    }
    0
}

/// Counts a return and its time, if the window of its call is still open.
#[kretprobe]
pub fn cowprobe_return(ctx: RetProbeContext) -> u32 {
    let now_ns = now_ns();
    let gate = gate();
    let frame = return_frame(&ctx);
    let Some((start, found)) = store::find(frame) else {
        if let Some(tally) = tally_of(Filesystem::UNTOLD) {
            // SAFETY: the pointer is to this CPU's, and this program alone writes this field.
            unsafe { (*tally).unmatched += 1 };
        }
        return 0;
    };
    if start.epoch != 0
        && let Some(tally) = tally_of(start.filesystem)
    {
        // SAFETY: the pointer is to this CPU's, and this program alone writes the fields below.
        let tally = unsafe { &mut *tally };
        let of_window = &mut tally.epochs[start.epoch as usize % EPOCHS];
        if start.epoch == gate {
            let time_ns = now_ns.saturating_sub(start.at_ns);
            of_window.note(start.epoch, time_ns);
            tally.returns += 1;
            if DECODER.load() & DECODE_ERRNO != 0 && ctx.ret::<i64>() < 0 {
                tally.errors += 1;
            }
            tally.sum_ns += time_ns;
            if let Some(bucket) = tally.buckets.get_mut(slot_by(&SLOTS_TABLE, time_ns)) {
                *bucket += 1;
            }
        } else {
            of_window.note_late(start.epoch);
        }
    }
    // Counted before it is removed: user space relies on it to count what is under way.
    store::remove(found);
    0
}

/// Who is forked by a process of the workload belongs to it; who is not does not, even
/// if its number was that of one. Threads are their process' (workers of `io_uring`, too).
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub fn cowprobe_fork(ctx: RawTracePointContext) -> u32 {
    let parent = (bpf_get_current_pid_tgid() >> 32) as u32;
    let child = ctx.arg::<u64>(1) + u64::from(TGID_OFFSET.load());
    // SAFETY: the helper reads what can be read, and says so.
    let Ok(child) = (unsafe { bpf_probe_read_kernel(child as *const u32) }) else {
        no_room();
        return 0;
    };
    if child == parent {
        return 0;
    }
    if FOLLOWED.get_ptr(parent).is_some() {
        if FOLLOWED.insert(child, 1, u64::from(BPF_ANY)).is_err() {
            no_room();
        }
    } else {
        let _ = FOLLOWED.remove(child);
    }
    0
}

/// Counts a process that cannot be followed.
fn no_room() {
    // SAFETY: an aligned word that lives as long as the program.
    let word = unsafe { (&raw mut SHARED).cast::<u64>().add(1) };
    // SAFETY: forks on two CPUs at once may count one: what is told is "or more".
    unsafe { word.write_volatile(word.read_volatile() + 1) };
}

/// Who executes this call.
#[inline]
fn class() -> Class {
    let offset = FLAGS_OFFSET.load();
    if offset == 0 {
        return Class::Other;
    }
    if interrupted() {
        return Class::Interrupt;
    }
    // SAFETY: the kernel's own task; the offset is that of its flags, which the verifier
    // checks.
    let flags = unsafe {
        let task = bpf_get_current_task_btf().cast::<u32>();
        task.byte_add(offset as usize).read()
    };
    if flags & PF_KTHREAD != 0 {
        let comm = bpf_get_current_comm().unwrap_or_default();
        return Class::of_kthread(&comm);
    }
    let of_workload = if FOLLOWING.load() == 0 {
        // An error says that there is no such cgroup.
        WORKLOAD.current_task_under_cgroup(0) == Ok(true)
    } else {
        let process = (bpf_get_current_pid_tgid() >> 32) as u32;
        FOLLOWED.get_ptr(process).is_some()
    };
    if of_workload {
        Class::Workload
    } else {
        Class::Other
    }
}

/// Whether this call comes in an interrupt, as far as that is known.
#[inline]
fn interrupted() -> bool {
    let form = COUNT.load();
    if form == COUNT_UNKNOWN {
        return false;
    }
    let variable = core::ptr::without_provenance(PREEMPT_COUNT_MARK as usize);
    // SAFETY: user space has put the variable there, and the verifier checks the reading.
    let count = unsafe {
        let here = bpf_this_cpu_ptr(variable).cast::<u32>();
        here.byte_add(COUNT_OFFSET.load() as usize).read_volatile()
    };
    in_interrupt(form, count)
}

/// Where this call is made.
#[inline]
fn filesystem(ctx: &ProbeContext) -> Filesystem {
    if PLACES.load() == 1 {
        return Filesystem::ALL;
    }
    // Each is read at its own place, whichever is wanted: the compiler would choose among
    // addresses, and the verifiers of Linux 6.1 and 6.12 take none that is made at run time.
    let arguments = arguments(ctx);
    let mut at = match ARGUMENT.load() {
        0 => arguments[0],
        1 => arguments[1],
        2 => arguments[2],
        3 => arguments[3],
        4 => arguments[4],
        _ => arguments[5],
    };
    for hop in [HOP_0.load(), HOP_1.load(), HOP_2.load()] {
        if hop == NO_HOP {
            continue;
        }
        let pointer = at.wrapping_add(u64::from(hop)) as *const u64;
        // SAFETY: the helper reads what can be read, and says so.
        let Ok(next) = (unsafe { bpf_probe_read_kernel(pointer) }) else {
            return Filesystem::UNTOLD;
        };
        at = next;
    }
    let device = at.wrapping_add(u64::from(DEVICE_OFFSET.load())) as *const u32;
    // SAFETY: as above.
    match unsafe { bpf_probe_read_kernel(device) } {
        Ok(s_dev) => Filesystem::of_device(s_dev),
        Err(_) => Filesystem::UNTOLD,
    }
}

/// This CPU's tally of a filesystem. The first that comes takes the next that is
/// nobody's; the last is of all that come too late.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "a call of a BPF function saves all registers: 36 instructions a pair"
)]
fn tally_of(filesystem: Filesystem) -> Option<*mut Tally> {
    // SAFETY: a helper without conditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    match PLACES.load() {
        1 => TALLY.get_ptr_mut(cpu),
        places => tally_among(cpu * places, filesystem),
    }
}

/// The same where a CPU has several.
#[inline(never)]
fn tally_among(first: u32, filesystem: Filesystem) -> Option<*mut Tally> {
    for place in 0..MOST_PLACES - 1 {
        let tally = TALLY.get_ptr_mut(first + place)?;
        // SAFETY: the pointer is to this CPU's, and kprobe programs exclude each other.
        let whose = unsafe { &mut (*tally).filesystem };
        if *whose == Filesystem::ALL {
            *whose = filesystem;
        }
        if *whose == filesystem {
            return Some(tally);
        }
    }
    let tally = TALLY.get_ptr_mut(first + MOST_PLACES - 1)?;
    // SAFETY: as above.
    unsafe { (*tally).filesystem = Filesystem::REST };
    Some(tally)
}

fn now_ns() -> u64 {
    // SAFETY: a helper without conditions.
    unsafe { bpf_ktime_get_ns() }
}

/// Each program reads it once: a call, and a return, is of one window.
fn gate() -> u64 {
    // SAFETY: an aligned word that user space writes whole.
    unsafe { (&raw const SHARED).cast::<u64>().read_volatile() }
}

/// The stack pointer at entry, where the return address is.
#[cfg(bpf_target_arch = "x86_64")]
fn entry_frame(ctx: &ProbeContext) -> u64 {
    // SAFETY: the kernel gives the registers to the program for the time of its run.
    unsafe { (*ctx.regs).rsp }
}

/// The arguments that come in registers.
#[inline]
#[cfg(bpf_target_arch = "x86_64")]
fn arguments(ctx: &ProbeContext) -> [u64; 6] {
    // SAFETY: the kernel gives the registers to the program for the time of its run.
    unsafe {
        let regs = ctx.regs;
        [
            (&raw const (*regs).rdi).read_volatile(),
            (&raw const (*regs).rsi).read_volatile(),
            (&raw const (*regs).rdx).read_volatile(),
            (&raw const (*regs).rcx).read_volatile(),
            (&raw const (*regs).r8).read_volatile(),
            (&raw const (*regs).r9).read_volatile(),
        ]
    }
}

/// The arguments that come in registers.
#[inline]
#[cfg(bpf_target_arch = "aarch64")]
fn arguments(ctx: &ProbeContext) -> [u64; 6] {
    let regs = ctx.regs.cast::<aya_ebpf::bindings::user_pt_regs>();
    // SAFETY: the kernel gives the registers to the program for the time of its run.
    core::array::from_fn(|i| unsafe { (&raw const (*regs).regs[i]).read_volatile() })
}

/// The same at the return, which has popped the return address.
#[cfg(bpf_target_arch = "x86_64")]
fn return_frame(ctx: &RetProbeContext) -> u64 {
    // SAFETY: the kernel gives the registers to the program for the time of its run.
    unsafe { (*ctx.regs).rsp }.wrapping_sub(8)
}

/// The stack pointer at entry; the return address is in a register.
#[cfg(bpf_target_arch = "aarch64")]
fn entry_frame(ctx: &ProbeContext) -> u64 {
    // SAFETY: the kernel gives the registers to the program for the time of its run.
    unsafe { (*ctx.regs.cast::<aya_ebpf::bindings::user_pt_regs>()).sp }
}

/// The same at the return.
#[cfg(bpf_target_arch = "aarch64")]
fn return_frame(ctx: &RetProbeContext) -> u64 {
    // SAFETY: the kernel gives the registers to the program for the time of its run.
    unsafe { (*ctx.regs.cast::<aya_ebpf::bindings::user_pt_regs>()).sp }
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
