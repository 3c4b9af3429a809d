//! The command line as a user types it, as far as no probe is needed.

use std::{
    io::Read as _,
    process::{Command, Output, Stdio},
};

fn cowprobe(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cowprobe"));
    command.args(args).stdin(Stdio::null());
    command.output().expect("starts")
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Types wrong words: one line says so, and the status is 2.
fn check_wrong(cases: &[(&[&str], &str)]) {
    for (args, words) in cases {
        let out = cowprobe(args);
        let said = stderr(&out);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(
            said.starts_with("cowprobe: ") && said.contains(words),
            "{args:?}: {said}"
        );
        assert!(out.stdout.is_empty());
    }
}

#[test]
fn wrong_words_get_one_line_and_exit_2() {
    check_wrong(&[
        (&["wach"][..], "unrecognized subcommand 'wach'"),
        (&["run"][..], "CMD"),
        (&["run", "-o"][..], "a value is required"),
        (
            &["check", "--no-such-flag"][..],
            "unexpected argument '--no-such-flag'",
        ),
        (&["watch", "-I", "0"][..], "'0'"),
        (&["watch", "-I", "-5"][..], "'-5'"),
        (&["watch", "-I", "NaN"][..], "'NaN'"),
        (&["watch", "-I", "1e3"][..], "'1e3'"),
        (
            &["watch", "-I", "99999999999999999999999"][..],
            "'99999999999999999999999'",
        ),
        (&["watch", "--duration", "0"][..], "'0'"),
        (&["watch", "--duration", "-1"][..], "'-1'"),
        (&["watch", "--duration", "NaN"][..], "'NaN'"),
        (&["watch", "--duration", "inf"][..], "'inf'"),
        (&["watch", "--duration", "1e300"][..], "'1e300'"),
        (
            &["run", "-o", "r", "--checkpoint", "1e-10", "--", "true"][..],
            "it must be 0.01 to 86400000",
        ),
        (
            &["watch", "--json", "--hist", "f"][..],
            "cannot be used with",
        ),
        (
            &["run", "--probe", "a b", "--", "true"][..],
            "MODULE:SYMBOL",
        ),
        (&["check", "--hook", "uprobe"][..], "'uprobe'"),
        (&["bench", "remap", "/proc"][..], "/proc is not on btrfs"),
        (
            &["bench", "remap", "/no/such/dir"][..],
            "cannot open /no/such/dir",
        ),
    ]);
}

#[test]
fn wrong_words_of_a_benchmark_get_one_line_and_exit_2() {
    check_wrong(&[
        (&["bench", "remap", "-n", "0", "."][..], "invalid value '0'"),
        (
            &["bench", "remap", "--range-bytes", "5000", "."][..],
            "it must be a multiple of 4096",
        ),
        (
            &["bench", "remap", "--rounds", "2", "--prepare", "."][..],
            "cannot be used with",
        ),
        (
            &["bench", "remap", "--prepare", "--prepared", "."][..],
            "cannot be used with",
        ),
        (
            &["bench", "remap", "--control", "fifo:c,a", "."][..],
            "--rounds <N>",
        ),
        (
            &[
                "bench",
                "remap",
                "--rounds",
                "1",
                "--tsv",
                "t",
                "--control",
                "fifo:c,a",
                ".",
            ][..],
            "times under probes are no evidence; ask for them with --probed-times",
        ),
        (
            &[
                "bench",
                "remap",
                "--rounds",
                "1",
                "--control",
                "fifo:c",
                ".",
            ][..],
            "name ACK",
        ),
        (
            &["bench", "remap", "--cpu", "99999", "."][..],
            "cannot stay on CPU 99999; /sys/devices/system/cpu/online",
        ),
        (
            &["bench", "remap", "--device", "ram0"][..],
            "write /dev/ramN, /dev/zramN or new:SIZE",
        ),
        (
            &["bench", "remap", "--device", "/dev/null"][..],
            "/dev/null is no block device",
        ),
        (
            &["bench", "remap", "--device", "new:1M"][..],
            "the new file has 1048576 bytes",
        ),
        (
            &["bench", "remap", "--device", "new:1M", "."][..],
            "cannot be used with",
        ),
        (&["bench", "remap"][..], "DIR"),
    ]);
}

#[test]
fn wrong_words_of_a_run_get_one_line_and_exit_2() {
    check_wrong(&[
        (&["run", "--bench", "--", "nothing", "."][..], "--bench: "),
        (
            &["run", "--bench", "--", "remap", "--tsv", "t", "."][..],
            "--bench: leave out --tsv",
        ),
        (
            &[
                "run",
                "--bench",
                "--",
                "remap",
                "--control",
                "fifo:c,a",
                ".",
            ][..],
            "--bench: leave out --control",
        ),
        (
            &["run", "--bench", "--", "remap", "--probed-times", "."][..],
            "write --probed-times before the words",
        ),
        (
            &["run", "--bench", "-D", "5", "--", "remap", "."][..],
            "cannot be used with",
        ),
        (&["run", "--probed-times", "--", "true"][..], "--bench"),
        (&["run", "--label", "a", "--", "true"][..], "--bundle"),
        (
            &["run", "--bundle", "/no/such/dir", "--", "true"][..],
            "cannot make the folder /no/such/dir: no such file",
        ),
        (
            &["run", "--bundle", ".", "--", "true"][..],
            "it has no name of its own",
        ),
        (
            &["run", "--bundle", "b", "--label", "a b", "--", "true"][..],
            "invalid value 'a b'",
        ),
        (
            &[
                "run",
                "--bundle",
                "b",
                "--identity",
                "/no/such",
                "--",
                "true",
            ][..],
            "cannot read /no/such: no such file",
        ),
    ]);
}

#[test]
fn an_unwritable_output_stops_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let mark = dir.path().join("mark");
    let mark = mark.to_str().expect("UTF-8");
    let out = cowprobe(&["run", "-o", "/no/such/dir/r.json", "--", "touch", mark]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).starts_with("cowprobe: cannot write /no/such/dir/r.json"));
    assert!(!std::path::Path::new(mark).exists());
}

