//! The record, version 1: the written form of one run. A promise: fields may be
//! added within a version, and never change their meaning.
//!
//! Counts and times are integers; an unknown value is `null`, never 0. Bytes that
//! are not UTF-8 in a command's arguments are replaced by U+FFFD.

use serde::Serialize;

/// One run of `cowprobe run`.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    /// Always `cowprobe-record-1`.
    pub(crate) schema: &'static str,
    pub(crate) tool: Tool,
    pub(crate) identity: IdentityRecord,
    pub(crate) command: CommandRecord,
    pub(crate) exit: Exit,
    pub(crate) windows: Vec<WindowRecord>,
    pub(crate) targets: Vec<TargetRecord>,
    /// What a reader must know beside the numbers.
    pub(crate) warnings: Vec<String>,
}

impl Record {
    /// This version's name.
    pub(crate) const SCHEMA: &'static str = "cowprobe-record-1";
}

/// The program that made the record.
#[derive(Debug, Serialize)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// SHA-256 of the BPF object, in hexadecimal.
    pub(crate) ebpf_sha256: Option<String>,
}

/// The kernel that it ran on.
#[derive(Debug, Serialize)]
pub(crate) struct IdentityRecord {
    /// `uname -r`.
    pub(crate) release: String,
    /// `uname -v`.
    pub(crate) version: String,
    /// `uname -m`.
    pub(crate) machine: String,
    pub(crate) boot_id: Option<String>,
    /// The kernel's own command line.
    pub(crate) command_line: Option<String>,
    pub(crate) inhibition: VariantRecord,
}

/// How the kernel inhibits writeback.
#[derive(Debug, Serialize)]
pub(crate) struct VariantRecord {
    /// "xarray", "inline-buffer", "none" or "unknown".
    pub(crate) variant: &'static str,
    /// The slots of an inline buffer.
    pub(crate) slots: Option<usize>,
}

/// The command and how it ended.
#[derive(Debug, Serialize)]
pub(crate) struct CommandRecord {
    pub(crate) argv: Vec<String>,
    /// Its exit status, if it exited.
    pub(crate) status: Option<i32>,
    /// The signal that ended it, if one did.
    pub(crate) signal: Option<i32>,
    /// Why it could not be started, if it could not.
    pub(crate) error: Option<String>,
    /// From its release to its end, `CLOCK_MONOTONIC`.
    pub(crate) wall_ns: u64,
}

/// cowprobe's own exit.
#[derive(Debug, Serialize)]
pub(crate) struct Exit {
    pub(crate) code: u8,
    /// Why the code is not 0.
    pub(crate) causes: Vec<String>,
}

/// A stretch of time that was counted.
#[derive(Debug, Serialize)]
pub(crate) struct WindowRecord {
    /// Always `CLOCK_MONOTONIC`.
    pub(crate) clock: &'static str,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// One target, and its counts over all windows.
#[derive(Debug, Serialize)]
pub(crate) struct TargetRecord {
    pub(crate) symbol: &'static str,
    /// The module that holds it; `null` if it is built in or absent.
    pub(crate) module: Option<String>,
    pub(crate) required: bool,
    pub(crate) available: bool,
    /// How it was probed; `null` if it was not.
    pub(crate) hook: Option<&'static str>,
    pub(crate) calls: Option<u64>,
    /// Of the calls, clones; `null` where calls do not divide.
    pub(crate) clones: Option<u64>,
    /// Of the calls, dedupes; `null` where calls do not divide.
    pub(crate) dedupes: Option<u64>,
    pub(crate) returns: Option<u64>,
    /// Negative returns; `null` where the function returns nothing.
    pub(crate) errors: Option<u64>,
    /// Calls that the kprobe skipped (`nmissed`).
    pub(crate) missed: Option<u64>,
    /// Calls for which the program was not run.
    pub(crate) recursion_misses: Option<u64>,
    /// Returns that the kretprobe skipped, or had no instance for.
    pub(crate) return_missed: Option<u64>,
    /// Returns for which the program was not run.
    pub(crate) return_recursion_misses: Option<u64>,
}
