//! The contract between the BPF programs and user space: what a map holds and
//! which names the programs, maps and settings go by.
//!
//! Nothing here knows of aya, of the kernel's own types or of any target: both
//! sides compile it, so it stays `no_std`, without `unsafe`, without
//! dependencies.
#![no_std]
#![forbid(unsafe_code)]

pub mod h2;

/// The kprobe program: one hit a call.
pub const ENTRY_PROGRAM: &str = "cowprobe_entry";
/// The kretprobe program: one hit a return.
pub const RETURN_PROGRAM: &str = "cowprobe_return";
/// The array of a [`Tally`] for each possible CPU, by its number. User space makes
/// it as long as that, and maps it into its memory.
pub const TALLY_MAP: &str = "TALLY";
/// The hash of calls under way: from the stack pointer at entry to a [`Start`].
pub const STARTS_MAP: &str = "STARTS";
/// The map of one `u64`, mapped into user space, the gate: 0 is closed, else it is the epoch of the open
/// window.
pub const GATE_MAP: &str = ".bss";
/// The setting, fixed at load time, that holds the target's decoder bits.
pub const DECODER_GLOBAL: &str = "DECODER";

/// The setting that holds the offset of `flags` in `struct task_struct`; 0 if it is
/// not known, and then who executes a call is not told.
pub const FLAGS_OFFSET_GLOBAL: &str = "FLAGS_OFFSET";
/// The map of one cgroup, that of the workload; empty if there is none.
pub const CGROUP_MAP: &str = "WORKLOAD";

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

/// Who executes a call, not for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// A task of the workload's cgroup.
    Workload,
    /// btrfs' transaction thread.
    Commit,
    /// btrfs' cleaner.
    Cleaner,
    /// A worker of the kernel.
    Kworker,
    /// Another thread of the kernel.
    Kthread,
    /// Another task, or, where nothing is told, any.
    Other,
}

impl Class {
    /// All, in the order of their numbers.
    pub const ALL: [Self; CLASSES] = [
        Self::Workload,
        Self::Commit,
        Self::Cleaner,
        Self::Kworker,
        Self::Kthread,
        Self::Other,
    ];

    /// Of a thread of the kernel, by its name (`fs/btrfs/disk-io.c` and
    /// `kernel/workqueue.c` of Linux 7.2; a name is cut at 15 characters).
    #[must_use]
    #[inline]
    pub const fn of_kthread(comm: &[u8; 16]) -> Self {
        if starts_with(comm, *b"btrfs-tr") {
            Self::Commit
        } else if starts_with(comm, *b"btrfs-cl") {
            Self::Cleaner
        } else if starts_with(comm, *b"kworker/") {
            Self::Kworker
        } else {
            Self::Kthread
        }
    }
}

/// The first eight bytes are compared at once.
const fn starts_with(comm: &[u8; 16], eight: [u8; 8]) -> bool {
    let first = u128::from_le_bytes(*comm) & u64::MAX as u128;
    first == u64::from_le_bytes(eight) as u128
}

/// How many classes there are.
pub const CLASSES: usize = 6;

/// How many calls of one target can be under way at once. One more is counted as
/// a call, and in [`Tally::unstored`].
pub const STARTS: u32 = 4096;
/// How many windows keep their extremes apart at the same time.
pub const EPOCHS: usize = 4;

/// The kind of a `btrfs_remap_file_range` call.
#[must_use]
#[inline]
pub const fn remap_kind(remap_flags: u32) -> usize {
    (remap_flags & REMAP_FILE_DEDUP) as usize
}

/// A call under way.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// When it was entered, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The gate at entry: its window's epoch, or 0 if no window was open.
    pub epoch: u64,
}

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
/// Each field is written by one program alone. kprobe programs run with
/// preemption off and one at a time on a CPU (`bpf_prog_active`,
/// `kernel/trace/bpf_trace.c` of Linux 7.2), so that plain additions are exact.
///
/// No two CPUs write to one cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
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
    pub const WORDS: usize = KINDS * CLASSES + 6 + h2::SLOTS + 4 * EPOCHS;
    /// From one tally to the next in `u64` words.
    pub const STRIDE: usize = size_of::<Self>() / size_of::<u64>();

    /// Reads a tally from the words that the map holds.
    #[must_use]
    pub fn from_words(words: [u64; Self::WORDS]) -> Self {
        let mut rest = words.into_iter();
        let mut next = || rest.next().unwrap_or_default();
        Self {
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

    /// Adds another CPU's tally.
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
        assert_eq!(tally.total_calls(), (1..=12).sum());
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

    #[test]
    fn threads_of_the_kernel_are_told_by_name() {
        for (comm, class) in [
            (*b"btrfs-transacti\0", Class::Commit),
            (*b"btrfs-cleaner\0\0\0", Class::Cleaner),
            (*b"kworker/0:1\0\0\0\0\0", Class::Kworker),
            (*b"kworker\0\0\0\0\0\0\0\0\0", Class::Kthread),
            (*b"btrfs-balance\0\0\0", Class::Kthread),
            ([0; 16], Class::Kthread),
        ] {
            assert_eq!(Class::of_kthread(&comm), class);
        }
        for (number, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, number);
        }
    }

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
