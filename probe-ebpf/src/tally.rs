//! What one CPU counts, of one filesystem if they are told apart.

use super::{CLASSES, EPOCHS, Filesystem, KINDS, h2};

/// What does not subtract, or belongs to a window that may be over. Each window has
/// a place of its own: `epoch % EPOCHS`. Written by the return program.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfEpoch {
    /// Whose it is; 0 for nobody's yet.
    pub epoch: u64,
    /// The shortest call, in ns; `u64::MAX` if none returned in the window.
    pub min_ns: u64,
    /// The longest call, in ns.
    pub max_ns: u64,
    /// Calls that returned when the window was over: in flight at its end.
    pub late: u64,
}

/// What one CPU saw of one target since its probes were loaded, of calls that
/// were entered while the gate was open. It only grows: nobody clears it, a window
/// is the difference of two readings.
///
/// Each other field is written by one program alone. kprobe programs run with
/// preemption off and one at a time on a CPU (`bpf_prog_active`,
/// `kernel/trace/bpf_trace.c` of Linux 7.2), so that plain additions are exact.
///
/// No two CPUs write to one cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Whose it is. Written once, by whichever program needs a place first: kprobe programs
    /// exclude each other on a CPU.
    pub filesystem: Filesystem,
    /// Calls by kind and by [`Class`]; written by the entry program.
    pub calls: [[u64; CLASSES]; KINDS],
    /// Of the calls, those whose start could not be kept; written by the entry
    /// program. Their returns are [`Self::unmatched`].
    pub unstored: u64,
    /// Of the calls, those whose start was still there when their stack frame was
    /// used again in their window: their return was missed. Written by the entry
    /// program.
    pub abandoned: u64,
    /// Returns that met their start in the window of their call; written by the return
    /// program, as are the fields below.
    pub returns: u64,
    /// Of the returns, those with a negative value. Stays 0 without
    /// [`DECODE_ERRNO`].
    pub errors: u64,
    /// Returns without a start, whenever they were entered.
    pub unmatched: u64,
    /// The time between entry and return, summed over the returns, in ns.
    pub sum_ns: u64,
    /// The returns by their time, in the slots of [`h2`].
    pub buckets: [u64; h2::SLOTS],
    /// By window.
    pub epochs: [OfEpoch; EPOCHS],
}

impl Default for Tally {
    fn default() -> Self {
        Self::from_words([0; Self::WORDS])
    }
}

impl Tally {
    /// How many `u64` words of a tally mean something.
    pub const WORDS: usize = 1 + KINDS * CLASSES + 6 + h2::SLOTS + 4 * EPOCHS;
    /// From one tally to the next in `u64` words.
    pub const STRIDE: usize = size_of::<Self>() / size_of::<u64>();

    /// Reads a tally from the words that the map holds.
    #[must_use]
    pub fn from_words(words: [u64; Self::WORDS]) -> Self {
        let mut rest = words.into_iter();
        let mut next = || rest.next().unwrap_or_default();
        Self {
            filesystem: Filesystem(next()),
            calls: core::array::from_fn(|_| core::array::from_fn(|_| next())),
            unstored: next(),
            abandoned: next(),
            returns: next(),
            errors: next(),
            unmatched: next(),
            sum_ns: next(),
            buckets: core::array::from_fn(|_| next()),
            epochs: core::array::from_fn(|_| OfEpoch {
                epoch: next(),
                min_ns: next(),
                max_ns: next(),
                late: next(),
            }),
        }
    }

    /// All calls, whatever their kind.
    #[must_use]
    pub fn total_calls(&self) -> u64 {
        self.calls.as_flattened().iter().sum()
    }

    /// Adds another CPU's tally, or that of another filesystem.
    pub fn merge(&mut self, other: &Self) {
        let calls = self.calls.as_flattened_mut().iter_mut();
        for (mine, theirs) in calls.zip(other.calls.as_flattened()) {
            *mine += theirs;
        }
        self.unstored += other.unstored;
        self.abandoned += other.abandoned;
        self.returns += other.returns;
        self.errors += other.errors;
        self.unmatched += other.unmatched;
        self.sum_ns += other.sum_ns;
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        for (mine, theirs) in self.epochs.iter_mut().zip(other.epochs) {
            mine.merge(theirs);
        }
    }
}

impl OfEpoch {
    /// Takes in the time of a call of the window that is open; a new one takes the
    /// place over.
    #[inline]
    pub const fn note(&mut self, epoch: u64, value_ns: u64) {
        self.take_over(epoch);
        if value_ns < self.min_ns {
            self.min_ns = value_ns;
        }
        if value_ns > self.max_ns {
            self.max_ns = value_ns;
        }
    }

