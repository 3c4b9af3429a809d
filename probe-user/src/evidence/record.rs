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
    /// `false` in a checkpoint: the command was running, or this is all that is left of
    /// the run.
    pub(crate) complete: bool,
    pub(crate) tool: Tool,
    pub(crate) identity: IdentityRecord,
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
pub(crate) struct ScopeRecord {
    /// As on the command line.
    pub(crate) asked: Vec<String>,
    /// Why the calls on all filesystems were counted, if they were.
    pub(crate) refused: Option<String>,
    /// Those that were found.
    pub(crate) filesystems: Vec<FilesystemRecord>,
}

/// A filesystem.
#[derive(Debug, Serialize)]
pub(crate) struct FilesystemRecord {
    /// `s_dev` of its super block, as mountinfo shows it.
    pub(crate) device: String,
    /// Where it was seen first.
    pub(crate) mount_point: Option<String>,
    pub(crate) fsid: Option<String>,
}

/// A target's calls on a filesystem.
#[derive(Debug, Serialize)]
pub(crate) struct CallsOnRecord {
    /// As above, or words where it is not known.
    pub(crate) device: String,
    pub(crate) in_scope: bool,
    pub(crate) calls: u64,
}

/// What was expected, and what came of it.
#[derive(Debug, Serialize)]
pub(crate) struct ExpectationRecord {
    /// As it was written.
    pub(crate) text: String,
    /// The number that was compared, or the two of a ratio; empty without a valid
    /// count.
    pub(crate) counted: Vec<u64>,
    /// "held", "failed", "undecided" (it depends on missed calls) or "no count".
    pub(crate) outcome: &'static str,
}

