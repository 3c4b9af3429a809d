//! The tables of a bundle, in the columns of the public evidence for "btrfs: replace
//! writeback inhibition xarray with a fixed inline buffer", and the raw rounds.

use super::tsv::{Fault, Fields, NONE, Row};
use crate::stats::Thousandths;

/// One timed loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// The point: a kernel and its place in a comparison.
    pub(crate) target_id: String,
    pub(crate) kernel: String,
    pub(crate) timed: Timed,
}

/// What the benchmark itself says of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timed {
    pub(crate) scenario: String,
    /// From 1.
    pub(crate) round: u64,
    pub(crate) operations: u64,
    pub(crate) range_bytes: u64,
    /// `CLOCK_MONOTONIC_RAW`.
    pub(crate) elapsed_ns: u64,
    pub(crate) ns_per_op: Thousandths,
    /// In per cent; 100 only if all were as expected.
    pub(crate) expected_match_ratio: Thousandths,
    pub(crate) unexpected_results: u64,
    /// SHA-256 of the destination afterwards.
    pub(crate) checksum: String,
    /// It was timed while probes were attached: then it is no part of any mean.
    pub(crate) probed: bool,
}

impl Timed {
    /// What follows from the loop's time.
    pub(crate) fn ns_per_op_of(elapsed_ns: u64, operations: u64) -> Option<Thousandths> {
        Thousandths::of_ratio(elapsed_ns.into(), operations.into())
    }

    /// What follows from the number of unexpected results.
    pub(crate) fn match_ratio_of(unexpected: u64, operations: u64) -> Option<Thousandths> {
        let expected = i128::from(operations) - i128::from(unexpected);
        Thousandths::of_ratio_down(100 * expected, operations.into())
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        let scenario = fields.word()?;
        let round = fields.whole()?;
        let operations = fields.whole()?;
        if operations == 0 {
            return Err(fields.fault("there are no operations"));
        }
        Ok(Self {
            scenario,
            round,
            operations,
            range_bytes: fields.whole()?,
            elapsed_ns: fields.whole()?,
            ns_per_op: fields.positive()?,
            expected_match_ratio: fields.positive()?,
            unexpected_results: {
                let unexpected = fields.whole()?;
                if unexpected > operations {
                    return Err(fields.fault("more than there are operations"));
                }
                unexpected
            },
            checksum: hash(fields)?,
            probed: fields.flag()?,
        })
    }

    fn fields(&self) -> Vec<String> {
        vec![
            self.scenario.clone(),
            self.round.to_string(),
            self.operations.to_string(),
            self.range_bytes.to_string(),
            self.elapsed_ns.to_string(),
            self.ns_per_op.to_string(),
            self.expected_match_ratio.shortest(),
            self.unexpected_results.to_string(),
            self.checksum.clone(),
            u8::from(self.probed).to_string(),
        ]
    }
}

/// What `bench remap --tsv` writes.
impl Row for Timed {
    const FILE: &'static str = "the table of bench";
    const COLUMNS: &'static [&'static str] = &[
        "scenario",
        "round",
        "operations",
        "range_bytes",
        "elapsed_ns",
        "ns_per_op",
        "expected_match_ratio",
        "unexpected_results",
        "checksum",
        "probed",
    ];

    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        Self::read(fields)
    }

    fn fields(&self) -> Vec<String> {
        self.fields()
    }
}

impl Row for Round {
    const FILE: &'static str = "rounds.tsv";
    const COLUMNS: &'static [&'static str] = &[
        "target_id",
        "kernel",
        "scenario",
        "round",
        "operations",
        "range_bytes",
        "elapsed_ns",
        "ns_per_op",
        "expected_match_ratio",
        "unexpected_results",
        "checksum",
        "probed",
    ];

    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        Ok(Self {
            target_id: fields.word()?,
            kernel: fields.word()?,
            timed: Timed::read(fields)?,
        })
    }

    fn fields(&self) -> Vec<String> {
        let mut all = vec![self.target_id.clone(), self.kernel.clone()];
        all.extend(self.timed.fields());
        all
    }
}

/// The means of a point and a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunStats {
    pub(crate) target_id: String,
    pub(crate) kernel: String,
    pub(crate) scenario: String,
    pub(crate) rounds: u64,
    pub(crate) all_mean: Thousandths,
    pub(crate) skip_first_rounds: u64,
    /// `None` of a single round.
    pub(crate) skip_first_mean: Option<Thousandths>,
    pub(crate) min: Thousandths,
    pub(crate) max: Thousandths,
}