    /// Takes in a call of a window that is over, unless a newer one has the place.
    #[inline]
    pub const fn note_late(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.take_over(epoch);
        }
        if epoch == self.epoch {
            self.late += 1;
        }
    }

    #[inline]
    const fn take_over(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.min_ns = u64::MAX;
            self.max_ns = 0;
            self.late = 0;
        }
    }

    /// Takes in that of another CPU: the later window's counts, or both if it is the
    /// same.
    const fn merge(&mut self, other: Self) {
        if other.epoch > self.epoch {
            *self = other;
        } else if other.epoch == self.epoch && other.epoch != 0 {
            if other.min_ns < self.min_ns {
                self.min_ns = other.min_ns;
            }
            if other.max_ns > self.max_ns {
                self.max_ns = other.max_ns;
            }
            self.late += other.late;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered() -> Tally {
        Tally::from_words(core::array::from_fn(|i| i as u64 + 1))
    }

    #[test]
    fn words_are_the_fields_in_order() {
        use core::mem::offset_of;
        assert_eq!(Tally::STRIDE, Tally::WORDS.next_multiple_of(8));
        let tally = numbered();
        for (offset, value) in [
            (offset_of!(Tally, filesystem), tally.filesystem.0),
            (offset_of!(Tally, calls), tally.calls[0][0]),
            (offset_of!(Tally, unstored), tally.unstored),
            (offset_of!(Tally, abandoned), tally.abandoned),
            (offset_of!(Tally, returns), tally.returns),
            (offset_of!(Tally, errors), tally.errors),
            (offset_of!(Tally, unmatched), tally.unmatched),
            (offset_of!(Tally, sum_ns), tally.sum_ns),
            (offset_of!(Tally, buckets), tally.buckets[0]),
            (offset_of!(Tally, epochs), tally.epochs[0].epoch),
        ] {
            assert_eq!(offset as u64 / 8 + 1, value);
        }
        assert_eq!(tally.epochs[EPOCHS - 1].late, Tally::WORDS as u64);
        assert_eq!(tally.total_calls(), (2..=15).sum());
    }

    #[test]
    fn merging_adds_all_but_the_extremes() {
        let mut sum = numbered();
        sum.merge(&numbered());
        let one = numbered();
        assert_eq!(sum.calls, one.calls.map(|by_class| by_class.map(|n| 2 * n)));
        assert_eq!(sum.sum_ns, 2 * one.sum_ns);
        assert_eq!(sum.buckets, one.buckets.map(|n| 2 * n));
        for (sum, one) in sum.epochs.iter().zip(one.epochs) {
            let late = 2 * one.late;
            assert_eq!(*sum, OfEpoch { late, ..one });
        }
    }

    const fn of(epoch: u64, min_ns: u64, max_ns: u64, late: u64) -> OfEpoch {
        OfEpoch {
            epoch,
            min_ns,
            max_ns,
            late,
        }
    }

    #[test]
    fn extremes_are_of_one_window() {
        let mut a = OfEpoch::default();
        for (epoch, value) in [(1, 9), (1, 5), (1, 7), (5, 8)] {
            a.note(epoch, value);
        }
        assert_eq!(a, of(5, 8, 8, 0));
        for (other, merged) in [
            (of(0, 0, 0, 0), of(5, 8, 8, 0)),
            (of(1, 1, 99, 7), of(5, 8, 8, 0)),
            (of(5, 3, 9, 1), of(5, 3, 9, 1)),
            (of(5, u64::MAX, 0, 2), of(5, 8, 8, 2)),
            (of(9, 4, 4, 3), of(9, 4, 4, 3)),
        ] {
            let mut sum = a;
            sum.merge(other);
            assert_eq!(sum, merged);
            let mut sum = other;
            sum.merge(a);
            assert_eq!(sum, merged);
        }
    }

    #[test]
    fn a_late_return_is_of_its_own_window() {
        let mut a = OfEpoch::default();
        a.note(4, 10);
        a.note_late(4);
        assert_eq!(a, of(4, 10, 10, 1));
        a.note_late(8);
        assert_eq!(a, of(8, u64::MAX, 0, 1));
        // Too late to be kept.
        a.note_late(4);
        assert_eq!(a, of(8, u64::MAX, 0, 1));
        a.note(12, 3);
        assert_eq!(a, of(12, 3, 3, 0));
    }
}
