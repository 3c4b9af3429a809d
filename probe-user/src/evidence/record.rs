//! The record, version 1: the written form of one run. A promise: fields may be
//! added within a version, and never change their meaning.
//!
//! Counts and times are integers; an unknown value is `null`, never 0. Bytes that
//! are not UTF-8 in a command's arguments are replaced by U+FFFD.

use serde::Serialize;

use super::{
    identity::{FilesystemRecord, IdentityRecord, Tool},
    target::TargetRecord,
};

/// One run of `cowprobe run`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Record {
    /// Always `cowprobe-record-1`.
    #[cfg_attr(test, schemars(extend("const" = "cowprobe-record-1")))]
    pub(crate) schema: &'static str,
    /// `false` in a checkpoint: the command was running, or this is all that is left of
    /// the run.
    pub(crate) complete: bool,
    pub(crate) tool: Tool,
    /// When cowprobe began, in UTC (RFC 3339).
    pub(crate) started_at: String,
    pub(crate) identity: IdentityRecord,
    /// Each btrfs that was mounted when the record was made, or was meant.
    pub(crate) filesystems: Vec<FilesystemRecord>,
    pub(crate) command: CommandRecord,
    /// `null` in a checkpoint.
    pub(crate) exit: Option<Exit>,
    pub(crate) windows: Vec<WindowRecord>,
    /// How long removing the probes took, after the last window; `null` where none was
    /// attached.
    pub(crate) detach_ns: Option<u64>,
    pub(crate) targets: Vec<TargetRecord>,
    /// What of the calls was meant; `null` if all were.
    pub(crate) scope: Option<ScopeRecord>,
    pub(crate) expectations: Vec<ExpectationRecord>,
    /// What a reader must know beside the numbers.
    pub(crate) warnings: Vec<String>,
}

impl Record {
    /// This version's name.
    pub(crate) const SCHEMA: &'static str = "cowprobe-record-1";
}

/// Which filesystems were meant. With it all counts are of these; see `out_of_scope`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct ScopeRecord {
    /// As on the command line.
    pub(crate) asked: Vec<String>,
    /// Why the calls on all filesystems were counted, if they were.
    pub(crate) refused: Option<String>,
    /// Those that were found.
    pub(crate) filesystems: Vec<FilesystemRecord>,
}

/// What was expected, and what came of it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct ExpectationRecord {
    /// As it was written.
    pub(crate) text: String,
    /// The number that was compared, or the two of a ratio; empty without a valid
    /// count.
    pub(crate) counted: Vec<u64>,
    /// "held", "failed", "undecided" (it depends on missed calls) or "no count".
    #[cfg_attr(test, schemars(extend("enum" = ["held", "failed", "undecided", "no count"])))]
    pub(crate) outcome: &'static str,
}

/// One line of `cowprobe watch --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct IntervalRecord {
    /// Always `cowprobe-interval-1`.
    #[cfg_attr(test, schemars(extend("const" = "cowprobe-interval-1")))]
    pub(crate) schema: &'static str,
    /// The last line: its interval is the whole, on a closed window.
    pub(crate) last: bool,
    /// The interval.
    pub(crate) window: StretchRecord,
    /// Since the beginning.
    pub(crate) elapsed_ns: u64,
    /// Counts of the interval.
    pub(crate) interval: Vec<TargetRecord>,
    /// Counts since the beginning.
    pub(crate) total: Vec<TargetRecord>,
    /// As in a record: what is meant, as far as it is known by now.
    pub(crate) scope: Option<ScopeRecord>,
    /// Why the watch fails; empty before the last line.
    pub(crate) causes: Vec<String>,
    /// What else limits these counts.
    pub(crate) warnings: Vec<String>,
}

impl IntervalRecord {
    /// This version's name.
    pub(crate) const SCHEMA: &'static str = "cowprobe-interval-1";
}

/// The command and how it ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct CommandRecord {
    pub(crate) argv: Vec<String>,
    /// Its exit status, if it exited.
    pub(crate) status: Option<i32>,
    /// The signal that ended it, if one did.
    pub(crate) signal: Option<i32>,
    /// Why it could not be started, if it could not.
    pub(crate) error: Option<String>,
    /// From its release to when its end was seen, `CLOCK_MONOTONIC`.
    pub(crate) wall_ns: u64,
}

/// cowprobe's own exit.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Exit {
    pub(crate) code: u8,
    /// Why the code is not 0.
    pub(crate) causes: Vec<String>,
}

/// A stretch of time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct StretchRecord {
    /// Always `CLOCK_MONOTONIC`.
    #[cfg_attr(test, schemars(extend("const" = "CLOCK_MONOTONIC")))]
    pub(crate) clock: &'static str,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// A stretch of time that was counted, and what was counted in it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct WindowRecord {
    /// Always `CLOCK_MONOTONIC`.
    #[cfg_attr(test, schemars(extend("const" = "CLOCK_MONOTONIC")))]
    pub(crate) clock: &'static str,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// In a checkpoint: the window goes on, its end is that of the reading. What was
    /// in flight then follows from the other numbers.
    pub(crate) open: bool,
    /// The targets whose count is valid in it.
    pub(crate) targets: Vec<WindowTargetRecord>,
}

/// One target in one window. The fields are those of [`TargetRecord`].
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct WindowTargetRecord {
    /// As `--probe` takes it.
    pub(crate) symbol: String,
    pub(crate) calls: u64,
    pub(crate) clones: Option<u64>,
    pub(crate) dedupes: Option<u64>,
    pub(crate) returns: u64,
    pub(crate) in_flight: u64,
    pub(crate) errors: Option<u64>,
    pub(crate) out_of_scope: Option<u64>,
    /// `missed` and `recursion_misses` together.
    pub(crate) missed_calls: Option<u64>,
    /// `return_missed` and `return_recursion_misses` together.
    pub(crate) missed_returns: Option<u64>,
}