impl Row for RunStats {
    const FILE: &'static str = "per-run-stats.tsv";
    const COLUMNS: &'static [&'static str] = &[
        "target_id",
        "kernel",
        "scenario",
        "rounds",
        "all_mean_ns_per_op",
        "skip_first_rounds",
        "skip_first_mean_ns_per_op",
        "min_ns_per_op",
        "max_ns_per_op",
    ];

    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        Ok(Self {
            target_id: fields.word()?,
            kernel: fields.word()?,
            scenario: fields.word()?,
            rounds: fields.whole()?,
            all_mean: fields.positive()?,
            skip_first_rounds: fields.whole()?,
            skip_first_mean: fields.unless_none()?,
            min: fields.positive()?,
            max: fields.positive()?,
        })
    }

    fn fields(&self) -> Vec<String> {
        vec![
            self.target_id.clone(),
            self.kernel.clone(),
            self.scenario.clone(),
            self.rounds.to_string(),
            self.all_mean.to_string(),
            self.skip_first_rounds.to_string(),
            match self.skip_first_mean {
                Some(mean) => mean.to_string(),
                None => NONE.to_owned(),
            },
            self.min.to_string(),
            self.max.to_string(),
        ]
    }
}

/// A point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) step: u64,
    pub(crate) target_id: String,
    pub(crate) role: String,
    pub(crate) kernel: String,
    pub(crate) run_timestamp_utc: String,
    pub(crate) observed_rows: u64,
    pub(crate) min_expected_match_ratio: Thousandths,
    pub(crate) unexpected_results: u64,
    pub(crate) direct_hit: String,
}

/// The words for [`Summary::direct_hit`].
const DIRECT_HITS: [&str; 3] = ["PASS", "FAIL", "not-run"];

impl Row for Summary {
    const FILE: &'static str = "matrix-summary.tsv";
    const COLUMNS: &'static [&'static str] = &[
        "step",
        "target_id",
        "role",
        "kernel",
        "run_timestamp_utc",
        "observed_rows",
        "min_expected_match_ratio",
        "unexpected_results",
        "direct_hit",
    ];

    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        Ok(Self {
            step: fields.whole()?,
            target_id: fields.word()?,
            role: fields.word()?,
            kernel: fields.word()?,
            run_timestamp_utc: fields.word()?,
            observed_rows: fields.whole()?,
            min_expected_match_ratio: fields.positive()?,
            unexpected_results: fields.whole()?,
            direct_hit: {
                let word = fields.word()?;
                if !DIRECT_HITS.contains(&&*word) {
                    return Err(fields.fault("neither PASS, FAIL nor not-run"));
                }
                word
            },
        })
    }

    fn fields(&self) -> Vec<String> {
        vec![
            self.step.to_string(),
            self.target_id.clone(),
            self.role.clone(),
            self.kernel.clone(),
            self.run_timestamp_utc.clone(),
            self.observed_rows.to_string(),
            self.min_expected_match_ratio.shortest(),
            self.unexpected_results.to_string(),
            self.direct_hit.clone(),
        ]
    }
}

/// A function that the workload was to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectHit {
    pub(crate) function: String,
    pub(crate) available: bool,
    /// It was probed.
    pub(crate) filtered: bool,
    pub(crate) calls: u64,
    pub(crate) required: bool,
}

impl DirectHit {
    /// Whether all that were required were called.
    pub(crate) fn passed(all: &[Self]) -> bool {
        let mut required = all.iter().filter(|hit| hit.required).peekable();
        required.peek().is_some() && required.all(|hit| hit.available && hit.calls > 0)
    }
}

impl Row for DirectHit {
    const FILE: &'static str = "direct-hit.tsv";
    const COLUMNS: &'static [&'static str] =
        &["function", "available", "filtered", "calls", "required"];

    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        Ok(Self {
            function: fields.word()?,
            available: fields.flag()?,
            filtered: fields.flag()?,
            calls: fields.whole()?,
            required: fields.flag()?,
        })
    }

    fn fields(&self) -> Vec<String> {
        let flag = |is: bool| u8::from(is).to_string();
        vec![
            self.function.clone(),
            flag(self.available),
            flag(self.filtered),
            self.calls.to_string(),
            flag(self.required),
        ]
    }
}

fn hash(fields: &mut Fields<'_>) -> Result<String, Fault> {
    let text = fields.word()?;
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if text.len() == 64 && text.bytes().all(digit) {
        Ok(text)
    } else {
        Err(fields.fault("no SHA-256 in small hexadecimal digits"))
    }
}
