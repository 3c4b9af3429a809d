//! Where a call was made: which filesystem, by its super block's `s_dev`.

/// How many tallies a CPU has if filesystems are told apart. The last is of all for
/// which there is no other left.
pub const PLACES: u32 = 8;
/// How many pointers at most lead from an argument to the super block.
pub const POINTER_HOPS: usize = 3;
/// No pointer.
pub const NO_HOP: u32 = u32::MAX;

/// A filesystem in one word.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filesystem(pub u64);

impl Filesystem {
    /// They are not told apart; also of a tally that is nobody's yet.
    pub const ALL: Self = Self(0);
    /// The way to the super block could not be gone.
    pub const UNTOLD: Self = Self(2 << 32);
    /// One for which there was no tally left.
    pub const REST: Self = Self(3 << 32);

    const KNOWN: u64 = 1 << 32;
    /// `MINORBITS`, `include/linux/kdev_t.h` of Linux 7.2.
    const MINOR_BITS: u32 = 20;

    /// By `s_dev`, as the kernel keeps it.
    #[must_use]
    #[inline]
    pub const fn of_device(s_dev: u32) -> Self {
        Self(Self::KNOWN | s_dev as u64)
    }

    /// By the numbers that mountinfo shows.
    #[must_use]
    pub const fn of_numbers(major: u32, minor: u32) -> Self {
        Self::of_device(major << Self::MINOR_BITS | minor)
    }

    /// Major and minor number, if it is known.
    #[must_use]
    pub const fn numbers(self) -> Option<(u32, u32)> {
        if self.0 >> 32 != 1 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "its lower half is meant")]
        let s_dev = self.0 as u32;
        let minor = s_dev & ((1 << Self::MINOR_BITS) - 1);
        Some((s_dev >> Self::MINOR_BITS, minor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for (major, minor) in [(0, 1), (0, 45), (259, 3), (4095, (1 << 20) - 1)] {
            let numbers = Filesystem::of_numbers(major, minor).numbers();
            assert_eq!(numbers, Some((major, minor)));
        }
        assert_eq!(Filesystem::of_device(8 << 20 | 1).numbers(), Some((8, 1)));
        for other in [Filesystem::ALL, Filesystem::UNTOLD, Filesystem::REST] {
            assert_eq!(other.numbers(), None);
        }
    }
}
