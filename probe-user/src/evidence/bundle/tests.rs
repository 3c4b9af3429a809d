//! Bundles that are right, and each way in which one is not.

use std::{collections::BTreeMap, fs, path::Path};

use proptest::prelude::*;

use super::{
    comparison::ControlSandwich,
    folder::RECORD,
    manifest::{MANIFEST, manifest, sha256_of},
    points::Points,
    tables::{DirectHit, Round, RunStats, Summary, Timed},
    tsv::{Row, all, text},
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

/// Derived columns, of which every cell is.
const DERIVED: [(&str, &[&str]); 5] = [
    (Round::FILE, &["ns_per_op", "expected_match_ratio"]),
    (RunStats::FILE, RunStats::COLUMNS),
    (
        Summary::FILE,
        &[
            "step",
            "target_id",
            "kernel",
            "observed_rows",
            "min_expected_match_ratio",
            "unexpected_results",
        ],
    ),
    (
        ControlSandwich::FILE,
        &[
            "control_a_ns_per_op",
            "control_b_ns_per_op",
            "control_midpoint_ns_per_op",
            "upstream_v2_ns_per_op",
            "control_drift_pct",
            "v2_vs_control_midpoint_pct",
        ],
    ),
    (DirectHit::FILE, DirectHit::COLUMNS),
];

/// Another cell of the same kind.
fn another(cell: &str) -> String {
    match cell {
        "0" => "1".to_owned(),
        "1" => "0".to_owned(),
        _ => match cell.strip_suffix(|c: char| c.is_ascii_digit()) {
            Some(rest) if cell.ends_with('9') => format!("{rest}8"),
            Some(rest) => format!("{rest}9"),
            None => format!("{cell}x"),
        },
    }
}

#[test]
fn each_derived_cell_that_is_changed_is_named() {
    let right = bundle();
    let mut changed = 0;
    for (file, columns) in DERIVED {
        let rows: Vec<Vec<&str>> = right[file]
            .lines()
            .map(|l| l.split('\t').collect())
            .collect();
        for column in columns {
            let place = rows[0]
                .iter()
                .position(|name| name == column)
                .expect("a column");
            for line in 1..rows.len() {
                let mut rows = rows.clone();
                let cell = another(rows[line][place]);
                rows[line][place] = &cell;
                let mut text = rows
                    .iter()
                    .map(|row| row.join("\t"))
                    .collect::<Vec<_>>()
                    .join("\n");
                text.push('\n');
                let mut files = right.clone();
                files.insert(file, text);
                let named = format!("{file}, line {}, {column}: ", line + 1);
                match verified(&files) {
                    // The manifest was made anew.
                    Ok(verified) => assert!(
                        verified.wrong.iter().any(|wrong| wrong.starts_with(&named)
                            || wrong.starts_with(&format!(
                                "{file}, line {}, {}: ",
                                line + 1,
                                rows[0][0]
                            ))),
                        "{named}: {:?}",
                        verified.wrong
                    ),
                    Err(why) => assert!(why.starts_with(&named), "{named}: {why}"),
                }
                changed += 1;
            }
        }
    }
    assert!(changed > 130, "{changed}");
}

#[test]
fn each_number_of_a_record_that_is_changed_is_named() {
    for (there, instead, named) in [
        (
            "\"calls\": 5",
            "\"calls\": 6",
            "record.json, f, executed_by: 5",
        ),
        (
            "\"clones\": 3",
            "\"clones\": 4",
            "record.json, f, clones and dedupes",
        ),
        (
            "\"returns\": 4",
            "\"returns\": 5",
            "record.json, f, returns: 5",
        ),
        (
            "\"in_flight\": 1}",
            "\"in_flight\": 2}",
            "record.json, f, in_flight",
        ),
        (
            "\"workload\": 4",
            "\"workload\": 5",
            "record.json, f, executed_by",
        ),
        (
            "\"missed\": 0",
            "\"missed\": 1",
            "record.json, f, calls_verdict",
        ),
        (
            "\"abandoned\": 0",
            "\"abandoned\": 1",
            "record.json, f, times_verdict",
        ),
        (
            "\"count\": 3",
            "\"count\": 4",
            "record.json, f, latency, buckets",
        ),
        (
            "\"sum_ns\": 60",
            "\"sum_ns\": 600",
            "record.json, f, latency, sum_ns",
        ),
        (
            "\"min_ns\": 10",
            "\"min_ns\": 9",
            "record.json, f, latency, min_ns",
        ),
        (
            "\"max_ns\": 30",
            "\"max_ns\": 32",
            "record.json, f, latency, max_ns",
        ),
        (
            "{\"low\": 10, \"high\": 10}",
            "{\"low\": 10, \"high\": 11}",
            "record.json, f, latency, p50_ns",
        ),
        (
            "\"causes\": []",
            "\"causes\": [\"x\"]",
            "record.json, exit, code",
        ),
        (
            "\"complete\": true",
            "\"complete\": false",
            "record.json, complete",
        ),
        (
            "\"end_ns\": 9",
            "\"end_ns\": 4",
            "record.json, window 1, end_ns",
        ),
    ] {
        let mut files = bundle();
        assert!(RECORD_TEXT.contains(there), "{there}");
        files.insert(RECORD, RECORD_TEXT.replacen(there, instead, 1));
        let wrong = verified(&files).expect("readable").wrong;
        assert!(
            wrong.iter().any(|w| w.starts_with(named)),
            "{named}: {wrong:?}"
        );
    }
}

/// Mangles a file of a bundle that is right, and looks whether that is named in one line.
fn check(file: &'static str, edit: &dyn Fn(&str) -> String, named: &str) {
    let mut files = bundle();
    let mangled = edit(&files[file]);
    files.insert(file, mangled);
    let why = verified(&files).expect_err(named);
    assert!(why.starts_with(named), "{named}: {why}");
    assert!(!why.contains('\n'), "{why}");
}

#[test]
fn mangled_files_are_named_with_line_and_field() {
    let half = |text: &str| text[..text.len() / 2].to_owned();
    check(RECORD, &half, "record.json, line ");
    check(Round::FILE, &half, "rounds.tsv, line ");
    let without = |text: &str| text.replace("\tscenario\t", "\t");
    check(
        RunStats::FILE,
        &without,
        "per-run-stats.tsv, line 1, scenario: the column is missing",
    );
    let more = |text: &str| text.replacen('\n', "\tmore\n", 1);
    check(
        RunStats::FILE,
        &more,
        "per-run-stats.tsv, line 1: there is no column \"more\"",
    );
    let swapped = |text: &str| {
        text.replacen(
            "rounds\tall_mean_ns_per_op",
            "all_mean_ns_per_op\trounds",
            1,
        )
    };
    check(
        RunStats::FILE,
        &swapped,
        "per-run-stats.tsv, line 1, rounds: ",
    );
    let extra = |text: &str| text.trim_end().to_owned() + "\t5\n";
    check(DirectHit::FILE, &extra, "direct-hit.tsv, line 2: 6 fields");
    let short = |text: &str| text.trim_end().trim_end_matches("\t1").to_owned() + "\n";
    check(
        DirectHit::FILE,
        &short,
        "direct-hit.tsv, line 2, required: 4 fields",
    );
    let windows = |text: &str| text.replace('\n', "\r\n");
    check(
        Summary::FILE,
        &windows,
        "matrix-summary.tsv, line 1: it has a carriage return",
    );
    let marked = |text: &str| format!("\u{feff}{text}");
    check(
        Summary::FILE,
        &marked,
        "matrix-summary.tsv, line 1: it begins with a byte order mark",
    );
    let unequal = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.remove(6);
        lines.join("\n") + "\n"
    };
    check(
        Round::FILE,
        &unequal,
        "rounds.tsv, line 19, round: control_a has 3 of",
    );
    check(
        Round::FILE,
        &|_| String::new(),
        "rounds.tsv, line 1: the file is empty",
    );
    let other = |text: &str| text.replace("record-1", "record-9");
    check(RECORD, &other, "record.json, schema: ");
}

