//! A folder that is being made.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use super::{
    super::{
        draft::{Draft, read_timed},
        folder::RECORD,
        manifest::{MANIFEST, manifest, sha256_of},
        tables::Timed,
        tsv::text,
        verified::Verified,
    },
    RECORD_TEXT, rounds,
};

const RELEASE: &str = "7.3.4";

/// A record that has when it began, and builds.
fn record() -> String {
    let identity = r#""release": "7.3.4""#;
    assert!(RECORD_TEXT.contains(identity));
    RECORD_TEXT
        .replacen(
            identity,
            r#""release": "7.3.4", "preemption": "lazy", "build": {"kernel_build_id": "ab12"}"#,
            1,
        )
        .replacen(
            "\"complete\"",
            "\"started_at\": \"2026-11-30T10:00:00Z\", \"complete\"",
            1,
        )
}

/// The rounds of one kernel, one of them under probes.
fn timed() -> Vec<Timed> {
    let of_one = rounds()
        .into_iter()
        .filter(|round| round.target_id == "control_a");
    of_one.map(|round| round.timed).collect()
}

fn made(timed: &[Timed]) -> tempfile::TempDir {
    let around = tempfile::tempdir().expect("a directory");
    let place = around.path().join("run");
    let draft = Draft::begin(&place, "patched", None, RELEASE).expect("begins");
    fs::write(draft.path("stdout.txt"), "printed").expect("writes");
    assert!(!place.exists());
    draft.commit(&record(), timed).expect("commits");
    around
}

fn names(dir: &Path) -> Vec<String> {
    let each = fs::read_dir(dir).expect("reads");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = each.map(|entry| name(entry.expect("reads"))).collect();
    names.sort();
    names
}

#[test]
fn a_folder_is_complete_and_follows() {
    let around = made(&timed());
    assert_eq!(names(around.path()), ["run"]);
    let dir = around.path().join("run");
    let all = [
        "SHA256SUMS",
        "direct-hit.tsv",
        "matrix-summary.tsv",
        "per-run-stats.tsv",
        "record.json",
        "rounds.tsv",
        "source-identity.tsv",
        "stdout.txt",
    ];
    assert_eq!(names(&dir), all);
    let verified = Verified::of(&dir).expect("readable");
    assert_eq!(verified.wrong, [""; 0]);
    let summary = fs::read_to_string(dir.join("matrix-summary.tsv")).expect("reads");
    assert!(
        summary.contains("\n0\tpatched\ttested\t7.3.4\t2026-11-30T10:00:00Z\t6\t"),
        "{summary}"
    );
}

#[test]
fn without_times_there_are_no_means() {
    let probed: Vec<_> = timed().into_iter().filter(|timed| timed.probed).collect();
    for (timed, there) in [(&[][..], false), (&probed, true)] {
        let around = made(timed);
        let names = names(&around.path().join("run"));
        let has = |name: &str| names.iter().any(|other| other == name);
        assert_eq!(has("rounds.tsv"), there, "{names:?}");
        assert!(!has("matrix-summary.tsv"), "{names:?}");
    }
}

/// Changes what a file says, and the manifest with it.
fn changed(name: &str, there: &str, instead: &str) -> Vec<String> {
    let around = made(&timed());
    let dir = around.path().join("run");
    let before = fs::read_to_string(dir.join(name)).expect("reads");
    assert!(before.contains(there), "{there}: {before}");
    fs::write(dir.join(name), before.replacen(there, instead, 1)).expect("writes");
    fs::remove_file(dir.join(MANIFEST)).expect("removes");
    let hashes = names(&dir).into_iter().map(|name| {
        let hash = sha256_of(&fs::read(dir.join(&name)).expect("reads"));
        (name, hash)
    });
    let text = manifest(&hashes.collect());
    fs::write(dir.join(MANIFEST), text).expect("writes");
    Verified::of(&dir).expect("readable").wrong
}

