//! What a record says, computed again from itself.

use super::recorded::{
    Bounds, Bucket, InWindow, Recorded, RecordedLatency, RecordedTarget, RecordedWindow,
};

/// From best to worst, as a record says them.
const VERDICTS: [&str; 4] = ["EXACT", "UNPROVEN", "INEXACT", "INVALID"];

impl Recorded {
    /// What does not follow from the rest, and how much was compared.
    pub(crate) fn faults(&self) -> (Vec<String>, u64) {
        let mut seen = Seen::default();
        if self.complete == Some(false) {
            let why = "complete: it is a checkpoint, not the record of a whole run";
            seen.faults.push(why.to_owned());
        }
        if let Some(exit) = &self.exit {
            let goes = (exit.code == 0) == exit.causes.is_empty();
            seen.goes("exit, code", exit.code, goes, "the causes");
        }
        for (place, window) in self.windows.iter().enumerate() {
            let name = format!("window {}, end_ns", place + 1);
            let goes = window.end_ns >= window.start_ns;
            seen.goes(&name, window.end_ns, goes, "the start");
        }
        for target in &self.targets {
            self.target(target, &mut seen);
        }
        (seen.faults, seen.compared)
    }

    fn target(&self, target: &RecordedTarget, seen: &mut Seen) {
        let name = |field: &str| format!("{}, {field}", target.symbol);
        let Some(calls) = target.calls else {
            return;
        };
        if let Some(by) = &target.executed_by {
            let sum = sum(by.values().map(|n| n.unwrap_or(0)));
            seen.is(&name("executed_by"), sum, u128::from(calls), "calls");
        }
        if let (Some(clones), Some(dedupes)) = (target.clones, target.dedupes) {
            let sum = sum([clones, dedupes]);
            seen.is(&name("clones and dedupes"), sum, calls.into(), "calls");
        }
        if let Some(on) = &target.by_filesystem {
            let sum = sum(on.iter().filter(|on| on.in_scope).map(|on| on.calls));
            seen.is(&name("by_filesystem"), sum, calls.into(), "calls");
        }
        self.windows(target, calls, seen);
        let verdicts = target.verdicts();
        let [of_calls, of_times, both] = verdicts.map(|place| VERDICTS[place]);
        for (field, there, follows) in [
            ("calls_verdict", &target.calls_verdict, of_calls),
            ("times_verdict", &target.times_verdict, of_times),
            ("verdict", &target.verdict, both),
        ] {
            let there = there.as_deref().unwrap_or("none");
            seen.is(&name(field), there, follows, "the losses");
        }
        if both == VERDICTS[0] {
            let ended = sum([target.returns.unwrap_or(0), target.in_flight.unwrap_or(0)]);
            seen.is(&name("returns and in_flight"), ended, calls.into(), "calls");
        }
        if let Some(latency) = &target.latency {
            latency.look(&name, target.returns.unwrap_or(0), seen);
        }
    }

    /// The sums over the windows, if the target's count is valid in each.
    fn windows(&self, target: &RecordedTarget, calls: u64, seen: &mut Seen) {
        let full = match &target.module {
            Some(module) => format!("{module}:{}", target.symbol),
            None => target.symbol.clone(),
        };
        let of = |window: &RecordedWindow| -> Option<[u64; 3]> {
            let is = |t: &&InWindow| t.symbol == target.symbol || t.symbol == full;
            let found = window.targets.iter().find(is)?;
            Some([found.calls, found.returns, found.in_flight])
        };
        let each: Option<Vec<_>> = self.windows.iter().map(of).collect();
        let Some(each) = each.filter(|each| !each.is_empty()) else {
            return;
        };
        let fields = [
            ("calls", Some(calls)),
            ("returns", target.returns),
            ("in_flight", target.in_flight),
        ];
        for (place, (field, there)) in fields.into_iter().enumerate() {
            let follows = sum(each.iter().map(|window| window[place]));
            let name = format!("{}, {field}", target.symbol);
            seen.is(&name, there.unwrap_or(0).into(), follows, "the windows");
        }
    }
}

