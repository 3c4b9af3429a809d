//! What is written down: the record, its form and its file.

mod bundle;
mod identity;
mod output;
mod record;
#[cfg(test)]
mod schema;
mod target;
mod warnings;

pub(crate) use bundle::{Draft, STREAMS, Timed, Verified, read_timed, report, sha256, table_text};
pub(crate) use identity::{
    CheckRecord, CheckTargetRecord, FilesystemRecord, IdentityRecord, Tool, VariantRecord,
};
pub(crate) use output::{Output, Replaced};
pub(crate) use record::{
    CommandRecord, Exit, ExpectationRecord, IntervalRecord, Record, ScopeRecord, StretchRecord,
    WindowRecord, WindowTargetRecord,
};
pub(crate) use target::{
    BucketRecord, CallsOnRecord, ClassesRecord, LatencyRecord, OtherProgramRecord, TargetRecord,
};
pub(crate) use warnings::{Findings, Gate, findings, other_programs};