#[test]
fn what_a_run_says_of_itself_is_compared_with_its_record() {
    let identity = "source-identity.tsv";
    let summary = "matrix-summary.tsv";
    for (file, there, instead, named) in [
        (
            identity,
            "\t7.3.4",
            "\t7.3.5",
            "source-identity.tsv, line 2, value: ",
        ),
        (
            identity,
            "\tab12",
            "\tab13",
            "source-identity.tsv, line 3, value: ",
        ),
        (
            identity,
            "\tlazy",
            "\tfull",
            "source-identity.tsv, line 4, value: ",
        ),
        (
            identity,
            "running_preemption",
            "running_x",
            "source-identity.tsv, line 4, field: ",
        ),
        (
            identity,
            "running_kernel_build_id\tab12\n",
            "",
            "source-identity.tsv: 0 rows for running_kernel_build_id",
        ),
        (
            summary,
            "10:00:00Z",
            "10:00:01Z",
            "matrix-summary.tsv, line 2, run_timestamp_utc: ",
        ),
        (
            summary,
            "7.3.4",
            "7.3.5",
            "matrix-summary.tsv, line 2, kernel: ",
        ),
        (
            summary,
            "PASS",
            "FAIL",
            "matrix-summary.tsv, line 2, direct_hit: ",
        ),
        (
            RECORD,
            "\"7.3.4\"",
            "\"7.3.5\"",
            "rounds.tsv, line 2, kernel: ",
        ),
    ] {
        let wrong = changed(file, there, instead);
        assert!(
            wrong.iter().any(|w| w.starts_with(named)),
            "{named}: {wrong:?}"
        );
    }
}

#[test]
fn a_draft_that_is_dropped_leaves_nothing() {
    let around = tempfile::tempdir().expect("a directory");
    let place = around.path().join("run");
    drop(Draft::begin(&place, "run", None, RELEASE).expect("begins"));
    assert!(names(around.path()).is_empty());
    let draft = Draft::begin(&place, "run", None, RELEASE).expect("begins");
    let why = draft.commit("{", &[]).expect_err("half a record");
    assert!(
        format!("{why:#}").contains("record.json, line 1"),
        "{why:#}"
    );
    assert!(names(around.path()).is_empty());
}

#[test]
fn a_place_that_is_taken_is_refused() {
    let around = tempfile::tempdir().expect("a directory");
    let at = |name: &str| around.path().join(name);
    fs::create_dir(at("full")).expect("makes");
    fs::write(at("full/mine"), "mine").expect("writes");
    std::os::unix::fs::symlink("nowhere", at("dangling")).expect("links");
    for (place, words) in [
        (at("full"), "it is there, and not empty"),
        (at("full/mine"), "it is there, and no folder"),
        (at("full/mine/under"), "not a directory"),
        (at("dangling"), "no such file"),
        (at("no/such"), "no such file"),
        (at(".."), "no name of its own"),
    ] {
        let why = Draft::begin(&place, "run", None, RELEASE).expect_err("refused");
        assert!(
            why.to_string().contains(words),
            "{}: {why}",
            place.display()
        );
    }
    assert_eq!(names(&at("full")), ["mine"]);
}

#[test]
fn an_empty_folder_lends_its_mode_and_a_link_stays() {
    let around = tempfile::tempdir().expect("a directory");
    let (place, link) = (around.path().join("run"), around.path().join("link"));
    fs::create_dir(&place).expect("makes");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o750)).expect("sets");
    std::os::unix::fs::symlink("run", &link).expect("links");
    let draft = Draft::begin(&link, "run", None, RELEASE).expect("begins");
    draft.commit(&record(), &timed()).expect("commits");
    assert!(link.is_symlink());
    let mode = fs::metadata(&place).expect("is").permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    assert_eq!(Verified::of(&link).expect("readable").wrong, [""; 0]);
}

#[test]
fn a_testers_file_is_read_strictly() {
    let around = tempfile::tempdir().expect("a directory");
    let file = around.path().join("tester.tsv");
    let begin = |lines: &str| {
        fs::write(&file, format!("field\tvalue\n{lines}")).expect("writes");
        Draft::begin(&around.path().join("run"), "run", Some(&file), RELEASE)
    };
    for (lines, words) in [
        (
            "a_kernelrelease\t7.0\n",
            "none of its kernelreleases is 7.3.4",
        ),
        ("running_x\t1\n", "running_x is for cowprobe to say"),
        ("a\tb\tc\n", "line 2: 3 fields"),
        ("a\r\n", "carriage return"),
    ] {
        let why = begin(lines).expect_err("refused");
        let why = format!("{why:#}");
        assert!(
            why.contains(words) && why.starts_with("--identity "),
            "{why}"
        );
    }
    let both = "a_kernelrelease\t7.0\nb_kernelrelease\t7.3.4\n";
    begin(both).expect("one of them runs");
    let none = around.path().join("none");
    let why = Draft::begin(&around.path().join("run"), "run", Some(&none), RELEASE);
    let why = why.expect_err("refused").to_string();
    assert!(why.contains("no such file"), "{why}");
}

#[test]
fn the_rounds_of_a_benchmark_are_read_back() {
    let around = tempfile::tempdir().expect("a directory");
    let file = around.path().join("rounds.tsv");
    fs::write(&file, text(&timed())).expect("writes");
    assert_eq!(read_timed(&file).expect("readable"), timed());
    fs::write(&file, "scenario\n").expect("writes");
    read_timed(&file).expect_err("a column is missing");
}