#[test]
fn mangled_cells_are_named() {
    let cell = |column: &'static str, value: &'static str| {
        move |text: &str| {
            let mut rows: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
            let place = rows[0]
                .iter()
                .position(|name| *name == column)
                .expect("a column");
            rows[2][place] = value;
            rows.iter()
                .map(|row| row.join("\t") + "\n")
                .collect::<String>()
        }
    };
    for (column, value) in [
        ("elapsed_ns", "NaN"),
        ("elapsed_ns", "-5"),
        ("elapsed_ns", "1e9"),
        ("elapsed_ns", ""),
        ("elapsed_ns", "+7"),
        ("ns_per_op", "inf"),
        ("ns_per_op", "-1.5"),
        ("ns_per_op", "1.23456"),
        ("operations", "0"),
        ("operations", "8"),
        ("round", "7"),
        ("range_bytes", "x"),
        ("checksum", "abc"),
        ("probed", "2"),
        ("scenario", ""),
        ("unexpected_results", "9"),
    ] {
        // The third line is the second scenario's first round: another number of operations
        // is seen in the next one of it.
        let line = if (column, value) == ("operations", "8") {
            5
        } else {
            3
        };
        check(
            Round::FILE,
            &cell(column, value),
            &format!("rounds.tsv, line {line}, {column}: "),
        );
    }
}