impl RecordedTarget {
    /// The places in [`VERDICTS`] of calls, of times, and of both.
    fn verdicts(&self) -> [usize; 3] {
        let place = |lost: Option<u64>| match lost {
            Some(0) => 0,
            Some(_) => 2,
            None => 1,
        };
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let (abandoned, unstored) = (self.abandoned.unwrap_or(0), self.unstored.unwrap_or(0));
        let calls = place(both(self.missed, self.recursion_misses));
        let times = match both(self.return_missed, self.return_recursion_misses) {
            // A missed return leaves its start behind: abandoned is a part of it.
            Some(missed) => place(Some(missed.max(abandoned).saturating_add(unstored))),
            None if abandoned > 0 || unstored > 0 => 2,
            None => 1,
        };
        [calls, times, calls.max(times)]
    }
}

impl RecordedLatency {
    fn look(&self, name: &dyn Fn(&str) -> String, returns: u64, seen: &mut Seen) {
        let counted = sum(self.buckets.iter().map(|b| b.count));
        let of_latency = |field: &str| name(&format!("latency, {field}"));
        seen.is(&of_latency("buckets"), counted, returns.into(), "returns");
        let rising = self.buckets.windows(2).all(|pair| {
            let end = pair[0].high_ns;
            end.is_some_and(|high| pair[0].low_ns <= high && high < pair[1].low_ns)
        });
        let count = self.buckets.len();
        seen.goes(&of_latency("buckets"), count, rising, "rising bounds");
        for (field, permille, there) in [
            ("p50_ns", 500, &self.p50_ns),
            ("p90_ns", 900, &self.p90_ns),
            ("p99_ns", 990, &self.p99_ns),
            ("p99_9_ns", 999, &self.p99_9_ns),
        ] {
            let follows = self.quantile(permille, counted);
            let text = |bounds: &Option<Bounds>| match bounds {
                Some(bounds) => format!("{} to {}", bounds.low, bounds.high),
                None => "none".to_owned(),
            };
            let (there, follows) = (text(there), text(&follows));
            seen.is(&of_latency(field), &*there, &*follows, "the buckets");
        }
        let (Some(lowest), Some(highest)) = (self.buckets.first(), self.buckets.last()) else {
            return;
        };
        let within = |ns: u64, bucket: &Bucket| {
            bucket.low_ns <= ns && bucket.high_ns.is_none_or(|high| ns <= high)
        };
        for (field, there, bucket) in [
            ("min_ns", self.min_ns, lowest),
            ("max_ns", self.max_ns, highest),
        ] {
            if let Some(ns) = there {
                seen.goes(&of_latency(field), ns, within(ns, bucket), "the buckets");
            }
        }
        let product = |bucket: &Bucket, ns: u64| u128::from(bucket.count) * u128::from(ns);
        let least: u128 = self.buckets.iter().map(|b| product(b, b.low_ns)).sum();
        let most = self.buckets.iter().map(|b| Some(product(b, b.high_ns?)));
        let most = most.sum::<Option<u128>>().unwrap_or(u128::MAX);
        let goes = (least..=most).contains(&u128::from(self.sum_ns));
        seen.goes(&of_latency("sum_ns"), self.sum_ns, goes, "the buckets");
    }

    /// The bounds of the bucket of the nearest rank, and not beyond the extremes.
    pub(super) fn quantile(&self, permille: u128, counted: u128) -> Option<Bounds> {
        let rank = (counted * permille).div_ceil(1000).max(1);
        let mut below = 0;
        let found = self.buckets.iter().find(|bucket| {
            below += u128::from(bucket.count);
            below >= rank
        })?;
        let high = found.high_ns.unwrap_or(u64::MAX);
        Some(Bounds {
            low: found.low_ns.max(self.min_ns.unwrap_or(0)),
            high: high.min(self.max_ns.unwrap_or(u64::MAX)),
        })
    }
}

/// What was compared.
#[derive(Default)]
struct Seen {
    faults: Vec<String>,
    compared: u64,
}

impl Seen {
    fn goes(&mut self, name: &str, there: impl std::fmt::Display, goes: bool, with: &str) {
        self.compared += 1;
        if !goes {
            self.faults
                .push(format!("{name}: {there} does not go with {with}"));
        }
    }

    fn is<T: PartialEq + std::fmt::Display + Copy>(
        &mut self,
        name: &str,
        there: T,
        follows: T,
        from: &str,
    ) {
        self.compared += 1;
        if there != follows {
            let fault = format!("{name}: {there}, but by {from} it is {follows}");
            self.faults.push(fault);
        }
    }
}

fn sum(numbers: impl IntoIterator<Item = u64>) -> u128 {
    numbers.into_iter().map(u128::from).sum()
}
