//! A record as it is read back, for what is computed again and for reports. Fields that
//! are not known here are let pass: a later writer may add some.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{comparison::SourceIdentity, tables::DirectHit};
use crate::model::{BlockDevice, Build, Hardware};

/// The name of the form that is read.
const SCHEMA: &str = "cowprobe-record-1";

/// A record.
#[derive(Debug, Deserialize)]
pub(crate) struct Recorded {
    schema: String,
    pub(super) complete: Option<bool>,
    pub(super) tool: Option<RecordedTool>,
    pub(super) started_at: Option<String>,
    pub(crate) identity: RecordedIdentity,
    #[serde(default)]
    pub(super) filesystems: Vec<RecordedFilesystem>,
    pub(super) exit: Option<RecordedExit>,
    pub(super) windows: Vec<RecordedWindow>,
    pub(super) targets: Vec<RecordedTarget>,
    pub(super) scope: Option<RecordedScope>,
    #[serde(default)]
    pub(super) expectations: Vec<RecordedExpectation>,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
}

/// The program that made it.
#[derive(Debug, Deserialize)]
pub(super) struct RecordedTool {
    pub(super) version: String,
    #[serde(default)]
    pub(super) argv: Vec<String>,
    pub(super) ebpf_sha256: Option<String>,
}

/// The kernel and the machine.
#[derive(Debug, Deserialize)]
pub(crate) struct RecordedIdentity {
    pub(crate) release: String,
    pub(super) version: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) command_line: Option<String>,
    pub(super) preemption: Option<String>,
    pub(super) host_name: Option<String>,
    pub(super) inhibition: Option<RecordedVariant>,
    #[serde(default)]
    pub(super) build: Build,
    #[serde(default)]
    pub(super) hardware: Hardware,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedVariant {
    pub(super) variant: String,
    pub(super) slots: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedFilesystem {
    pub(super) device: String,
    pub(super) mount_point: Option<String>,
    pub(super) fsid: Option<String>,
    pub(super) source: Option<String>,
    pub(super) super_options: Option<String>,
    pub(super) block_device: Option<BlockDevice>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedScope {
    pub(super) asked: Vec<String>,
    pub(super) refused: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedExpectation {
    pub(super) text: String,
    pub(super) counted: Vec<u64>,
    pub(super) outcome: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedExit {
    pub(super) code: u8,
    pub(super) causes: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedWindow {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) targets: Vec<InWindow>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InWindow {
    pub(super) symbol: String,
    pub(super) calls: u64,
    pub(super) returns: u64,
    pub(super) in_flight: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedTarget {
    pub(super) symbol: String,
    pub(super) module: Option<String>,
    pub(super) required: bool,
    pub(super) available: bool,
    pub(super) hook: Option<String>,
    pub(super) calls: Option<u64>,
    pub(super) clones: Option<u64>,
    pub(super) dedupes: Option<u64>,
    pub(super) executed_by: Option<BTreeMap<String, Option<u64>>>,
    pub(super) by_filesystem: Option<Vec<CallsOn>>,
    pub(super) returns: Option<u64>,
    pub(super) in_flight: Option<u64>,
    pub(super) missed: Option<u64>,
    pub(super) recursion_misses: Option<u64>,
    pub(super) return_missed: Option<u64>,
    pub(super) return_recursion_misses: Option<u64>,
    pub(super) errors: Option<u64>,
    pub(super) out_of_scope: Option<u64>,
    pub(super) unstored: Option<u64>,
    pub(super) abandoned: Option<u64>,
    pub(super) verdict: Option<String>,
    pub(super) calls_verdict: Option<String>,
    pub(super) times_verdict: Option<String>,
    pub(super) latency: Option<RecordedLatency>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallsOn {
    pub(super) in_scope: bool,
    pub(super) calls: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedLatency {
    pub(super) sum_ns: u64,
    pub(super) min_ns: Option<u64>,
    pub(super) max_ns: Option<u64>,
    pub(super) p50_ns: Option<Bounds>,
    pub(super) p90_ns: Option<Bounds>,
    pub(super) p99_ns: Option<Bounds>,
    pub(super) p99_9_ns: Option<Bounds>,
    pub(super) buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) low: u64,
    pub(super) high: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Bucket {
    pub(super) low_ns: u64,
    pub(super) high_ns: Option<u64>,
    pub(super) count: u64,
}

impl Recorded {
    /// Reads a record; an error says in one line what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let record: Self = serde_json::from_str(text).map_err(|error| {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            format!("line {}, column {}: {what}", error.line(), error.column())
        })?;
        if record.schema != SCHEMA {
            return Err(format!("schema: {:?} instead of {SCHEMA}", record.schema));
        }
        Ok(record)
    }

    /// The table that follows.
    pub(crate) fn direct_hits(&self) -> Vec<DirectHit> {
        let each = self.targets.iter().map(|target| DirectHit {
            function: target.symbol.clone(),
            available: target.available,
            filtered: target.hook.is_some(),
            calls: target.calls.unwrap_or(0),
            required: target.required,
        });
        each.collect()
    }

    /// What it says of the kernel that ran, as far as that is known.
    pub(super) fn running(&self) -> Vec<SourceIdentity> {
        let (of, build) = (&self.identity, &self.identity.build);
        let all = [
            ("kernelrelease", Some(&of.release)),
            ("kernel_build_id", build.kernel_build_id.as_ref()),
            ("btrfs_build_id", build.btrfs_build_id.as_ref()),
            ("config_sha256", build.config_sha256.as_ref()),
            ("compiler", build.compiler.as_ref()),
            ("preemption", of.preemption.as_ref()),
        ];
        let each = all.into_iter();
        each.filter_map(|(what, value)| SourceIdentity::running(what, value.map(String::as_str)))
            .collect()
    }
}