/// The help of a command and of all below it.
fn helps(words: &[&str], all: &mut Vec<String>) {
    let out = cowprobe(&[words, &["--help"]].concat());
    assert_eq!(out.status.code(), Some(0), "{words:?}");
    assert!(out.stderr.is_empty(), "{words:?}: {}", stderr(&out));
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    let commands = text
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest);
    for line in commands.lines().take_while(|line| !line.is_empty()) {
        // What goes on in the next line is deeper.
        let name = line.strip_prefix("  ").and_then(|l| l.split(' ').next());
        if let Some(name) = name.filter(|name| !name.is_empty() && *name != "help") {
            helps(&[words, &[name]].concat(), all);
        }
    }
    all.push(text);
}

#[test]
fn every_help_fits_80_columns() {
    let mut all = Vec::new();
    helps(&[], &mut all);
    assert!(all.len() >= 8, "{}", all.len());
    for text in all {
        let wide: Vec<_> = text.lines().filter(|l| l.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }
}

#[test]
fn the_version_goes_to_standard_output() {
    let out = cowprobe(&["--version"]);
    assert_eq!(out.status.code(), Some(0));
    assert!(out.stderr.is_empty() && out.stdout.starts_with(b"cowprobe "));
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cowprobe"));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.arg("--help").stdout(writer).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut said = String::new();
    let stream = child.stderr.as_mut().expect("piped");
    stream.read_to_string(&mut said).expect("reads");
    assert_eq!(child.wait().expect("ends").code(), Some(0), "{said}");
}

#[test]
fn verify_says_what_follows_and_what_does_not() {
    let public = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/public");
    let out = cowprobe(&["verify", public]);
    assert_eq!(out.status.code(), Some(0));
    let golden = include_str!("golden/verify-public.txt");
    assert_eq!(String::from_utf8(out.stdout).expect("UTF-8"), golden);
    let dir = tempfile::tempdir().expect("a directory");
    let (name, here) = ("control-sandwich.tsv", dir.path());
    let text = std::fs::read_to_string(format!("{public}/{name}")).expect("reads");
    std::fs::write(here.join(name), text.replace("-26.986", "-26.987")).expect("writes");
    let here = here.to_str().expect("UTF-8");
    let out = cowprobe(&["verify", here]);
    assert_eq!(out.status.code(), Some(1));
    let words = "control-sandwich.tsv, line 2, v2_vs_control_midpoint_pct: -26.987, but";
    assert!(stderr(&out).contains(words), "{}", stderr(&out));
    std::fs::write(dir.path().join(name), "scope\r\n").expect("writes");
    let out = cowprobe(&["verify", here]);
    assert_eq!(out.status.code(), Some(2));
    let line = "cowprobe: control-sandwich.tsv, line 1: it has a carriage return";
    assert!(stderr(&out).starts_with(line), "{}", stderr(&out));
}

/// Compares what was printed with a golden file; `UPDATE=1` writes it anew.
fn assert_golden(name: &str, out: &Output) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = String::from_utf8(out.stdout.clone()).expect("UTF-8");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("writes the golden file");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{name} differs; UPDATE=1 accepts it");
}

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/record.json");
const PUBLIC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/public");

