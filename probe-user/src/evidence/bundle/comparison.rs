//! The tables of a bundle that compare kernels, in the columns of the same public
//! evidence.

use super::tsv::{Fault, Fields, Row};
use crate::stats::Thousandths;

/// What the tester says of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceIdentity {
    pub(crate) field: String,
    pub(crate) value: String,
}

/// How a field begins that says what ran, by the record.
const RUNNING: &str = "running_";

impl SourceIdentity {
    /// Of the kernel that ran; an unknown value is none.
    pub(super) fn running(what: &str, value: Option<&str>) -> Option<Self> {
        Some(Self {
            field: format!("{RUNNING}{what}"),
            value: value?.to_owned(),
        })
    }

    /// It says what ran, and follows from the record.
    pub(super) fn is_of_the_record(&self) -> bool {
        self.field.starts_with(RUNNING)
    }

    /// The tester names a kernel's release.
    pub(super) fn is_release(&self) -> bool {
        self.field.ends_with("kernelrelease") && !self.is_of_the_record()
    }
}

impl Row for SourceIdentity {
    const FILE: &'static str = "source-identity.tsv";
    const COLUMNS: &'static [&'static str] = &["field", "value"];

    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        Ok(Self {
            field: fields.word()?,
            value: fields.any(),
        })
    }

    fn fields(&self) -> Vec<String> {
        vec![self.field.clone(), self.value.clone()]
    }
}

/// A patched kernel between two controls, in one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlSandwich {
    /// "`all_rounds`" or "`skip_first`".
    pub(crate) scope: String,
    pub(crate) scenario: String,
    pub(crate) control_a: Thousandths,
    pub(crate) control_b: Thousandths,
    pub(crate) midpoint: Thousandths,
    pub(crate) patched: Thousandths,
    pub(crate) drift_pct: Thousandths,
    pub(crate) delta_pct: Thousandths,
}

/// The words for [`ControlSandwich::scope`].
const SCOPES: [&str; 2] = ["all_rounds", "skip_first"];

impl Row for ControlSandwich {
    const FILE: &'static str = "control-sandwich.tsv";
    const COLUMNS: &'static [&'static str] = &[
        "scope",
        "scenario",
        "control_a_ns_per_op",
        "control_b_ns_per_op",
        "control_midpoint_ns_per_op",
        "upstream_v2_ns_per_op",
        "control_drift_pct",
        "v2_vs_control_midpoint_pct",
    ];

    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        Ok(Self {
            scope: {
                let word = fields.word()?;
                if !SCOPES.contains(&&*word) {
                    return Err(fields.fault("neither all_rounds nor skip_first"));
                }
                word
            },
            scenario: fields.word()?,
            control_a: fields.positive()?,
            control_b: fields.positive()?,
            midpoint: fields.positive()?,
            patched: fields.positive()?,
            drift_pct: fields.positive()?,
            delta_pct: fields.decimal()?,
        })
    }

    fn fields(&self) -> Vec<String> {
        let mut all = vec![self.scope.clone(), self.scenario.clone()];
        let numbers = [
            self.control_a,
            self.control_b,
            self.midpoint,
            self.patched,
            self.drift_pct,
            self.delta_pct,
        ];
        all.extend(numbers.map(|number| number.to_string()));
        all
    }
}

/// Whether two builds agree in something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MatchedBuild {
    pub(crate) field: String,
    pub(crate) status: String,
    pub(crate) control: String,
    pub(crate) patched: String,
}

impl Row for MatchedBuild {
    const FILE: &'static str = "matched-build.tsv";
    const COLUMNS: &'static [&'static str] = &["field", "status", "control", "upstream_v2"];

    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        Ok(Self {
            field: fields.word()?,
            status: {
                let word = fields.word()?;
                if !["PASS", "FAIL"].contains(&&*word) {
                    return Err(fields.fault("neither PASS nor FAIL"));
                }
                word
            },
            control: fields.any(),
            patched: fields.any(),
        })
    }

    fn fields(&self) -> Vec<String> {
        let all = [&self.field, &self.status, &self.control, &self.patched];
        all.map(Clone::clone).to_vec()
    }
}
