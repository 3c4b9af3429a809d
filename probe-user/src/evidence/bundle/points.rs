//! Raw rounds, taken together: in memory for each point and scenario, not for each row.

use super::{
    tables::{Round, RunStats},
    tsv::{Fault, fault},
};
use crate::stats::{Loops, Thousandths};

/// A kernel and its place in a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) target_id: String,
    pub(crate) kernel: String,
    /// Timed under probes: no part of any mean.
    pub(crate) probed: bool,
    scenarios: Vec<Scenario>,
    pub(crate) rows: u64,
    pub(crate) min_match_ratio: Thousandths,
    pub(crate) unexpected: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Scenario {
    name: String,
    range_bytes: u64,
    loops: Loops,
}

/// All of them, in the order in which they come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Points(Vec<Point>);

impl Point {
    /// Of its first round, which is not yet taken in.
    fn of(round: &Round) -> Self {
        Self {
            target_id: round.target_id.clone(),
            kernel: round.kernel.clone(),
            probed: round.timed.probed,
            scenarios: Vec::new(),
            rows: 0,
            min_match_ratio: round.timed.expected_match_ratio,
            unexpected: 0,
        }
    }
}

impl Points {
    /// Takes in the row of a line. Rounds of a scenario come in order, from 1, and with
    /// as many operations each.
    pub(crate) fn add(&mut self, line: u64, round: &Round) -> Result<(), Fault> {
        let wrong = |field, why| Err(fault::<Round>(line, Some(field), why));
        let timed = &round.timed;
        let same = |p: &Point| p.target_id == round.target_id && p.probed == round.timed.probed;
        let place = self.0.iter().position(same);
        let place = place.unwrap_or_else(|| {
            self.0.push(Point::of(round));
            self.0.len() - 1
        });
        let point = &mut self.0[place];
        if point.kernel != round.kernel {
            let why = format!("{} was on {} before", point.target_id, point.kernel);
            return wrong("kernel", why);
        }
        let found = point
            .scenarios
            .iter_mut()
            .find(|s| s.name == timed.scenario);
        let next = found.as_ref().map_or(1, |s| s.loops.count() + 1);
        if timed.round != next {
            return wrong("round", format!("{} instead of {next}", timed.round));
        }
        let as_before = |there: u64, before: u64| {
            let why = || format!("{there} instead of {before} as before");
            (there != before).then(why)
        };
        if let Some(scenario) = found {
            let of = &scenario.loops;
            if let Some(why) = as_before(timed.operations, of.operations()) {
                return wrong("operations", why);
            }
            if let Some(why) = as_before(timed.range_bytes, scenario.range_bytes) {
                return wrong("range_bytes", why);
            }
            scenario.loops.add(timed.elapsed_ns);
        } else {
            let loops = Loops::first(timed.operations, timed.elapsed_ns);
            let Some(loops) = loops else {
                return wrong("operations", "there are none".to_owned());
            };
            point.scenarios.push(Scenario {
                name: timed.scenario.clone(),
                range_bytes: timed.range_bytes,
                loops,
            });
        }
        point.rows += 1;
        point.min_match_ratio = point.min_match_ratio.min(timed.expected_match_ratio);
        point.unexpected = point.unexpected.saturating_add(timed.unexpected_results);
        Ok(())
    }

    /// After the last row, which is of this line: all scenarios of a point have as many
    /// rounds.
    pub(crate) fn complete(&self, line: u64) -> Result<(), Fault> {
        for point in &self.0 {
            let mut scenarios = point.scenarios.iter();
            let Some(first) = scenarios.next() else {
                continue;
            };
            let (count, is) = (first.loops.count(), &point.target_id);
            if let Some(other) = scenarios.find(|s| s.loops.count() != count) {
                let why = format!(
                    "{is} has {count} of {} and {} of {}",
                    first.name,
                    other.loops.count(),
                    other.name
                );
                return Err(fault::<Round>(line, Some("round"), why));
            }
        }
        Ok(())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Point> {
        self.0.iter()
    }

    /// Those that were timed without probes.
    pub(crate) fn timed(&self) -> impl Iterator<Item = &Point> {
        self.0.iter().filter(|point| !point.probed)
    }

    /// The means that follow.
    pub(crate) fn stats(&self) -> Option<Vec<RunStats>> {
        let each = self.timed().flat_map(|point| {
            let of = |scenario: &Scenario| {
                let loops = &scenario.loops;
                Some(RunStats {
                    target_id: point.target_id.clone(),
                    kernel: point.kernel.clone(),
                    scenario: scenario.name.clone(),
                    rounds: loops.count(),
                    all_mean: loops.mean()?,
                    skip_first_rounds: loops.count() - 1,
                    skip_first_mean: loops.mean_without_first(),
                    min: loops.min()?,
                    max: loops.max()?,
                })
            };
            point.scenarios.iter().map(of)
        });
        each.collect()
    }
}
