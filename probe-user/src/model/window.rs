//! A window: what happened between two snapshots.

use std::collections::BTreeMap;

use probe_ebpf::{CLASSES, EPOCHS, Filesystem, KIND_DEDUPE, KIND_PLAIN, Tally};

use super::{Classes, Histogram, Losses, Part, Reading, Snapshot};

/// One target's counts in a window.
///
/// On a closed window each call is in one place: it returned, it is in flight, or
/// its return cannot be told (`unstored`, `abandoned`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    /// Of the calls, those of the first kind (clone, where calls divide).
    pub(crate) plain: u64,
    /// Of the calls, those of the second kind (dedupe).
    pub(crate) dedupe: u64,
    /// The calls by who executed them, in the order of `probe_ebpf::Class::ALL`.
    pub(crate) by_class: [u64; CLASSES],
    pub(crate) returns: u64,
    /// Calls that had not returned at the window's end; on a closed window counted, not
    /// derived.
    pub(crate) in_flight: u64,
    pub(crate) errors: u64,
    /// Calls for whose start there was no room.
    pub(crate) unstored: u64,
    /// Calls whose return was missed.
    pub(crate) abandoned: u64,
    /// Returns without a start: calls that were entered before the probes were
    /// there, or whose start was missed or not kept.
    pub(crate) unmatched: u64,
    /// From entry to return, of the returns.
    pub(crate) latency: Histogram,
    pub(crate) losses: Losses,
    /// The counts of each filesystem, if they are told apart: those in scope, where there is
    /// one.
    pub(crate) parts: Option<BTreeMap<Filesystem, Counts>>,
    /// The calls that are out of scope, and not in the numbers above, by filesystem;
    /// `None` without a scope.
    pub(crate) elsewhere: Option<BTreeMap<Filesystem, u64>>,
}

impl Counts {
    /// No call, and nothing told of losses.
    pub(crate) const fn nothing() -> Self {
        Self {
            calls: 0,
            plain: 0,
            dedupe: 0,
            by_class: [0; CLASSES],
            returns: 0,
            in_flight: 0,
            errors: 0,
            unstored: 0,
            abandoned: 0,
            unmatched: 0,
            latency: Histogram::empty(),
            losses: Losses {
                entry_missed: None,
                entry_recursion_misses: None,
                return_missed: None,
                return_recursion_misses: None,
            },
            parts: None,
            elsewhere: None,
        }
    }

    /// Calls that happened but were not counted; `None` if this kernel cannot
    /// tell. With the calls they make the true number.
    pub(crate) fn missed_calls(&self) -> Option<u64> {
        Some(self.losses.entry_missed? + self.losses.entry_recursion_misses?)
    }

    /// Returns that happened but were not counted; `None` if this kernel cannot
    /// tell.
    pub(crate) fn missed_returns(&self) -> Option<u64> {
        Some(self.losses.return_missed? + self.losses.return_recursion_misses?)
    }
}

/// What happened between two snapshots of the same targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// What `by_class` tells.
    pub(crate) classes: Classes,
    /// In the order of the targets; `None` for one that is not attached, or whose
    /// counters went backwards.
    pub(crate) counts: Vec<Option<Counts>>,
}

impl Window {
    /// The whole of the window that was opened at `open`: `later − open`, with the
    /// extremes that the kernel kept for it.
    pub(crate) fn whole(open: &Snapshot, later: &Snapshot) -> Self {
        let mut window = Self::interval(open, later);
        for (counts, reading) in window.counts.iter_mut().zip(&later.readings) {
            if let (Some(counts), Some(reading)) = (counts, reading) {
                counts.latency.extremes_ns = extremes_ns(&reading.tally, later.epoch);
                let parts = counts.parts.iter_mut().flatten();
                for (counts, part) in parts.zip(reading.parts.iter().flatten()) {
                    counts.1.latency.extremes_ns = extremes_ns(&part.1.tally, later.epoch);
                }
            }
        }
        window
    }

    /// A part of a window: `later − earlier`. Counters never shrink, so a difference
    /// below zero means that the two do not belong together: such a target has no
    /// counts.
    pub(crate) fn interval(earlier: &Snapshot, later: &Snapshot) -> Self {
        let pairs = earlier.readings.iter().zip(&later.readings);
        Self {
            start_ns: earlier.at_ns,
            end_ns: later.at_ns,
            classes: later.classes.clone(),
            counts: pairs
                .map(|(a, b)| difference(a.as_ref()?, b.as_ref()?))
                .collect(),
        }
    }

