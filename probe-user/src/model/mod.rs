//! What was seen, as plain values: targets, snapshots and the windows between
//! them. No I/O, and nothing of how a number was read or is shown.

mod checked;
mod expectation;
mod histogram;
mod host;
mod machine;
mod other;
mod report;
mod scope;
mod snapshot;
mod sum;
mod target;
mod verdict;
mod window;

pub(crate) use checked::{CheckRow, Checked};
pub(crate) use expectation::{Came, Expectation, Outcome};
pub(crate) use histogram::Histogram;
pub(crate) use host::{Found, Identity, Presence, Variant};
pub(crate) use machine::{BlockDevice, Build, Hardware};
pub(crate) use other::{OtherProgram, Others};
pub(crate) use report::{
    Between, Comparison, CountedFunction, Fact, LatencyBlock, Part as ReportPart, Report, Timing,
};
pub(crate) use scope::{Mount, Scope, filesystem_name};
pub(crate) use snapshot::{Classes, Losses, Part, Reading, Snapshot};
pub(crate) use sum::{Brief, BriefCounts};
pub(crate) use target::{Kinds, Need, Target};
pub(crate) use verdict::Verdict;
pub(crate) use window::{Counts, Window};
