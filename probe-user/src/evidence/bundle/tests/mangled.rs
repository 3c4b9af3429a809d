//! Files that cannot be read.

use std::{fs, path::Path};

use proptest::prelude::*;

use super::{
    super::{
        folder::RECORD,
        tables::{DirectHit, Round, RunStats, Summary, Timed},
        tsv::{Row, all, text},
        verified::Verified,
    },
    bundle, rounds, verified,
};

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

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
