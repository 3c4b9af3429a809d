//! The BPF programs. One copy of this object is loaded for each target, with the
//! target's decoder fixed in read-only data, so that the verifier removes what
//! the target does not need.
//!
//! No logging, no branches that depend on user space at run time, and no map is
//! ever cleared.
#![no_std]
#![no_main]
#![expect(
    clippy::needless_pass_by_value,
    missing_docs,
    unreachable_pub,
    reason = "the form that aya's macros want, and what they make of it"
)]

use aya_ebpf::{
    Global,
    macros::{kprobe, kretprobe, map},
    maps::PerCpuArray,
    programs::{ProbeContext, RetProbeContext},
};
use probe_ebpf::{DECODE_ERRNO, DECODE_REMAP_FLAGS, KIND_PLAIN, Tally, remap_kind};

#[map]
static TALLY: PerCpuArray<Tally> = PerCpuArray::with_max_entries(1, 0);

/// The target's decoder bits, set by user space before loading.
#[unsafe(no_mangle)]
static DECODER: Global<u32> = Global::new(0);

/// Counts a call.
#[kprobe]
pub fn cowprobe_entry(ctx: ProbeContext) -> u32 {
    let kind = if DECODER.load() & DECODE_REMAP_FLAGS == 0 {
        KIND_PLAIN
    } else {
        remap_kind(ctx.arg(5).unwrap_or(0))
    };
    if let Some(tally) = TALLY.get_ptr_mut(0) {
        // SAFETY: the pointer is this CPU's slot, and this program alone writes `calls`.
        unsafe { (*tally).calls[kind] += 1 };
    }
    0
}

/// Counts a return.
#[kretprobe]
pub fn cowprobe_return(ctx: RetProbeContext) -> u32 {
    let failed = DECODER.load() & DECODE_ERRNO != 0 && ctx.ret::<i64>() < 0;
    if let Some(tally) = TALLY.get_ptr_mut(0) {
        // SAFETY: the pointer is this CPU's slot, and this program alone writes these fields.
        unsafe {
            (*tally).returns += 1;
            (*tally).errors += u64::from(failed);
        }
    }
    0
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