/// One line of `cowprobe watch --json`.
#[derive(Debug, Serialize)]
pub(crate) struct IntervalRecord {
    /// Always `cowprobe-interval-1`.
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

/// What `cowprobe check --json` writes.
#[derive(Debug, Serialize)]
pub(crate) struct CheckRecord {
    /// Always `cowprobe-check-1`.
    pub(crate) schema: &'static str,
    pub(crate) identity: IdentityRecord,
    /// The live mode: "none", "voluntary", "full" or "lazy".
    pub(crate) preemption: Option<String>,
    /// "none", "integrity" or "confidentiality".
    pub(crate) lockdown: Option<String>,
    pub(crate) perf_event_paranoid: Option<i32>,
    /// What probing takes here.
    pub(crate) needed_capabilities: Vec<&'static str>,
    /// What of it this process lacks.
    pub(crate) missing_capabilities: Vec<&'static str>,
    pub(crate) kernel_btf: bool,
    /// btrfs' own, or the kernel's if btrfs is built in.
    pub(crate) btrfs_btf: bool,
    /// `null` if it cannot be read.
    pub(crate) kprobes_armed: Option<bool>,
    /// Whether the kernel tells what probes miss; `null` if none was attached.
    pub(crate) misses_told: Option<bool>,
    /// How `run` and `watch` probe here.
    pub(crate) hook: &'static str,
    pub(crate) targets: Vec<CheckTargetRecord>,
    /// What stands in the way, a line each.
    pub(crate) problems: Vec<String>,
}

impl CheckRecord {
    /// This version's name.
    pub(crate) const SCHEMA: &'static str = "cowprobe-check-1";
}

/// What `check` found of one target.
#[derive(Debug, Serialize)]
pub(crate) struct CheckTargetRecord {
    pub(crate) symbol: String,
    /// The module that holds it; `null` if it is built in or absent.
    pub(crate) module: Option<String>,
    pub(crate) required: bool,
    pub(crate) available: bool,
    /// Its probes were attached, for a moment.
    pub(crate) traceable: bool,
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
    /// From its release to when its end was seen, `CLOCK_MONOTONIC`.
    pub(crate) wall_ns: u64,
}

/// cowprobe's own exit.
#[derive(Debug, Serialize)]
pub(crate) struct Exit {
    pub(crate) code: u8,
    /// Why the code is not 0.
    pub(crate) causes: Vec<String>,
}

/// A stretch of time.
#[derive(Debug, Serialize)]
pub(crate) struct StretchRecord {
    /// Always `CLOCK_MONOTONIC`.
    pub(crate) clock: &'static str,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// A stretch of time that was counted, and what was counted in it.
#[derive(Debug, Serialize)]
pub(crate) struct WindowRecord {
    /// Always `CLOCK_MONOTONIC`.
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

/// One target, and its counts over all windows.
#[derive(Debug, Serialize)]
pub(crate) struct TargetRecord {
    pub(crate) symbol: String,
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
    /// The calls by who executed them, not for whom; `null` if that cannot be told.
    pub(crate) executed_by: Option<ClassesRecord>,
    /// Calls on other filesystems, which are in no other number; `null` without a scope.
    /// Losses are of all filesystems.
    pub(crate) out_of_scope: Option<u64>,
    /// Calls by filesystem; `null` without a scope, or if they are not told apart.
    pub(crate) by_filesystem: Option<Vec<CallsOnRecord>>,
    /// Returns that met their call in their window.
    pub(crate) returns: Option<u64>,
    /// Calls that had not returned at their window's end: counted, and only in the
    /// midst of `watch` derived from the fields around it.
    pub(crate) in_flight: Option<u64>,
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
    /// Calls for whose start there was no room: their return is `unmatched`.
    pub(crate) unstored: Option<u64>,
    /// Calls whose return was missed.
    pub(crate) abandoned: Option<u64>,
    /// Returns without a start.
    pub(crate) unmatched: Option<u64>,
    /// The worse of the two below: "EXACT", "UNPROVEN", "INEXACT" or "INVALID"; `null`
    /// if the target is absent.
    pub(crate) verdict: Option<&'static str>,
    /// Of `calls`. INEXACT: the true number is `calls` + `missed` + `recursion_misses`,
    /// or, on several CPUs, larger.
    pub(crate) calls_verdict: Option<&'static str>,
    /// Of `latency`: whether it has the time of every call that returned.
    pub(crate) times_verdict: Option<&'static str>,
    pub(crate) latency: Option<LatencyRecord>,
    /// BPF programs of others on this function when the probes were attached, those of
    /// another cowprobe too; later ones are not seen. `null` if they are not known.
    pub(crate) other_programs: Option<Vec<OtherProgramRecord>>,
}

/// A BPF program of others.
#[derive(Debug, Serialize)]
pub(crate) struct OtherProgramRecord {
    /// "kprobe", "kretprobe", "kprobe.multi", "kretprobe.multi", "fentry", "fexit",
    /// "`fmod_ret`" or "fsession".
    pub(crate) kind: &'static str,
    /// Its first 15 characters.
    pub(crate) name: String,
    pub(crate) id: u32,
}

/// Who executed calls. Their sum is `calls`.
#[derive(Debug, Serialize)]
pub(crate) struct ClassesRecord {
    /// CMD and all that descends from it; `null` if it is not told from other tasks.
    pub(crate) workload: Option<u64>,
    /// btrfs' transaction threads.
    pub(crate) commit: u64,
    /// btrfs' cleaners.
    pub(crate) cleaner: u64,
    pub(crate) kworker: u64,
    /// Other threads of the kernel.
    pub(crate) kthread: u64,
    /// Other tasks.
    pub(crate) other: u64,
    /// Interrupts and softirqs; `null` if they are not told from the tasks that they
    /// found.
    pub(crate) interrupt: Option<u64>,
}

/// The time from entry to return, of the returns.
#[derive(Debug, Serialize)]
pub(crate) struct LatencyRecord {
    pub(crate) sum_ns: u64,
    /// Exact; `null` if nothing returned.
    pub(crate) min_ns: Option<u64>,
    /// Exact; `null` if nothing returned.
    pub(crate) max_ns: Option<u64>,
    pub(crate) p50_ns: Option<BoundsRecord>,
    pub(crate) p90_ns: Option<BoundsRecord>,
    pub(crate) p99_ns: Option<BoundsRecord>,
    pub(crate) p99_9_ns: Option<BoundsRecord>,
    /// Those that are not empty, by rising time.
    pub(crate) buckets: Vec<BucketRecord>,
}

/// A value is known to lie between these, both included.
#[derive(Debug, Serialize)]
pub(crate) struct BoundsRecord {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl From<(u64, u64)> for BoundsRecord {
    fn from((low, high): (u64, u64)) -> Self {
        Self { low, high }
    }
}

/// How many times there were between two bounds, both included.
#[derive(Debug, Serialize)]
pub(crate) struct BucketRecord {
    pub(crate) low_ns: u64,
    /// `null` for the last bucket, which has no end.
    pub(crate) high_ns: Option<u64>,
    pub(crate) count: u64,
}
