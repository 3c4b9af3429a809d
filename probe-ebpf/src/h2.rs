//! The histogram's slots: octaves of 8 steps, so that a value is known within
//! 12.5 % of itself. The idea is that of `HdrHistogram` and of Rezolus' H2.
//!
//! Values below 16 have a slot of their own; from 2^35 ns (34 s) on all share the
//! last one.
#![expect(
    clippy::cast_possible_truncation,
    reason = "what is cast is below 2^11, and a slot of such a value below 72"
)]

/// How many slots there are.
pub const SLOTS: usize = 265;
/// The slot of everything from [`OVERFLOW`] on.
pub const LAST: usize = SLOTS - 1;
/// The first value that is not told apart from larger ones: 2^35.
pub const OVERFLOW: u64 = 1 << 35;
/// The values that [`TABLE`] covers: 11 bits.
pub const TABLE_VALUES: usize = 1 << 11;
/// Eight octaves of 8 steps: a value 2^8 times as large is so many slots further.
const EIGHT_OCTAVES: usize = 64;

/// The slot of each value below 2^11. Larger ones are looked up by their upper
/// bits: see [`slot_by`].
pub const TABLE: [u8; TABLE_VALUES] = {
    let mut table = [0; TABLE_VALUES];
    let mut value = 0;
    while value < TABLE_VALUES {
        table[value] = slot_of_small(value as u64) as u8;
        value += 1;
    }
    table
};

/// The slot of a value below 2^11, by the definition.
const fn slot_of_small(value: u64) -> usize {
    if value < 8 {
        return value as usize;
    }
    // In the octave that starts at 2^octave a step is 2^(octave - 3) wide.
    let octave = value.ilog2();
    let step = (value >> (octave - 3)) - 8;
    8 + (octave as usize - 3) * 8 + step as usize
}

/// The slot of a value. The caller lends the table, because a program of the
/// kernel has it in read-only memory of its own.
#[must_use]
#[inline]
pub fn slot_by(table: &[u8; TABLE_VALUES], value: u64) -> usize {
    // Each branch leaves an index below 2^11, so no bound is left to check.
    if value < 1 << 11 {
        table[value as usize] as usize
    } else if value < 1 << 19 {
        EIGHT_OCTAVES + table[(value >> 8) as usize] as usize
    } else if value < 1 << 27 {
        2 * EIGHT_OCTAVES + table[(value >> 16) as usize] as usize
    } else if value < OVERFLOW {
        3 * EIGHT_OCTAVES + table[(value >> 24) as usize] as usize
    } else {
        LAST
    }
}

/// The smallest and the largest value of a slot; the last one ends at
/// [`u64::MAX`].
///
/// # Panics
/// If there is no such slot.
#[must_use]
pub const fn bounds(slot: usize) -> (u64, u64) {
    assert!(slot < SLOTS, "no such slot");
    if slot == LAST {
        return (OVERFLOW, u64::MAX);
    }
    if slot < 16 {
        return (slot as u64, slot as u64);
    }
    let octave = (slot - 8) / 8 + 3;
    let width = 1 << (octave - 3);
    let low = (8 + (slot as u64 % 8)) * width;
    (low, low + width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_round_trips() {
        let mut next = 0;
        for slot in 0..SLOTS {
            let (low, high) = bounds(slot);
            assert_eq!(low, next, "slot {slot} follows the one before");
            assert_eq!(slot_by(&TABLE, low), slot, "the lower bound of {slot}");
            assert_eq!(slot_by(&TABLE, high), slot, "the upper bound of {slot}");
            assert_eq!(slot_by(&TABLE, low + (high - low) / 2), slot);
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the slots cover every value");
    }

    #[test]
    fn a_value_is_known_within_an_eighth() {
        for slot in 16..LAST {
            let (low, high) = bounds(slot);
            assert!((high - low + 1) * 8 <= low, "slot {slot}: {low}..={high}");
        }
    }
}
