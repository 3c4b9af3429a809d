//! Several windows together: their sum, and of each what is worth keeping.

use std::collections::btree_map::Entry;

use super::{Counts, Histogram, Losses, Window};

/// A window without its histograms, for there may be thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Brief {
    /// It goes on.
    pub(crate) open: bool,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// In the order of the targets; `None` where a count is not valid.
    pub(crate) counts: Vec<Option<BriefCounts>>,
}

/// One target's counts in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BriefCounts {
    pub(crate) calls: u64,
    pub(crate) plain: u64,
    pub(crate) dedupe: u64,
    pub(crate) returns: u64,
    pub(crate) in_flight: u64,
    pub(crate) errors: u64,
    pub(crate) missed_calls: Option<u64>,
    pub(crate) missed_returns: Option<u64>,
    /// Calls that are out of scope; `None` without a scope.
    pub(crate) elsewhere: Option<u64>,
}

impl Window {
    /// What is kept of it beside the sum. To be taken when the scope is known.
    pub(crate) fn brief(&self) -> Brief {
        let counts = self.counts.iter().map(|counts| {
            counts.as_ref().map(|c| BriefCounts {
                calls: c.calls,
                plain: c.plain,
                dedupe: c.dedupe,
                returns: c.returns,
                in_flight: c.in_flight,
                errors: c.errors,
                missed_calls: c.missed_calls(),
                missed_returns: c.missed_returns(),
                elsewhere: c.calls_elsewhere(),
            })
        });
        Brief {
            open: false,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            counts: counts.collect(),
        }
    }

    /// Takes in a later window of the same targets. What is not valid in one of them
    /// is not valid in the sum.
    pub(crate) fn add(&mut self, later: &Self) {
        self.end_ns = later.end_ns;
        for (mine, theirs) in self.counts.iter_mut().zip(&later.counts) {
            match (&mut *mine, theirs) {
                (Some(mine), Some(theirs)) => mine.add(theirs),
                _ => *mine = None,
            }
        }
    }
}

impl Counts {
    /// Takes in a later window, before a scope is chosen.
    fn add(&mut self, later: &Self) {
        self.losses.add(&later.losses);
        self.add_parallel(later);
        if let (Some(parts), Some(later)) = (&mut self.parts, &later.parts) {
            for (filesystem, counts) in later {
                match parts.entry(*filesystem) {
                    Entry::Vacant(place) => drop(place.insert(counts.clone())),
                    Entry::Occupied(mut part) => part.get_mut().add(counts),
                }
            }
        }
    }

    /// Takes in another part of the same window. Losses are of all parts.
    pub(super) fn add_parallel(&mut self, later: &Self) {
        self.calls += later.calls;
        self.plain += later.plain;
        self.dedupe += later.dedupe;
        for (mine, theirs) in self.by_class.iter_mut().zip(later.by_class) {
            *mine += theirs;
        }
        self.returns += later.returns;
        // Each at the end of its own window.
        self.in_flight += later.in_flight;
        self.errors += later.errors;
        self.unstored += later.unstored;
        self.abandoned += later.abandoned;
        self.unmatched += later.unmatched;
        self.latency.add(&later.latency);
    }
}

impl Histogram {
    fn add(&mut self, later: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&later.buckets) {
            *mine += theirs;
        }
        self.sum_ns += later.sum_ns;
        self.extremes_ns = match (self.extremes_ns, later.extremes_ns) {
            (Some((min, max)), Some((low, high))) => Some((min.min(low), max.max(high))),
            (one, other) => one.or(other),
        };
    }
}

impl Losses {
    fn add(&mut self, later: &Self) {
        let sum = |mine: &mut Option<u64>, theirs: Option<u64>| {
            *mine = mine.zip(theirs).map(|(a, b)| a + b);
        };
        sum(&mut self.entry_missed, later.entry_missed);
        sum(
            &mut self.entry_recursion_misses,
            later.entry_recursion_misses,
        );
        sum(&mut self.return_missed, later.return_missed);
        sum(
            &mut self.return_recursion_misses,
            later.return_recursion_misses,
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::histogram::tests::of, *};

    fn window(times: &[u64], at: u64) -> Window {
        let calls = times.len() as u64;
        let known = Some(at);
        Window {
            start_ns: at,
            end_ns: at + 1,
            classes: crate::model::Classes::of_threads(),
            counts: vec![Some(Counts {
                calls: calls + 1,
                plain: calls,
                dedupe: 1,
                returns: calls,
                in_flight: 1,
                latency: of(times),
                losses: Losses {
                    entry_missed: known,
                    entry_recursion_misses: known,
                    return_missed: None,
                    return_recursion_misses: known,
                },
                ..Counts::nothing()
            })],
        }
    }

    #[test]
    fn what_is_not_valid_once_is_not_valid_in_the_sum() {
        let good = window(&[1], 0);
        let mut bad = window(&[2], 5);
        bad.counts[0] = None;
        for (mut first, second) in [(good.clone(), bad.clone()), (bad, good)] {
            first.add(&second);
            assert_eq!(first.counts, [None]);
        }
    }

    proptest! {
        #[test]
        fn a_sum_is_as_one_window(a in prop::collection::vec(0..1u64 << 40, 0..50),
                                  b in prop::collection::vec(0..1u64 << 40, 0..50)) {
            let mut sum = window(&a, 3);
            sum.add(&window(&b, 8));
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            let counts = sum.counts[0].as_ref().expect("valid");
            prop_assert_eq!(&counts.latency, &of(&both));
            prop_assert_eq!(counts.calls, both.len() as u64 + 2);
            prop_assert_eq!((counts.in_flight, counts.missed_calls()), (2, Some(22)));
            prop_assert_eq!(counts.missed_returns(), None);
            prop_assert_eq!((sum.start_ns, sum.end_ns), (3, 9));
        }
    }
}
