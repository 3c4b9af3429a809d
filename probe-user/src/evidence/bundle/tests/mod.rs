//! Bundles that are right, and each way in which one is not.

mod changed;
mod drafts;
mod large;
mod mangled;

use std::{collections::BTreeMap, fs, path::Path};

use super::{
    comparison::ControlSandwich,
    folder::RECORD,
    manifest::{MANIFEST, manifest, sha256_of},
    points::Points,
    tables::{DirectHit, Round, RunStats, Summary, Timed},
    tsv::{Row, text},
    verified::Verified,
};
use crate::stats::{Sandwich, Thousandths};

const POINTS: [&str; 3] = ["control_a", "upstream_v2", "control_b"];
const SCENARIOS: [&str; 2] = ["ficlonerange_4k_pages", "fidedupe_4k_pages"];
const ROUNDS: u64 = 3;

/// A record of one function.
const RECORD_TEXT: &str = r#"{
  "schema": "cowprobe-record-1", "complete": true,
  "identity": {"release": "7.3.4"},
  "exit": {"code": 0, "causes": []},
  "windows": [
    {"start_ns": 5, "end_ns": 9, "targets": [{"symbol": "f", "calls": 3, "returns": 2, "in_flight": 1}]},
    {"start_ns": 9, "end_ns": 12, "targets": [{"symbol": "f", "calls": 2, "returns": 2, "in_flight": 0}]}
  ],
  "targets": [{
    "symbol": "f", "module": "btrfs", "required": true, "available": true, "hook": "kprobe",
    "calls": 5, "clones": 3, "dedupes": 2, "returns": 4, "in_flight": 1,
    "executed_by": {"workload": 4, "other": 1, "interrupt": null},
    "by_filesystem": null,
    "missed": 0, "recursion_misses": 0, "return_missed": 0, "return_recursion_misses": 0,
    "unstored": 0, "abandoned": 0,
    "verdict": "EXACT", "calls_verdict": "EXACT", "times_verdict": "EXACT",
    "latency": {
      "sum_ns": 60, "min_ns": 10, "max_ns": 30,
      "p50_ns": {"low": 10, "high": 10}, "p90_ns": {"low": 28, "high": 30},
      "p99_ns": {"low": 28, "high": 30}, "p99_9_ns": {"low": 28, "high": 30},
      "buckets": [{"low_ns": 10, "high_ns": 10, "count": 3}, {"low_ns": 28, "high_ns": 31, "count": 1}]
    }
  }]
}
"#;

fn rounds() -> Vec<Round> {
    let mut rounds = Vec::new();
    for (place, target) in (0..).zip(POINTS) {
        for round in 1..=ROUNDS {
            for (at, scenario) in (0..).zip(SCENARIOS) {
                let (operations, unexpected_results) = (7, u64::from(round == 2) * at);
                let elapsed_ns = 20_000 + 1000 * place + 77 * round + 11 * at;
                rounds.push(Round {
                    target_id: target.to_owned(),
                    kernel: format!("7.3-{place}"),
                    timed: Timed {
                        scenario: scenario.to_owned(),
                        round,
                        operations,
                        range_bytes: 4096,
                        elapsed_ns,
                        ns_per_op: Timed::ns_per_op_of(elapsed_ns, operations).expect("small"),
                        expected_match_ratio: Timed::match_ratio_of(unexpected_results, operations)
                            .expect("small"),
                        unexpected_results,
                        checksum: sha256_of(b"content"),
                        probed: false,
                    },
                });
            }
        }
    }
    // A loop that was timed under probes is no part of any mean.
    let mut probed = rounds[0].clone();
    probed.timed.probed = true;
    rounds.push(probed);
    rounds
}

/// All files of a bundle that is right.
fn bundle() -> BTreeMap<&'static str, String> {
    let rounds = rounds();
    let mut points = Points::default();
    for (line, round) in (2..).zip(&rounds) {
        points.add(line, round).expect("in order");
    }
    let stats = points.stats().expect("numbers");
    let summary: Vec<_> = (0..)
        .zip(points.timed())
        .map(|(step, point)| Summary {
            step,
            target_id: point.target_id.clone(),
            role: "control".to_owned(),
            kernel: point.kernel.clone(),
            run_timestamp_utc: "2026-07-15T13:30:42Z".to_owned(),
            observed_rows: point.rows,
            min_expected_match_ratio: point.min_match_ratio,
            unexpected_results: point.unexpected,
            direct_hit: if step == 1 { "PASS" } else { "not-run" }.to_owned(),
        })
        .collect();
    let sandwich = |scope: &str, scenario: &str, mean: fn(&RunStats) -> Option<Thousandths>| {
        let of = |target: &str| {
            let is = |s: &&RunStats| s.target_id == target && s.scenario == scenario;
            mean(stats.iter().find(is).expect("there")).expect("rounds")
        };
        let [a, patched, b] = POINTS.map(of);
        let follow = Sandwich::of(a, patched, b).expect("times");
        ControlSandwich {
            scope: scope.to_owned(),
            scenario: scenario.to_owned(),
            control_a: a,
            control_b: b,
            midpoint: follow.midpoint,
            patched,
            drift_pct: follow.drift_pct,
            delta_pct: follow.delta_pct,
        }
    };
    let each = SCENARIOS.map(|s| sandwich("all_rounds", s, |stats| Some(stats.all_mean)));
    let rest = SCENARIOS.map(|s| sandwich("skip_first", s, |stats| stats.skip_first_mean));
    let hit = DirectHit {
        function: "f".to_owned(),
        available: true,
        filtered: true,
        calls: 5,
        required: true,
    };
    BTreeMap::from([
        (Round::FILE, text(&rounds)),
        (RunStats::FILE, text(&stats)),
        (Summary::FILE, text(&summary)),
        (ControlSandwich::FILE, text(&[each, rest].concat())),
        (DirectHit::FILE, text(&[hit])),
        (RECORD, RECORD_TEXT.to_owned()),
    ])
}

fn write(dir: &Path, files: &BTreeMap<&'static str, String>) {
    let hashes = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), sha256_of(text.as_bytes())));
    for (name, text) in files {
        fs::write(dir.join(name), text).expect("writes");
    }
    fs::write(dir.join(MANIFEST), manifest(&hashes.collect())).expect("writes");
}

fn verified(files: &BTreeMap<&'static str, String>) -> Result<Verified, String> {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), files);
    Verified::of(dir.path())
}

#[test]
fn a_bundle_that_is_right_follows() {
    let verified = verified(&bundle()).expect("readable");
    assert_eq!(verified.wrong, [""; 0]);
    assert!(!verified.said.iter().any(|line| line.contains("NOT")));
}

#[test]
fn public_means_are_not_recomputable_and_the_rest_follows() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/public");
    let verified = Verified::of(&dir).expect("readable");
    assert_eq!(verified.wrong, [""; 0]);
    for line in [
        "per-run-stats.tsv: 24 means are NOT RECOMPUTABLE: there are no raw rounds",
        "direct-hit.tsv: 4 counts are NOT RECOMPUTABLE: there is no record.json",
        "control-sandwich.tsv: 24 cells computed again",
    ] {
        assert!(
            verified.said.iter().any(|said| said == line),
            "{verified:?}"
        );
    }
}
