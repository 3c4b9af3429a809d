//! The times of a window's calls: how many in each slot, their sum, the shortest
//! and the longest.

use probe_ebpf::h2::{SLOTS, bounds};

/// The times of some returns, in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Histogram {
    pub(crate) buckets: [u64; SLOTS],
    pub(crate) sum_ns: u64,
    /// The shortest and the longest, if they are known exactly: they belong to a
    /// whole window, not to an interval of it.
    pub(crate) extremes_ns: Option<(u64, u64)>,
}

impl Histogram {
    /// Nothing yet.
    pub(crate) const fn empty() -> Self {
        Self {
            buckets: [0; SLOTS],
            sum_ns: 0,
            extremes_ns: None,
        }
    }

    /// How many times there are.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The arithmetic mean in ns, rounded down; `None` of nothing.
    pub(crate) fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count())
    }

    /// The bounds of the value below or at which so many thousandths of all values
    /// lie (the nearest rank: of n values the ceil(n × permille / 1000)-th). The
    /// value itself is between them, both included.
    pub(crate) fn quantile_ns(&self, permille: u64) -> Option<(u64, u64)> {
        let rank = (u128::from(self.count()) * u128::from(permille)).div_ceil(1000);
        let rank = rank.max(1);
        let mut below = 0_u128;
        let slot = self.buckets.iter().position(|&n| {
            below += u128::from(n);
            below >= rank
        })?;
        Some(self.within_extremes(bounds(slot)))
    }

    /// The bounds of the longest value; equal if it is known exactly.
    pub(crate) fn max_ns(&self) -> Option<(u64, u64)> {
        let slot = self.buckets.iter().rposition(|&n| n > 0)?;
        let exact = self.extremes_ns.map(|(_, max)| (max, max));
        Some(exact.unwrap_or_else(|| bounds(slot)))
    }

    /// `later − earlier`; `None` if a bucket or the sum went backwards.
    pub(crate) fn since(later: &Self, earlier: &Self) -> Option<Self> {
        let mut since = Self {
            sum_ns: later.sum_ns.checked_sub(earlier.sum_ns)?,
            ..Self::empty()
        };
        let pairs = later.buckets.iter().zip(&earlier.buckets);
        for (bucket, (b, a)) in since.buckets.iter_mut().zip(pairs) {
            *bucket = b.checked_sub(*a)?;
        }
        Some(since)
    }

    /// No value is shorter than the shortest or longer than the longest.
    fn within_extremes(&self, (low, high): (u64, u64)) -> (u64, u64) {
        match self.extremes_ns {
            Some((min, max)) => (low.max(min), high.min(max)),
            None => (low, high),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use probe_ebpf::h2::{TABLE, slot_by};
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::empty();
        for &value in values {
            histogram.buckets[slot_by(&TABLE, value)] += 1;
            histogram.sum_ns += value;
        }
        let (min, max) = (values.iter().min(), values.iter().max());
        histogram.extremes_ns = min.copied().zip(max.copied());
        histogram
    }

    #[test]
    fn nothing_has_no_mean_and_no_quantile() {
        let empty = Histogram::empty();
        assert_eq!(empty.count(), 0);
        assert_eq!(empty.mean_ns(), None);
        assert_eq!(empty.quantile_ns(500), None);
        assert_eq!(empty.max_ns(), None);
    }

    #[test]
    fn known_values() {
        let histogram = of(&[1, 2, 3, 1000]);
        assert_eq!(histogram.mean_ns(), Some(251));
        assert_eq!(histogram.quantile_ns(500), Some((2, 2)));
        assert_eq!(histogram.quantile_ns(750), Some((3, 3)));
        // The slot of 1000 is 960 to 1023; no value is above 1000.
        assert_eq!(histogram.quantile_ns(990), Some((960, 1000)));
        assert_eq!(histogram.max_ns(), Some((1000, 1000)));
        let interval = Histogram::since(&histogram, &of(&[1, 2, 3])).expect("grown");
        assert_eq!(interval.count(), 1);
        assert_eq!(interval.max_ns(), Some((960, 1023)));
        assert_eq!(Histogram::since(&of(&[1]), &of(&[2])), None);
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        let value = (0..40_u32, any::<u64>()).prop_map(|(shift, v)| v >> (63 - shift));
        prop::collection::vec(value, 1..200)
    }

    proptest! {
        #[test]
        fn a_quantile_has_the_right_value_between_its_bounds(mut values in values(), permille in 0..=1000_u64) {
            let histogram = of(&values);
            values.sort_unstable();
            let n = values.len() as u64;
            let rank = (n * permille).div_ceil(1000).max(1);
            let value = values[usize::try_from(rank - 1).expect("small")];
            let (low, high) = histogram.quantile_ns(permille).expect("not empty");
            prop_assert!(low <= value && value <= high, "{low} <= {value} <= {high}");
        }

        #[test]
        fn what_is_added_is_what_is_between(a in values(), b in values()) {
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            let since = Histogram::since(&of(&both), &of(&a)).expect("grown");
            let alone = of(&b);
            prop_assert_eq!(since.buckets, alone.buckets);
            prop_assert_eq!(since.sum_ns, alone.sum_ns);
            let (low, high) = since.max_ns().expect("not empty");
            let max = *b.iter().max().expect("not empty");
            prop_assert!(low <= max && max <= high);
        }

        #[test]
        fn quantiles_do_not_decrease(values in values()) {
            let histogram = of(&values);
            let bounds: Vec<_> = (0..=1000).map(|p| histogram.quantile_ns(p).expect("not empty")).collect();
            prop_assert!(bounds.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        }
    }
}