    /// The window's length in ns.
    pub(crate) const fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// The extremes of one window, if any of its calls returned.
fn extremes_ns(tally: &Tally, epoch: u64) -> Option<(u64, u64)> {
    let place = usize::try_from(epoch % EPOCHS as u64).expect("small");
    let of = tally.epochs[place];
    let some_returned = of.min_ns <= of.max_ns;
    (epoch != 0 && of.epoch == epoch && some_returned).then_some((of.min_ns, of.max_ns))
}

fn difference(earlier: &Reading, later: &Reading) -> Option<Counts> {
    let losses = losses(&earlier.losses, &later.losses)?;
    let nothing = Part::default();
    let part = |(filesystem, later): (&Filesystem, &Part)| {
        let before = earlier.parts.as_ref()?.get(filesystem);
        let before = &before.unwrap_or(&nothing).tally;
        let counts = counted(before, &later.tally, later.in_flight, losses)?;
        Some((*filesystem, counts))
    };
    let parts = match &later.parts {
        Some(parts) => Some(parts.iter().map(part).collect::<Option<BTreeMap<_, _>>>()?),
        None => None,
    };
    let counts = counted(&earlier.tally, &later.tally, later.in_flight, losses)?;
    Some(Counts { parts, ..counts })
}

fn counted(a: &Tally, b: &Tally, in_flight: u64, losses: Losses) -> Option<Counts> {
    let of_kind = |kind: usize| -> Option<[u64; CLASSES]> {
        let mut since = b.calls[kind];
        for (mine, before) in since.iter_mut().zip(a.calls[kind]) {
            *mine = mine.checked_sub(before)?;
        }
        Some(since)
    };
    let (plains, dedupes) = (of_kind(KIND_PLAIN)?, of_kind(KIND_DEDUPE)?);
    let (plain, dedupe) = (plains.iter().sum::<u64>(), dedupes.iter().sum());
    Some(Counts {
        calls: plain + dedupe,
        plain,
        dedupe,
        by_class: std::array::from_fn(|class| plains[class] + dedupes[class]),
        returns: b.returns.checked_sub(a.returns)?,
        in_flight,
        errors: b.errors.checked_sub(a.errors)?,
        unstored: b.unstored.checked_sub(a.unstored)?,
        abandoned: b.abandoned.checked_sub(a.abandoned)?,
        unmatched: b.unmatched.checked_sub(a.unmatched)?,
        latency: Histogram::since(&histogram(b), &histogram(a))?,
        losses,
        parts: None,
        elsewhere: None,
    })
}

const fn histogram(tally: &Tally) -> Histogram {
    Histogram {
        buckets: tally.buckets,
        sum_ns: tally.sum_ns,
        extremes_ns: None,
    }
}

/// The losses between two readings, or `None` if one went backwards.
fn losses(earlier: &Losses, later: &Losses) -> Option<Losses> {
    // Known on both sides, or unknown: a counter does not appear in mid-run.
    let sub = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => b.checked_sub(a).map(Some),
        _ => Some(None),
    };
    Some(Losses {
        entry_missed: sub(earlier.entry_missed, later.entry_missed)?,
        entry_recursion_misses: sub(earlier.entry_recursion_misses, later.entry_recursion_misses)?,
        return_missed: sub(earlier.return_missed, later.return_missed)?,
        return_recursion_misses: sub(
            earlier.return_recursion_misses,
            later.return_recursion_misses,
        )?,
    })
}

#[cfg(test)]
mod tests {
    use probe_ebpf::OfEpoch;
    use proptest::prelude::*;

    use super::*;

    fn reading(words: [u64; 4], losses: [u64; 4]) -> Reading {
        let [plain, dedupe, returns, errors] = words;
        Reading {
            tally: Tally {
                calls: [plain, dedupe].map(|n| [0, n / 2, 0, 0, 0, n - n / 2, 0]),
                returns,
                errors,
                ..Tally::default()
            },
            in_flight: 0,
            parts: None,
            losses: Losses {
                entry_missed: Some(losses[0]),
                entry_recursion_misses: Some(losses[1]),
                return_missed: Some(losses[2]),
                return_recursion_misses: Some(losses[3]),
            },
        }
    }

