//! Whether a call comes in an interrupt, by the kernel's count of what keeps a CPU from
//! being preempted. A stack does not tell: an interrupt that finds a task in user space
//! runs on that task's own.

/// A number that no program computes with: user space puts the address of the per-CPU
/// variable that holds the count in its place.
pub const PREEMPT_COUNT_MARK: u64 = 0x636f_7770_726f_6265;

/// Where the kernel has what in the count is not known.
pub const COUNT_UNKNOWN: u32 = 0;
/// Interrupts in bits 16 to 19, NMIs in 20 to 23 (`include/linux/preempt.h` of Linux 6.1
/// to 7.2).
pub const COUNT_BY_INT: u32 = 1;
/// Interrupts in bits 24 to 27, in bit 28 whether there is an NMI (the same of Linux
/// 7.3, where the variable is a long).
pub const COUNT_BY_LONG: u32 = 2;

/// A softirq is served (`SOFTIRQ_OFFSET`); one that is only kept off counts by two.
const SOFTIRQ: u32 = 1 << 8;

/// Whether a count, the lower half of a long one, is of an interrupt or a softirq.
///
/// An NMI counts as an interrupt, too, and so does the breakpoint by which a kprobe is
/// hit where it is not by ftrace: it is taken off, and an NMI is its task's.
#[must_use]
#[inline]
pub const fn in_interrupt(form: u32, count: u32) -> bool {
    // Nearly always there is none of them.
    match form {
        COUNT_UNKNOWN => false,
        COUNT_BY_INT => {
            count & (0xff << 16 | SOFTIRQ) != 0 && is(count >> 16 & 0xf, count >> 20 & 0xf, count)
        }
        _ => count & (0x1f << 24 | SOFTIRQ) != 0 && is(count >> 24 & 0xf, count >> 28 & 1, count),
    }
}

const fn is(interrupts: u32, nmis: u32, count: u32) -> bool {
    interrupts > nmis || count & SOFTIRQ != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_told_from_what_only_keeps_them_off() {
        let check = |by_int: u32, by_long: u32, interrupt: bool| {
            assert_eq!(in_interrupt(COUNT_BY_INT, by_int), interrupt, "{by_int:#x}");
            assert_eq!(
                in_interrupt(COUNT_BY_LONG, by_long),
                interrupt,
                "{by_long:#x}"
            );
            assert!(!in_interrupt(COUNT_UNKNOWN, by_int));
        };
        // Nothing, and preemption off; the uppermost bit says that none is wanted.
        check(0, 0, false);
        check(0x8000_0003, 0x8000_0003, false);
        // Softirqs kept off, and served.
        check(0x0200, 0x0200, false);
        check(0x0100, 0x0100, true);
        check(0x0301, 0x0301, true);
        // Interrupts disabled, counted since 7.3.
        check(0, 0x00ff_0000, false);
        // An interrupt, and one in a softirq.
        check(0x0001_0000, 0x0100_0000, true);
        check(0x0001_0100, 0x0100_0100, true);
        // A breakpoint in a task, in an interrupt, in a softirq.
        check(0x0011_0000, 0x1100_0000, false);
        check(0x0012_0000, 0x1200_0000, true);
        check(0x0011_0100, 0x1100_0100, true);
    }
}
