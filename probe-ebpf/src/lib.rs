//! The contract between the BPF programs and user space: what a map holds and
//! which names the programs, maps and settings go by.
//!
//! Nothing here knows of aya, of the kernel's own types or of any target: both
//! sides compile it, so it stays `no_std`, without `unsafe`, without
//! dependencies.
#![no_std]
#![forbid(unsafe_code)]

mod class;
mod filesystem;
pub mod h2;
mod interrupts;
mod start;
mod tally;

pub use class::{CLASSES, Class};
pub use filesystem::{Filesystem, NO_HOP, PLACES, POINTER_HOPS};
pub use interrupts::{
    COUNT_BY_INT, COUNT_BY_LONG, COUNT_UNKNOWN, PREEMPT_COUNT_MARK, in_interrupt,
};
pub use start::{NO_SLOT, SLOTS, STARTS, Slot, Start, slot_mask, slot_of};
pub use tally::{OfEpoch, Tally};

/// The kprobe program: one hit a call.
pub const ENTRY_PROGRAM: &str = "cowprobe_entry";
/// The kretprobe program: one hit a return.
pub const RETURN_PROGRAM: &str = "cowprobe_return";
/// The program at the tracepoint `sched_process_fork`: who is forked by the workload
/// belongs to it.
pub const FORK_PROGRAM: &str = "cowprobe_fork";
/// The array of a [`Tally`] for each place ([`PLACES_GLOBAL`]) of each possible CPU, by
/// its number. User space makes it as long as that, and maps it into its memory.
pub const TALLY_MAP: &str = "TALLY";
/// The map of [`SLOTS`] slots for calls under way, each at its [`slot_of`]. User space
/// maps it into its memory.
pub const SLOTS_MAP: &str = ".bss.slots";
/// The hash of those whose slot was not free: from the stack pointer at entry to a
/// [`Start`].
pub const STARTS_MAP: &str = "STARTS";
/// The map of two `u64`, mapped into user space: the gate, which is 0 if it is closed
/// and else the epoch of the open window; and in the copy of the program
/// [`FORK_PROGRAM`] how many processes there was no room for.
pub const SHARED_MAP: &str = ".bss";
/// The map of one cgroup, that of the workload; empty if there is none.
pub const CGROUP_MAP: &str = "WORKLOAD";
/// The hash of the processes of the workload by their number, where there is no cgroup.
pub const FOLLOWED_MAP: &str = "FOLLOWED";

// The settings: of type `u32`, fixed at load time.

/// The setting that holds the target's decoder bits.
pub const DECODER_GLOBAL: &str = "DECODER";
/// The setting that holds the offset of `flags` in `struct task_struct`; 0 if it is
/// not known, and then who executes a call is not told.
pub const FLAGS_OFFSET_GLOBAL: &str = "FLAGS_OFFSET";
/// The setting that holds the offset of `tgid` in the same.
pub const TGID_OFFSET_GLOBAL: &str = "TGID_OFFSET";
/// The setting that says what is where in the kernel's count of interrupts:
/// [`COUNT_UNKNOWN`], [`COUNT_BY_INT`] or [`COUNT_BY_LONG`].
pub const COUNT_GLOBAL: &str = "COUNT";
/// The setting that holds the offset of the count in its per-CPU variable.
pub const COUNT_OFFSET_GLOBAL: &str = "COUNT_OFFSET";
/// The setting that holds which slots are used: a [`slot_mask`].
pub const SLOT_MASK_GLOBAL: &str = "SLOT_MASK";
/// The setting that says whether [`FOLLOWED_MAP`] tells the workload: 1, else 0.
pub const FOLLOWING_GLOBAL: &str = "FOLLOWING";
/// The setting that holds how many tallies a CPU has: 1, or [`PLACES`] if filesystems
/// are told apart.
pub const PLACES_GLOBAL: &str = "PLACES";
/// The setting that holds which argument leads to the filesystem, from 0.
pub const ARGUMENT_GLOBAL: &str = "ARGUMENT";
/// The settings that hold the way from there to the super block: the offsets of the
/// pointers, [`NO_HOP`] for none.
pub const HOP_GLOBALS: [&str; POINTER_HOPS] = ["HOP_0", "HOP_1", "HOP_2"];
/// The setting that holds the offset of `s_dev` in the super block.
pub const DEVICE_OFFSET_GLOBAL: &str = "DEVICE_OFFSET";

/// How many processes can be followed.
pub const FOLLOWED: u32 = 65_536;

/// `PF_KTHREAD`, `include/linux/sched.h` of Linux 7.2.
pub const PF_KTHREAD: u32 = 0x0020_0000;

/// Decoder bit: the sixth argument is `remap_flags`, whose bit 0 tells dedupe
/// from clone (`REMAP_FILE_DEDUP`, `include/linux/fs.h` of Linux 7.2).
pub const DECODE_REMAP_FLAGS: u32 = 1 << 0;
/// Decoder bit: the function returns a signed 64-bit value, negative for errors.
pub const DECODE_ERRNO: u32 = 1 << 1;

/// `REMAP_FILE_DEDUP`, `include/linux/fs.h` of Linux 7.2.
pub const REMAP_FILE_DEDUP: u32 = 1 << 0;

/// How many kinds of call a decoder can tell apart.
pub const KINDS: usize = 2;
/// The kind of every call where nothing is decoded, and of a clone.
pub const KIND_PLAIN: usize = 0;
/// The kind of a remap with [`REMAP_FILE_DEDUP`].
pub const KIND_DEDUPE: usize = 1;

/// How many windows keep their extremes apart at the same time.
pub const EPOCHS: usize = 4;

/// The kind of a `btrfs_remap_file_range` call.
#[must_use]
#[inline]
pub const fn remap_kind(remap_flags: u32) -> usize {
    (remap_flags & REMAP_FILE_DEDUP) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dedup_flag_makes_a_dedupe() {
        // REMAP_FILE_CAN_SHORTEN is bit 1.
        for (flags, kind) in [
            (0, KIND_PLAIN),
            (1, KIND_DEDUPE),
            (2, KIND_PLAIN),
            (3, KIND_DEDUPE),
            (u32::MAX - 1, KIND_PLAIN),
        ] {
            assert_eq!(remap_kind(flags), kind, "flags {flags:#x}");
        }
    }
}
