//! What is written down: the record, its form and its file.

mod bundle;
mod output;
mod record;
mod warnings;

pub(crate) use bundle::{Timed, Verified, sha256, table_text};
pub(crate) use output::{Output, Replaced};
pub(crate) use record::{
    BucketRecord, CallsOnRecord, CheckRecord, CheckTargetRecord, ClassesRecord, CommandRecord,
    Exit, ExpectationRecord, FilesystemRecord, IdentityRecord, IntervalRecord, LatencyRecord,
    OtherProgramRecord, Record, ScopeRecord, StretchRecord, TargetRecord, Tool, VariantRecord,
    WindowRecord, WindowTargetRecord,
};
pub(crate) use warnings::{Findings, Gate, findings, other_programs};
