//! What a record says of a target.

use serde::Serialize;

/// A target's calls on a filesystem.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct CallsOnRecord {
    /// As above, or words where it is not known.
    pub(crate) device: String,
    pub(crate) in_scope: bool,
    pub(crate) calls: u64,
}

/// One target, and its counts over all windows.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct TargetRecord {
    pub(crate) symbol: String,
    /// The module that holds it; `null` if it is built in or absent.
    pub(crate) module: Option<String>,
    pub(crate) required: bool,
    pub(crate) available: bool,
    /// How it was probed; `null` if it was not.
    #[cfg_attr(test, schemars(extend("enum" = ["kprobe", null])))]
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
    #[cfg_attr(test, schemars(extend("enum" = ["EXACT", "UNPROVEN", "INEXACT", "INVALID", null])))]
    pub(crate) verdict: Option<&'static str>,
    /// Of `calls`. INEXACT: the true number is `calls` + `missed` + `recursion_misses`,
    /// or, on several CPUs, larger.
    #[cfg_attr(test, schemars(extend("enum" = ["EXACT", "UNPROVEN", "INEXACT", "INVALID", null])))]
    pub(crate) calls_verdict: Option<&'static str>,
    /// Of `latency`: whether it has the time of every call that returned.
    #[cfg_attr(test, schemars(extend("enum" = ["EXACT", "UNPROVEN", "INEXACT", "INVALID", null])))]
    pub(crate) times_verdict: Option<&'static str>,
    pub(crate) latency: Option<LatencyRecord>,
    /// BPF programs of others on this function when the probes were attached, those of
    /// another cowprobe too; later ones are not seen. `null` if they are not known.
    pub(crate) other_programs: Option<Vec<OtherProgramRecord>>,
}

/// A BPF program of others.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct OtherProgramRecord {
    /// "kprobe", "kretprobe", "kprobe.multi", "kretprobe.multi", "fentry", "fexit",
    /// "`fmod_ret`" or "fsession".
    #[cfg_attr(test, schemars(extend("enum" = ["kprobe", "kretprobe", "kprobe.multi", "kretprobe.multi", "fentry", "fexit", "fmod_ret", "fsession"])))]
    pub(crate) kind: &'static str,
    /// Its first 15 characters.
    pub(crate) name: String,
    pub(crate) id: u32,
}

/// Who executed calls. Their sum is `calls`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
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
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
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
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
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
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct BucketRecord {
    pub(crate) low_ns: u64,
    /// `null` for the last bucket, which has no end.
    pub(crate) high_ns: Option<u64>,
    pub(crate) count: u64,
}