    fn at(at_ns: u64, reading: Reading) -> Snapshot {
        Snapshot {
            at_ns,
            epoch: 1,
            classes: Classes::all(),
            readings: vec![Some(reading), None],
        }
    }

    fn first(window: &Window) -> &Counts {
        window.counts[0].as_ref().expect("attached")
    }

    #[test]
    fn a_window_is_the_difference() {
        let window = Window::interval(
            &at(5, reading([10, 20, 29, 3], [1, 0, 2, 0])),
            &at(25, reading([110, 40, 149, 4], [4, 2, 2, 7])),
        );
        assert_eq!(window.length_ns(), 20);
        let counts = first(&window);
        assert_eq!((counts.calls, counts.plain, counts.dedupe), (120, 100, 20));
        assert_eq!((counts.returns, counts.errors), (120, 1));
        assert_eq!(counts.missed_calls(), Some(5));
        assert_eq!(counts.missed_returns(), Some(7));
        assert_eq!(window.counts[1], None);
    }

    #[test]
    fn extremes_belong_to_the_whole_window_alone() {
        let open = at(0, reading([0; 4], [0; 4]));
        let mut end = at(9, reading([1, 0, 1, 0], [0; 4]));
        let tally = &mut end.readings[0].as_mut().expect("attached").tally;
        tally.epochs[1] = OfEpoch {
            epoch: 1,
            min_ns: 5,
            max_ns: 7,
            late: 0,
        };
        let extremes = |window: Window| first(&window).latency.extremes_ns;
        assert_eq!(extremes(Window::whole(&open, &end)), Some((5, 7)));
        assert_eq!(extremes(Window::interval(&open, &end)), None);
        // The place is still another window's.
        end.epoch = 5;
        assert_eq!(extremes(Window::whole(&open, &end)), None);
    }

    #[test]
    fn a_counter_that_went_backwards_yields_nothing() {
        let a = reading([10, 20, 30, 3], [1, 1, 1, 1]);
        for b in [
            reading([9, 20, 30, 3], [1, 1, 1, 1]),
            reading([10, 19, 30, 3], [1, 1, 1, 1]),
            reading([10, 20, 29, 3], [1, 1, 1, 1]),
            reading([10, 20, 30, 2], [1, 1, 1, 1]),
            reading([10, 20, 30, 3], [0, 1, 1, 1]),
            reading([10, 20, 30, 3], [1, 1, 1, 0]),
        ] {
            let window = Window::interval(&at(0, a.clone()), &at(1, b));
            assert_eq!(window.counts[0], None);
        }
    }

    #[test]
    fn an_unknown_loss_stays_unknown() {
        let mut a = reading([0; 4], [0; 4]);
        let mut b = reading([7, 0, 7, 0], [0; 4]);
        a.losses.entry_missed = None;
        b.losses.entry_missed = None;
        let window = Window::interval(&at(0, a), &at(1, b));
        let counts = first(&window);
        assert_eq!(counts.missed_calls(), None);
        assert_eq!(counts.missed_returns(), Some(0));
    }

    proptest! {
        #[test]
        fn adjoining_windows_sum_to_the_whole(
            steps in prop::collection::vec([0..1u64 << 40, 0..1u64 << 40, 0..1u64 << 40, 0..1u64 << 40], 2..6),
        ) {
            let mut words = [0; 4];
            let snapshots: Vec<Snapshot> = steps
                .iter()
                .map(|step| {
                    for (word, add) in words.iter_mut().zip(step) {
                        *word += add;
                    }
                    at(words[0], reading(words, words))
                })
                .collect();
            let numbers = |c: &Counts| {
                [c.calls, c.dedupe, c.returns, c.errors, c.missed_calls().expect("known")]
            };
            let whole = Window::interval(&snapshots[0], snapshots.last().expect("two or more"));
            let mut sums = [0; 5];
            for pair in snapshots.windows(2) {
                let part = Window::interval(&pair[0], &pair[1]);
                for (sum, n) in sums.iter_mut().zip(numbers(first(&part))) {
                    *sum += n;
                }
            }
            prop_assert_eq!(sums, numbers(first(&whole)));
        }
    }
}
