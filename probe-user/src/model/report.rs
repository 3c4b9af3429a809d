//! What a reader of a list wants to know of a run, as plain values: JSON as they are, and
//! text by the views.

use serde::Serialize;

/// A report. Numbers with a point are texts, so that every reader sees the same digits.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Report {
    /// Always `cowprobe-report-1`.
    #[cfg_attr(test, schemars(extend("const" = "cowprobe-report-1")))]
    pub(crate) schema: &'static str,
    /// The kernel and what the tester says of its sources.
    pub(crate) tested: Vec<Fact>,
    pub(crate) counts: Vec<CountedFunction>,
    /// What was expected, and what came of it.
    pub(crate) expectations: Vec<String>,
    pub(crate) latency: Vec<LatencyBlock>,
    pub(crate) timing: Vec<Timing>,
    pub(crate) comparison: Vec<Comparison>,
    /// Results of operations, compared with what they should be.
    pub(crate) checks: Vec<Fact>,
    /// Program, kernel, machine and filesystems.
    pub(crate) identity: Vec<Fact>,
    /// The words of the command; empty if they are not known.
    pub(crate) command: Vec<String>,
    /// What is meant, and what limits it.
    pub(crate) caveats: Vec<String>,
    /// Each gate that failed.
    pub(crate) failed: Vec<String>,
    /// SHA-256 of each file that this is from.
    pub(crate) sources: Vec<Fact>,
    /// "Tested-by" and who says so: only if no gate failed.
    pub(crate) tested_by: Option<String>,
}

impl Report {
    /// This version's name.
    pub(crate) const SCHEMA: &'static str = "cowprobe-report-1";
}

/// Something with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Fact {
    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// The calls of a function.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct CountedFunction {
    pub(crate) function: String,
    pub(crate) required: bool,
    /// `null` if the function is absent, or its count is not valid.
    pub(crate) calls: Option<u64>,
    /// `null` where that is not known.
    pub(crate) errors: Option<u64>,
    /// Calls that were missed, as far as the kernel tells.
    pub(crate) missed: Option<u64>,
    /// "EXACT", "UNPROVEN", "INEXACT" or "INVALID"; "absent"; "not recorded" where there
    /// is a table and no record.
    pub(crate) verdict: String,
    /// Parts of the calls: kinds, then who executed them, then others.
    pub(crate) parts: Vec<Part>,
}

/// Some of the calls.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) calls: u64,
}

/// How long the calls of a function took, in ns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct LatencyBlock {
    pub(crate) function: String,
    pub(crate) verdict: String,
    pub(crate) count: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Exact, with three digits.
    pub(crate) mean: String,
    pub(crate) median: Between,
    pub(crate) stddev: Between,
    pub(crate) p90: Between,
    pub(crate) p95: Between,
    pub(crate) p99: Between,
}

/// A value is known to lie between these, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Between {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// The rounds of a benchmark, in ns an operation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Timing {
    /// The point of a comparison, and its kernel.
    pub(crate) target_id: String,
    pub(crate) kernel: String,
    pub(crate) scenario: String,
    pub(crate) rounds: u64,
    pub(crate) mean: String,
    pub(crate) mean_without_first: Option<String>,
    pub(crate) min: String,
    pub(crate) max: String,
}

/// A patched kernel between two controls, in ns an operation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Comparison {
    pub(crate) scenario: String,
    /// "all rounds" or "without the first".
    pub(crate) rounds: &'static str,
    pub(crate) control_a: String,
    pub(crate) patched: String,
    pub(crate) control_b: String,
    pub(crate) drift_pct: String,
    pub(crate) delta_pct: String,
}
