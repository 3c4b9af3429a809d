//! What is changed in a bundle is named.

use std::fs;

use proptest::prelude::*;

use super::{
    super::{
        folder::RECORD,
        tables::{DirectHit, Round, RunStats, Summary},
        tsv::Row,
        verified::Verified,
    },
    ControlSandwich, RECORD_TEXT, bundle, verified, write,
};

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
}