#[test]
fn a_report_has_four_forms() {
    for (format, name) in [
        ("mail", "report-record.txt"),
        ("markdown", "report-record.md"),
        ("tsv", "report-record.tsv"),
        ("json", "report-record.json"),
    ] {
        let who = "Ada Example <ada@example.org>";
        let out = cowprobe(&["report", RECORD, "--format", format, "--tested-by", who]);
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        assert_golden(name, &out);
        let said = String::from_utf8_lossy(&out.stdout).contains(who);
        assert_eq!(said, format != "tsv", "{format}");
    }
}

#[test]
fn the_public_figures_come_out_to_the_digit() {
    let out = cowprobe(&["report", PUBLIC]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert_golden("report-public.txt", &out);
    let mail = String::from_utf8_lossy(&out.stdout).into_owned();
    // Of the mail that they were published with.
    for figure in [
        "2000", "7473", "2033", "2943.790", "2159.123", "2970.446", "-26.986%", "3535.456",
        "2762.835", "3546.942", "-21.980%", "0.905%", "0.325%", "-27.178%", "-22.128%",
    ] {
        assert!(mail.contains(figure), "{figure}");
    }
}

#[test]
fn there_is_no_tested_by_where_a_gate_failed() {
    let who = "Ada Example <ada@example.org>";
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("record.json");
    let good = std::fs::read_to_string(RECORD).expect("reads");
    let check = |change: &dyn Fn(&mut serde_json::Value), words: &str| {
        let mut record = serde_json::from_str(&good).expect("JSON");
        change(&mut record);
        std::fs::write(&path, record.to_string()).expect("writes");
        let path = path.to_str().expect("UTF-8");
        let out = cowprobe(&["report", path, "--tested-by", who]);
        assert_eq!(out.status.code(), Some(1), "{words}");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(!text.contains("Tested-by"), "{text}");
        assert!(text.contains("\nFailed\n"), "{text}");
        assert!(stderr(&out).contains(words), "{}", stderr(&out));
    };
    let gate = "expected remap==41: counted 40: failed";
    check(
        &|r| r["exit"] = serde_json::json!({"code": 1, "causes": [gate]}),
        gate,
    );
    check(&|r| r["targets"][0]["calls"] = 41.into(), "calls: 41, but");
    check(
        &|r| r["targets"][0]["verdict"] = "INEXACT".into(),
        "verdict: INEXACT, but",
    );
    check(
        &|r| (r["complete"], r["exit"]) = (false.into(), serde_json::Value::Null),
        "checkpoint",
    );
    // Tables alone do not tell whether calls were missed.
    let out = cowprobe(&["report", PUBLIC, "--tested-by", who]);
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    assert!(!String::from_utf8_lossy(&out.stdout).contains("Tested-by"));
    std::fs::write(&path, &good[..good.len() / 2]).expect("writes");
    let out = cowprobe(&["report", path.to_str().expect("UTF-8")]);
    assert_eq!(out.status.code(), Some(2));
    assert!(out.stdout.is_empty());
    let said = stderr(&out);
    assert!(
        said.lines().count() == 1 && said.contains("record.json, line "),
        "{said}"
    );
    for wrong in ["Ada", "Ada <ada>"] {
        let out = cowprobe(&["report", RECORD, "--tested-by", wrong]);
        assert_eq!(out.status.code(), Some(2), "{wrong}");
    }
}
