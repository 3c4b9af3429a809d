//! Where calls under way are kept, by the stack pointer at entry. It is the call's
//! identity: a stack belongs to one task (or one interrupt) and a frame on it to one
//! call, so nested and recursive calls are told apart, and a task may move to another
//! CPU.
//!
//! Each frame has a slot. One that is another frame's at entry makes the start go to a
//! hash, which takes some seven times as long. So a start is in its slot or in the
//! hash, and a return looks in that order: of a frame there is one in the slot only if
//! it is the later one.

use core::arch::asm;

use aya_ebpf::{
    Global,
    bindings::{BPF_ANY, BPF_NOEXIST},
    macros::map,
    maps::HashMap,
};
use probe_ebpf::{Filesystem, NO_SLOT, SLOTS, STARTS as MOST, Slot, Start, slot_of};

#[map]
static STARTS: HashMap<u64, Start> = HashMap::with_max_entries(MOST, 0);

#[unsafe(no_mangle)]
#[unsafe(link_section = ".bss.slots")]
static mut SLOTS_TABLE: [Slot; SLOTS] = [Slot::EMPTY; SLOTS];

/// Which slots are used.
#[unsafe(no_mangle)]
static SLOT_MASK: Global<u32> = Global::new(NO_SLOT);

/// What became of a start.
pub enum Put {
    /// It is kept.
    Kept,
    /// It is kept, in the place of one that nobody came back for, of this epoch and
    /// filesystem.
    Replaced(u64, Filesystem),
    /// There was no room.
    Lost,
}

/// Where a start was found.
pub enum Found {
    Slot(*mut Slot),
    Hash(u64),
}

/// The slot of a frame, if slots are used.
#[inline]
fn slot(frame: u64) -> Option<*mut Slot> {
    let mask = SLOT_MASK.load();
    // SAFETY: a mask is below SLOTS.
    let slot = || unsafe {
        (&raw mut SLOTS_TABLE)
            .cast::<Slot>()
            .add(slot_of(frame, mask))
    };
    (mask != NO_SLOT).then(slot)
}

/// Takes a slot if it is free, in one step, and returns whose it was.
#[inline]
fn claim(slot: *mut Slot, frame: u64) -> u64 {
    let mut whose: u64 = 0;
    // SAFETY: the slot is an aligned word of ours; core has no atomics for this target.
    unsafe {
        asm!(
            "r0 = cmpxchg_64({slot} + 0, r0, {frame})",
            slot = in(reg) slot,
            frame = in(reg) frame,
            inlateout("r0") whose,
        );
    }
    whose
}

/// Keeps a start. The clock is read last, so that little of this is in the call's time.
#[inline]
pub fn put(frame: u64, mut start: Start, clock: fn() -> u64) -> Put {
    if let Some(slot) = slot(frame) {
        let whose = claim(slot, frame);
        if whose == 0 || whose == frame {
            // SAFETY: the slot is this frame's, which no other program uses.
            let kept = unsafe { &mut (*slot).start };
            let stale = (kept.epoch, kept.filesystem);
            kept.epoch = start.epoch;
            kept.filesystem = start.filesystem;
            kept.at_ns = clock();
            return if whose == 0 {
                Put::Kept
            } else {
                Put::Replaced(stale.0, stale.1)
            };
        }
    }
    start.at_ns = clock();
    if STARTS.insert(frame, start, u64::from(BPF_NOEXIST)).is_ok() {
        return Put::Kept;
    }
    // A start is there already, which nobody came back for, or there is no room.
    let Some(stale) = STARTS.get_ptr(frame) else {
        return Put::Lost;
    };
    // SAFETY: the element is of this frame, which no other program uses.
    let stale = unsafe { *stale };
    if STARTS.insert(frame, start, u64::from(BPF_ANY)).is_ok() {
        Put::Replaced(stale.epoch, stale.filesystem)
    } else {
        Put::Lost
    }
}

/// Finds the start of a call that returns.
#[inline]
pub fn find(frame: u64) -> Option<(Start, Found)> {
    if let Some(slot) = slot(frame) {
        // SAFETY: a word that is written whole; it is this frame's only as long as its
        // call is under way.
        if unsafe { (&raw const (*slot).frame).read_volatile() } == frame {
            // SAFETY: the slot is this frame's, which no other program uses.
            return Some((unsafe { (*slot).start }, Found::Slot(slot)));
        }
    }
    let start = STARTS.get_ptr(frame)?;
    // SAFETY: the element lives until it is removed, and only the return of this frame
    // does so.
    Some((unsafe { *start }, Found::Hash(frame)))
}

/// Forgets a start that was found.
#[inline]
pub fn remove(found: Found) {
    match found {
        Found::Slot(slot) => free(slot),
        Found::Hash(frame) => {
            let _ = STARTS.remove(frame);
        }
    }
}

/// Frees a slot. Whoever takes it next must not be seen with this start's epoch.
#[inline]
#[cfg(bpf_target_arch = "x86_64")]
fn free(slot: *mut Slot) {
    // SAFETY: the slot is this frame's until the second store, which x86 does not let
    // overtake the first, nor the loads before it.
    unsafe {
        (&raw mut (*slot).start.epoch).write_volatile(0);
        (&raw mut (*slot).frame).write_volatile(0);
    }
}

/// The same where stores overtake each other: an exchange is a barrier.
#[inline]
#[cfg(not(bpf_target_arch = "x86_64"))]
fn free(slot: *mut Slot) {
    // SAFETY: the slot is this frame's until the exchange.
    unsafe {
        (&raw mut (*slot).start.epoch).write_volatile(0);
        asm!(
            "{frame} = xchg_64({slot} + 0, {frame})",
            slot = in(reg) slot,
            frame = inout(reg) 0u64 => _,
        );
    }
}