#[test]
fn a_folder_without_any_of_them_is_no_bundle() {
    let dir = tempfile::tempdir().expect("a directory");
    let why = Verified::of(dir.path()).expect_err("refused");
    assert!(why.contains("no bundle"), "{why}");
    let why = Verified::of(Path::new("/no/such")).expect_err("refused");
    assert!(why.contains("no such file"), "{why}");
    fs::create_dir(dir.path().join(Round::FILE)).expect("makes");
    let why = Verified::of(dir.path()).expect_err("refused");
    assert!(why.contains("no plain file"), "{why}");
}

#[test]
fn what_the_manifest_does_not_name_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), &bundle());
    fs::write(dir.path().join("more.txt"), "x").expect("writes");
    fs::remove_file(dir.path().join(DirectHit::FILE)).expect("removes");
    let wrong = Verified::of(dir.path()).expect("readable").wrong;
    assert_eq!(
        wrong,
        [
            "direct-hit.tsv: it is in SHA256SUMS and not there",
            "more.txt: it is not in SHA256SUMS"
        ]
    );
}

/// Two gigabytes: run by `cargo xtask test --full`.
#[test]
#[ignore = "it writes 2 GB"]
fn ten_million_rounds_are_read_in_bounded_memory() {
    const ROUNDS: u64 = 10_000_000;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(Round::FILE);
    let mut file = std::io::BufWriter::new(fs::File::create(&path).expect("creates"));
    let mut put =
        |text: &str| std::io::Write::write_all(&mut file, text.as_bytes()).expect("writes");
    put(&(Round::COLUMNS.join("\t") + "\n"));
    let mut round = rounds()[0].clone();
    round.kernel = "7.3.4+deb13-cloud-amd64-with-a-name-that-is-rather-long".to_owned();
    for place in 1..=ROUNDS {
        round.timed.round = place;
        put(&(round.fields().join("\t") + "\n"));
    }
    std::io::Write::flush(&mut file).expect("writes");
    let bytes = fs::metadata(&path).expect("is").len();
    let peak_kib = || -> u64 {
        let status = fs::read_to_string("/proc/self/status").expect("proc");
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let number = line.and_then(|l| l.split_whitespace().next());
        number.expect("a number").parse().expect("a number")
    };
    let before = peak_kib();
    let verified = Verified::of(dir.path()).expect("readable");
    let more = peak_kib() - before;
    println!(
        "{bytes} bytes read with {more} KiB more than before, {} KiB in all",
        peak_kib()
    );
    assert_eq!(verified.wrong, [""; 0]);
    let said = format!(
        "rounds.tsv: {ROUNDS} rounds, {} cells computed again",
        2 * ROUNDS
    );
    assert!(verified.said.contains(&said), "{:?}", verified.said);
    assert!(more < 16 << 10, "{more} KiB for {bytes} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_byte_that_is_changed_is_caught(file in 0..6_usize, place in any::<prop::sample::Index>(), to in any::<u8>()) {
        let dir = tempfile::tempdir().expect("a directory");
        let files = bundle();
        write(dir.path(), &files);
        let (name, text) = files.iter().nth(file).expect("six files");
        let mut bytes = text.as_bytes().to_vec();
        let place = place.index(bytes.len());
        prop_assume!(bytes[place] != to);
        bytes[place] = to;
        fs::write(dir.path().join(name), bytes).expect("writes");
        if let Ok(verified) = Verified::of(dir.path()) {
            let named = format!("{name}: it was changed");
            prop_assert!(verified.wrong.iter().any(|w| w.starts_with(&named)));
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
        let mut table = if head { (Round::COLUMNS.join("\t") + "\n").into_bytes() } else { Vec::new() };
        table.extend(bytes);
        let _ = all::<Round>(&*table);
    }

    #[test]
    fn what_is_written_is_read(elapsed_ns in any::<u32>(), operations in 1..u64::from(u32::MAX)) {
        let mut round = rounds()[0].clone();
        round.timed.elapsed_ns = elapsed_ns.into();
        round.timed.operations = operations;
        round.timed.ns_per_op = Timed::ns_per_op_of(elapsed_ns.into(), operations).expect("small");
        let read = all::<Round>(text(&[round.clone()]).as_bytes());
        prop_assert_eq!(read, Ok(vec![round]));
    }
}
