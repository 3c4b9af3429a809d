//! What a count is worth, by what the kernel and the programs tell of their losses.
//!
//! A call is missed where the kprobe or its program was skipped; the kernel counts
//! that. A call is untimed where its return was missed or its start not kept.

use std::fmt;

use super::Counts;

/// From best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Nothing was missed: the kernel's counters say so.
    Exact,
    /// This kernel does not tell whether something was missed.
    Unproven,
    /// Something was missed; at least so much.
    Inexact(u64),
    /// What was counted went away, or was not what it seemed.
    Invalid,
}

impl Verdict {
    /// As every output says it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Exact => "EXACT",
            Self::Unproven => "UNPROVEN",
            Self::Inexact(_) => "INEXACT",
            Self::Invalid => "INVALID",
        }
    }

    const fn of_missed(missed: Option<u64>) -> Self {
        match missed {
            Some(0) => Self::Exact,
            Some(missed) => Self::Inexact(missed),
            None => Self::Unproven,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Counts {
    /// Of the number of calls.
    pub(crate) fn calls_verdict(&self) -> Verdict {
        Verdict::of_missed(self.missed_calls())
    }

    /// Of the times: whether each counted call that returned has one.
    pub(crate) fn times_verdict(&self) -> Verdict {
        let untimed = self.unstored + self.abandoned;
        match self.missed_returns() {
            None if untimed > 0 => Verdict::Inexact(untimed),
            // A missed return leaves its start behind: abandoned is a part of it.
            Some(missed) => Verdict::of_missed(Some(missed.max(self.abandoned) + self.unstored)),
            None => Verdict::Unproven,
        }
    }

    /// Of both together: the worse.
    pub(crate) fn verdict(&self) -> Verdict {
        self.calls_verdict().max(self.times_verdict())
    }
}
