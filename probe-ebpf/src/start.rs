//! A call under way, and where it is kept.

use super::Filesystem;

/// A call under way.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// When it was entered, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The gate at entry: its window's epoch, or 0 if no window was open.
    pub epoch: u64,
    /// Where it was called; [`Filesystem::ALL`] if they are not told apart.
    pub filesystem: Filesystem,
}

/// How many calls of one target can be under way at once, if nothing else is said. One
/// more is counted as a call, and in [`Tally::unstored`].
///
/// [`Tally::unstored`]: crate::Tally::unstored
pub const STARTS: u32 = 4096;
/// How many [`Slot`]s there are.
pub const SLOTS: usize = STARTS as usize;

/// Where a start is kept, if the frame's own slot is free at entry.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The frame whose start it is; 0 if it is free.
    pub frame: u64,
    /// Of that frame; what is left of the last, if it is free.
    pub start: Start,
}

impl Slot {
    /// How many `u64` words it is.
    pub const WORDS: usize = size_of::<Self>() / size_of::<u64>();
    /// One that is free.
    pub const EMPTY: Self = Self {
        frame: 0,
        start: Start {
            at_ns: 0,
            epoch: 0,
            filesystem: Filesystem::ALL,
        },
    };
}

/// No slot is used.
pub const NO_SLOT: u32 = u32::MAX;

/// Which slots are used where so many calls can be under way: the mask of
/// [`slot_of`]. A few calls have room in the hash alone.
#[must_use]
pub const fn slot_mask(starts: u32) -> u32 {
    match starts {
        0..16 => NO_SLOT,
        STARTS.. => STARTS - 1,
        _ => (1 << starts.ilog2()) - 1,
    }
}

/// The place of a frame's slot. It hangs on the frame alone: a task that moves to another
/// CPU meanwhile finds its start there, and no other place can have a stale one.
#[must_use]
#[inline]
pub const fn slot_of(frame: u64, mask: u32) -> usize {
    // The odd number nearest to 2^64 by the golden ratio: stacks, which are 2^14 or 2^15
    // bytes apart, come far from each other (Knuth, The Art of Computer Programming, 6.4).
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (frame.wrapping_mul(FACTOR) >> u32::BITS) as usize & mask as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_calls_have_few_slots() {
        for (starts, mask) in [
            (1, NO_SLOT),
            (15, NO_SLOT),
            (16, 15),
            (100, 63),
            (STARTS, 4095),
            (u32::MAX, 4095),
        ] {
            assert_eq!(slot_mask(starts), mask);
        }
    }

    #[test]
    fn stacks_have_slots_of_their_own() {
        for stack_bytes in [1 << 14, 1 << 15] {
            let mut taken = [false; SLOTS];
            for n in 0..64 {
                let frame = 0xffff_c900_0000_3e48 + n * stack_bytes;
                let taken = &mut taken[slot_of(frame, slot_mask(STARTS))];
                assert!(!*taken, "{frame:#x}");
                *taken = true;
                assert!(slot_of(frame, slot_mask(16)) < 16);
            }
        }
        assert_eq!(Slot::WORDS, 4);
    }
}
