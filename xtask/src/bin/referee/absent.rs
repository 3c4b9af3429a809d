//! A kernel that has `btrfs_remap_file_range` alone.

use anyhow::ensure;

use super::{
    FUNCTIONS,
    bpftrace::Bpftrace,
    cowprobe::{RECORD, calls_and_missed, cowprobe, record},
    filesystem::{self, Load},
    kprobe_profile, others, privileges,
    referees::Reading,
    report::Report,
};

const HERE: [&str; 1] = [FUNCTIONS[0]];

type Check = (&'static str, fn() -> anyhow::Result<String>);

const CHECKS: &[Check] = &[
    ("check says what is absent", check),
    ("privileges are given up", privileges::given_up),
    ("remap is counted, the absent are named", count),
];

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CHECKS.len());
    for (name, check) in CHECKS {
        report.check(name, check());
    }
    filesystem::unmount()
}

fn check() -> anyhow::Result<String> {
    let ran = cowprobe(&["check"])?;
    ran.expect(1)?;
    ensure!(
        ran.stdout.contains("\ninhibition    none\n"),
        "{}",
        ran.stdout
    );
    for (function, words) in FUNCTIONS.into_iter().zip(["yes", "no", "no"]) {
        let row = ran
            .stdout
            .lines()
            .find(|l| l.starts_with(&format!("{function} ")));
        ensure!(row.is_some_and(|r| r.ends_with(words)), "{}", ran.stdout);
    }
    Ok("inhibition none, two absent".to_owned())
}

fn count() -> anyhow::Result<String> {
    let _bpftrace = Bpftrace::start(&HERE)?;
    kprobe_profile::start(&HERE)?;
    filesystem::fresh(Load {
        tasks: 1,
        operations: 1000,
    })?;
    let before = Reading::quiet(&HERE)?;
    let dir = filesystem::directory(0);
    let ran = cowprobe(&[
        "run",
        "-o",
        RECORD,
        "--",
        "cowprobe",
        "bench",
        "remap",
        "--prepared",
        &dir,
    ])?;
    let after = Reading::quiet(&HERE)?;
    ran.expect(1)?;
    ensure!(
        ran.stdout.contains("dedupe: 1000 of 1000 as expected"),
        "{}",
        ran.stdout
    );
    for function in &FUNCTIONS[1..] {
        let line = format!("required target {function} is absent from this kernel");
        ensure!(ran.stderr.contains(&line), "{}", ran.stderr);
    }
    ensure!(
        ran.stderr.matches("required target").count() == 2,
        "{}",
        ran.stderr
    );
    ensure!(!ran.stderr.contains("unloaded"), "{}", ran.stderr);
    let record = record()?;
    let ours = calls_and_missed(&record, &HERE)?;
    ensure!(
        ours == [2000]
            && after.kprobe_profile[0] - before.kprobe_profile[0] == 2000
            && after.bpftrace[0] - before.bpftrace[0] == 2000,
        "ours {ours:?}, referees {before:?} to {after:?}"
    );
    others::is_fentry_alone(&record["targets"][0])?;
    for target in record["targets"].as_array().into_iter().flatten().skip(1) {
        ensure!(
            target["available"] == false && target["calls"].is_null(),
            "{target}"
        );
    }
    Ok("2000 three times; exit 1".to_owned())
}
