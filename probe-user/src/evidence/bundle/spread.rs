//! What a record's histogram tells of how times are spread.

use super::recorded::{Bounds, RecordedLatency, RecordedTarget};
use crate::{
    model::{Between, LatencyBlock},
    stats::Thousandths,
};

impl RecordedTarget {
    /// How long its calls took; `None` if none returned.
    pub(super) fn block(&self) -> Option<LatencyBlock> {
        let latency = self.latency.as_ref()?;
        let count = latency.count();
        let quantile = |permille| latency.quantile(permille, count).map(between);
        Some(LatencyBlock {
            function: self.symbol.clone(),
            verdict: self.times_verdict.clone()?,
            count: u64::try_from(count).ok()?,
            min: latency.min_ns?,
            max: latency.max_ns?,
            mean: latency.mean(count)?.to_string(),
            median: quantile(500)?,
            stddev: latency.stddev(count)?,
            p90: quantile(900)?,
            p95: quantile(950)?,
            p99: quantile(990)?,
        })
    }
}

fn between(bounds: Bounds) -> Between {
    Between {
        low: bounds.low,
        high: bounds.high,
    }
}

impl RecordedLatency {
    /// How many times there are.
    pub(super) fn count(&self) -> u128 {
        self.buckets.iter().map(|b| u128::from(b.count)).sum()
    }

    fn mean(&self, count: u128) -> Option<Thousandths> {
        Thousandths::of_ratio(self.sum_ns.into(), i128::try_from(count).ok()?)
    }

    /// The bounds of the standard deviation of all times, in whole ns: the mean is exact,
    /// and each time is as near to it, or as far from it, as its bucket lets it be.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a double is right to 15 digits, the bounds to whole ns beyond that"
    )]
    fn stddev(&self, count: u128) -> Option<Between> {
        if count == 0 {
            return None;
        }
        let (count, mean) = (count as f64, self.sum_ns as f64 / count as f64);
        let (mut least, mut most) = (0.0, 0.0);
        for bucket in &self.buckets {
            let low = bucket.low_ns.max(self.min_ns?) as f64 - mean;
            let high = bucket.high_ns.unwrap_or(u64::MAX).min(self.max_ns?) as f64 - mean;
            let nearest = if low <= 0.0 && high >= 0.0 {
                0.0
            } else {
                low.abs().min(high.abs())
            };
            let farthest = low.abs().max(high.abs());
            least += bucket.count as f64 * nearest * nearest;
            most += bucket.count as f64 * farthest * farthest;
        }
        Some(Between {
            low: (least / count).sqrt().floor() as u64,
            high: (most / count).sqrt().ceil() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use probe_ebpf::h2::{TABLE, bounds, slot_by};
    use proptest::prelude::*;

    use super::*;
    use crate::evidence::bundle::recorded::Bucket;

    /// As it would be recorded.
    fn recorded(times: &[u64]) -> RecordedLatency {
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        for ns in &sorted {
            let (low_ns, high) = bounds(slot_by(&TABLE, *ns));
            match buckets.last_mut().filter(|b| b.low_ns == low_ns) {
                Some(bucket) => bucket.count += 1,
                None => buckets.push(Bucket {
                    low_ns,
                    high_ns: Some(high),
                    count: 1,
                }),
            }
        }
        RecordedLatency {
            sum_ns: times.iter().sum(),
            min_ns: sorted.first().copied(),
            max_ns: sorted.last().copied(),
            p50_ns: None,
            p90_ns: None,
            p99_ns: None,
            p99_9_ns: None,
            buckets,
        }
    }

    proptest! {
        #[test]
        #[expect(clippy::cast_precision_loss, reason = "times far below 2^52")]
        fn the_true_value_is_within(times in prop::collection::vec(0_u64..5_000_000_000, 1..200)) {
            let latency = recorded(&times);
            let count = latency.count();
            let n = times.len() as f64;
            let mean = times.iter().sum::<u64>() as f64 / n;
            let variance = times.iter().map(|t| (*t as f64 - mean).powi(2)).sum::<f64>() / n;
            let stddev = latency.stddev(count).expect("times");
            let within = stddev.low as f64 <= variance.sqrt() + 0.001
                && variance.sqrt() - 0.001 <= stddev.high as f64;
            prop_assert!(within, "{} in {stddev:?}", variance.sqrt());
            let mut sorted = times;
            sorted.sort_unstable();
            for permille in [500, 900, 950, 990] {
                let rank = (sorted.len() * permille).div_ceil(1000).max(1);
                let bounds = latency.quantile(permille as u128, count).expect("times");
                prop_assert!((bounds.low..=bounds.high).contains(&sorted[rank - 1]));
            }
        }
    }
}
