//! The BPF programs. One copy of this object is loaded for each target, with the
//! target's decoder fixed in read-only data, so that the verifier removes what
//! the target does not need.
//!
//! No logging, no branches that depend on user space at run time, and no map is
//! ever cleared.
#![no_std]
#![no_main]
#![expect(
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    missing_docs,
    unreachable_pub,
    reason = "the form that aya's macros want and what they make of it; words are 64 bits here"
)]

use aya_ebpf::{
    Global,
    bindings::{BPF_ANY, BPF_F_MMAPABLE, BPF_NOEXIST},
    helpers::{
        bpf_get_current_comm, bpf_get_current_task_btf, bpf_get_smp_processor_id, bpf_ktime_get_ns,
    },
    macros::{kprobe, kretprobe, map},
    maps::{Array, CgroupArray, HashMap},
    programs::{ProbeContext, RetProbeContext},
};
use probe_ebpf::{
    Class, DECODE_ERRNO, DECODE_REMAP_FLAGS, EPOCHS, KIND_PLAIN, PF_KTHREAD, STARTS as MOST, Start,
    Tally,
    h2::{TABLE, TABLE_VALUES, slot_by},
    remap_kind,
};

#[map]
static TALLY: Array<Tally> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Calls under way, by the stack pointer at entry. It is the call's identity: a
/// stack belongs to one task (or one interrupt) and a frame on it to one call, so
/// nested and recursive calls are told apart, and a task may move to another CPU.
#[map]
static STARTS: HashMap<u64, Start> = HashMap::with_max_entries(MOST, 0);

/// The target's decoder bits, set by user space before loading.
#[unsafe(no_mangle)]
static DECODER: Global<u32> = Global::new(0);

/// Where the flags of a task are, set by user space before loading.
#[unsafe(no_mangle)]
static FLAGS_OFFSET: Global<u32> = Global::new(0);

/// The cgroup of the workload, put in before a window opens.
#[map]
static WORKLOAD: CgroupArray = CgroupArray::with_max_entries(1, 0);

/// The histogram's table, in the programs' own read-only memory.
static SLOTS_TABLE: [u8; TABLE_VALUES] = TABLE;

/// The gate, written by user space: 0 is closed, else the epoch of the window.
#[unsafe(no_mangle)]
static mut GATE: u64 = 0;

/// Counts a call and keeps its start. Starts are kept with the gate closed, too:
/// so a return without one is a loss.
#[kprobe]
pub fn cowprobe_entry(ctx: ProbeContext) -> u32 {
    let epoch = gate();
    let Some(tally) = this_cpus_tally() else {
        return 0;
    };
    // SAFETY: the pointer is this CPU's slot, and this program alone writes the fields below.
    let tally = unsafe { &mut *tally };
    if epoch != 0 {
        let kind = if DECODER.load() & DECODE_REMAP_FLAGS == 0 {
            KIND_PLAIN
        } else {
            remap_kind(ctx.arg(5).unwrap_or(0))
        };
        tally.calls[kind][class() as usize] += 1;
    }
    let frame = entry_frame(&ctx);
    // SAFETY: a helper without conditions.
    let at_ns = unsafe { bpf_ktime_get_ns() };
    let start = Start { at_ns, epoch };
    if STARTS.insert(frame, start, u64::from(BPF_NOEXIST)).is_ok() {
        return 0;
    }
    // A start is there already, which nobody came back for, or there is no room.
    let mut kept = false;
    if let Some(stale) = STARTS.get_ptr(frame) {
        // SAFETY: the element is of this frame, which no other program uses.
        let of_window = epoch != 0 && unsafe { (*stale).epoch } == epoch;
        kept = STARTS.insert(frame, start, u64::from(BPF_ANY)).is_ok();
        tally.abandoned += u64::from(kept && of_window);
    }
    tally.unstored += u64::from(!kept && epoch != 0);
    0
}

/// Counts a return and its time, if the window of its call is still open.
#[kretprobe]
pub fn cowprobe_return(ctx: RetProbeContext) -> u32 {
    // SAFETY: a helper without conditions.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let gate = gate();
    let Some(tally) = this_cpus_tally() else {
        return 0;
    };
    // SAFETY: the pointer is this CPU's slot, and this program alone writes the fields below.
    let tally = unsafe { &mut *tally };
    let frame = return_frame(&ctx);
    let Some(start) = STARTS.get_ptr(frame) else {
        tally.unmatched += 1;
        return 0;
    };
    // SAFETY: the element lives until it is removed, and only the return of this frame does so.
    let Start { at_ns, epoch } = unsafe { *start };
    let of_window = &mut tally.epochs[epoch as usize % EPOCHS];
    if epoch == 0 {
    } else if epoch != gate {
        of_window.note_late(epoch);
    } else {
        let time_ns = now_ns.saturating_sub(at_ns);
        of_window.note(epoch, time_ns);
        tally.returns += 1;
        if DECODER.load() & DECODE_ERRNO != 0 && ctx.ret::<i64>() < 0 {
            tally.errors += 1;
        }
        tally.sum_ns += time_ns;
        if let Some(bucket) = tally.buckets.get_mut(slot_by(&SLOTS_TABLE, time_ns)) {
            *bucket += 1;
        }
    }
    // Counted before it is removed: user space relies on it to count what is under way.
    let _ = STARTS.remove(frame);
    0
}

/// Who executes this call.
#[inline]
fn class() -> Class {
    let offset = FLAGS_OFFSET.load();
    if offset == 0 {
        return Class::Other;
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
    // An error says that there is no such cgroup.
    if WORKLOAD.current_task_under_cgroup(0) == Ok(true) {
        Class::Workload
    } else {
        Class::Other
    }
}

/// Each program reads it once: a call, and a return, is of one window.
fn gate() -> u64 {
    // SAFETY: an aligned word that user space writes whole.
    unsafe { (&raw const GATE).read_volatile() }
}

fn this_cpus_tally() -> Option<*mut Tally> {
    // SAFETY: a helper without conditions.
    TALLY.get_ptr_mut(unsafe { bpf_get_smp_processor_id() })
}

/// The stack pointer at entry, where the return address is.
#[cfg(bpf_target_arch = "x86_64")]
fn entry_frame(ctx: &ProbeContext) -> u64 {
    // SAFETY: the kernel gives the registers to the program for the time of its run.
    unsafe { (*ctx.regs).rsp }
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
