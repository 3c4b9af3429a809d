//! The contract between the BPF programs and user space: what a map holds and
//! which names the programs, maps and settings go by.
//!
//! Nothing here knows of aya, of the kernel's own types or of any target: both
//! sides compile it, so it stays `no_std`, without `unsafe`, without
//! dependencies.
#![no_std]
#![forbid(unsafe_code)]

/// The kprobe program: one hit a call.
pub const ENTRY_PROGRAM: &str = "cowprobe_entry";
/// The kretprobe program: one hit a return.
pub const RETURN_PROGRAM: &str = "cowprobe_return";
/// The per-CPU array of one [`Tally`].
pub const TALLY_MAP: &str = "TALLY";
/// The setting, fixed at load time, that holds the target's decoder bits.
pub const DECODER_GLOBAL: &str = "DECODER";

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

/// The kind of a `btrfs_remap_file_range` call.
#[must_use]
#[inline]
pub const fn remap_kind(remap_flags: u32) -> usize {
    (remap_flags & REMAP_FILE_DEDUP) as usize
}

/// What one CPU saw of one target since its probes were loaded. It only grows:
/// nobody clears it, a window is the difference of two readings.
///
/// Each field is written by one program alone. kprobe programs run with
/// preemption off and one at a time on a CPU (`bpf_prog_active`,
/// `kernel/trace/bpf_trace.c` of Linux 7.2), so that plain additions are exact.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls by kind; written by the entry program.
    pub calls: [u64; KINDS],
    /// Returns; written by the return program.
    pub returns: u64,
    /// Returns with a negative value; written by the return program. Stays 0
    /// without [`DECODE_ERRNO`].
    pub errors: u64,
}

impl Tally {
    /// The size of a tally in `u64` words.
    pub const WORDS: usize = KINDS + 2;

    /// Reads a tally from the words that the map holds.
    #[must_use]
    pub const fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [plain, dedupe, returns, errors] = words;
        Self {
            calls: [plain, dedupe],
            returns,
            errors,
        }
    }

    /// All calls, whatever their kind.
    #[must_use]
    pub const fn total_calls(&self) -> u64 {
        self.calls[KIND_PLAIN] + self.calls[KIND_DEDUPE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_fields_in_order() {
        assert_eq!(size_of::<Tally>(), Tally::WORDS * size_of::<u64>());
        let tally = Tally::from_words([1, 2, 3, 4]);
        assert_eq!(
            tally,
            Tally {
                calls: [1, 2],
                returns: 3,
                errors: 4
            }
        );
        assert_eq!(tally.total_calls(), 3);
        assert_eq!(core::mem::offset_of!(Tally, calls), 0);
        assert_eq!(core::mem::offset_of!(Tally, returns), 16);
        assert_eq!(core::mem::offset_of!(Tally, errors), 24);
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
