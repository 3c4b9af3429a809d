//! A kernel that has `btrfs_remap_file_range` alone, and perhaps does not tell what its
//! probes miss.

use anyhow::{Context as _, ensure};

use super::{
    FUNCTIONS,
    bpftrace::Bpftrace,
    cowprobe::{RECORD, cowprobe, record},
    filesystem::{self, Load},
    interrupts, kprobe_profile, others, privileges,
    referees::Reading,
    report::Report,
    verdicts,
};

const HERE: [&str; 1] = [FUNCTIONS[0]];

type Check = (&'static str, fn(bool) -> anyhow::Result<String>);

const CHECKS: &[Check] = &[
    ("check says what is absent", check),
    ("remap is counted, the absent are named", count),
];

/// `told`: whether this kernel tells what probes miss.
pub(crate) fn run(report: &mut Report, told: bool) -> anyhow::Result<()> {
    let more = if told { 1 } else { verdicts::UNTOLD_CHECKS };
    report.plan(CHECKS.len() + 1 + more);
    for (name, check) in CHECKS {
        report.check(name, check(told));
    }
    report.check("in an interrupt", interrupts::check(1));
    if told {
        // Wants a verdict of EXACT.
        report.check("privileges are given up", privileges::given_up());
    } else {
        verdicts::run_untold(report)?;
    }
    filesystem::unmount()
}

fn check(told: bool) -> anyhow::Result<String> {
    let ran = cowprobe(&["check"])?;
    ran.expect(1)?;
    let misses = if told {
        "told by the kernel, so counts are proven"
    } else {
        "not told by this kernel, so counts are unproven"
    };
    for (name, value) in [("inhibition", "none"), ("misses", misses)] {
        let line = ran.stdout.lines().find(|l| l.starts_with(name));
        let said = line.is_some_and(|l| l[name.len()..].trim() == value);
        ensure!(said, "{}", ran.stdout);
    }
    for (function, words) in FUNCTIONS.into_iter().zip(["yes", "no", "no"]) {
        let row = ran
            .stdout
            .lines()
            .find(|l| l.starts_with(&format!("{function} ")));
        ensure!(row.is_some_and(|r| r.ends_with(words)), "{}", ran.stdout);
    }
    Ok("inhibition none, two absent".to_owned())
}

fn count(told: bool) -> anyhow::Result<String> {
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
    let remap = &record["targets"][0];
    let calls = remap["calls"].as_u64().context("no calls")?;
    // What is not told is no number: then a miss would show as one that is not counted.
    let missed = ["missed", "recursion_misses"].map(|name| remap[name].as_u64());
    ensure!(missed.iter().all(|n| n.is_some() == told), "{remap}");
    let ours = calls + missed.iter().flatten().sum::<u64>();
    let verdict = match missed {
        [None, None] => "UNPROVEN",
        [Some(0), Some(0)] => "EXACT",
        _ => "INEXACT",
    };
    ensure!(remap["calls_verdict"] == verdict, "{remap}");
    ensure!(
        ours == 2000
            && after.kprobe_profile[0] - before.kprobe_profile[0] == 2000
            && after.bpftrace[0] - before.bpftrace[0] == 2000,
        "ours {ours}, referees {before:?} to {after:?}"
    );
    others::is_fentry_alone(&record["targets"][0])?;
    for target in record["targets"].as_array().into_iter().flatten().skip(1) {
        ensure!(
            target["available"] == false && target["calls"].is_null(),
            "{target}"
        );
    }
    Ok(format!("2000 three times, {verdict}; exit 1"))
}
