//! `cowprobe bench remap`, whose rounds are computed again here.

use std::{fs, os::unix::fs::FileExt as _};

use anyhow::{Context as _, ensure};

use super::{
    cowprobe::{RECORD, cowprobe, missed, record, status},
    filesystem::{self, Load, MOUNT, sh},
    report::{Check, Report},
};

const CHECKS: &[Check] = &[
    ("rounds", rounds),
    ("longer ranges", longer),
    ("every operation is a call", counted),
    ("a result that is not as expected", unexpected),
];

const TSV: &str = "/tmp/rounds.tsv";
const HEAD: &str = "scenario\tround\toperations\trange_bytes\telapsed_ns\tns_per_op\texpected_match_ratio\tunexpected_results\tchecksum";

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CHECKS.len());
    filesystem::fresh(Load {
        tasks: 0,
        operations: 0,
    })?;
    report.run(CHECKS);
    filesystem::unmount()
}

/// Runs three rounds, and returns the fields of each row of its table.
fn rows(more: &[&str]) -> anyhow::Result<Vec<Vec<String>>> {
    let args = ["bench", "remap", "--rounds", "3", "-n", "200", "--tsv", TSV];
    let ran = cowprobe(&[&args, more, &[MOUNT]].concat())?;
    ran.expect(0)?;
    let left = sh("ls", &["-A", MOUNT])?;
    ensure!(left.is_empty(), "left behind: {left}");
    let table = fs::read_to_string(TSV)?;
    let mut lines = table.lines();
    ensure!(lines.next() == Some(HEAD), "{table}");
    Ok(lines
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect())
}

fn rounds() -> anyhow::Result<String> {
    let rows = rows(&[])?;
    ensure!(rows.len() == 6, "{rows:?}");
    let scenarios = ["ficlonerange_4k_pages", "fidedupe_4k_pages"];
    for (place, row) in rows.iter().enumerate() {
        let [
            scenario,
            round,
            operations,
            bytes,
            elapsed,
            each,
            ratio,
            wrong,
            checksum,
        ] = &row[..]
        else {
            anyhow::bail!("{row:?}");
        };
        ensure!(scenario == scenarios[place % 2], "{row:?}");
        ensure!(*round == (place / 2 + 1).to_string(), "{row:?}");
        ensure!(operations == "200" && bytes == "4096", "{row:?}");
        ensure!(ratio == "100" && wrong == "0", "{row:?}");
        // 200 operations: a thousandth of one is a fifth of a ns.
        let elapsed: u64 = elapsed.parse()?;
        let thousandths = elapsed * 5;
        let follows = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        ensure!(elapsed > 0 && *each == follows, "{follows}: {row:?}");
        // Both are copies of one file.
        ensure!(checksum.len() == 64 && *checksum == rows[0][8], "{row:?}");
    }
    Ok(format!("{} rows follow", rows.len()))
}

fn longer() -> anyhow::Result<String> {
    let rows = rows(&["--range-bytes", "16384", "--operation", "clone"])?;
    ensure!(rows.len() == 3, "{rows:?}");
    let all = rows
        .iter()
        .all(|row| row[0] == "ficlonerange_16k_pages" && row[3] == "16384" && row[6] == "100");
    ensure!(all, "{rows:?}");
    Ok(rows[0][0].clone())
}

fn counted() -> anyhow::Result<String> {
    let bench = ["bench", "remap", "--rounds", "2", "-n", "100", MOUNT];
    let run = ["run", "-o", RECORD, "--", "cowprobe"];
    let ran = cowprobe(&[&run[..], &bench].concat())?;
    let record = record()?;
    ran.expect(status(&missed(&record)))?;
    let remap = &record["targets"][0];
    let calls = remap["calls"].as_u64().context("no calls")? + missed(&record)[0];
    ensure!(calls == 400, "{remap}");
    Ok("400".to_owned())
}

fn unexpected() -> anyhow::Result<String> {
    let bench = |how: &'static str| cowprobe(&["bench", "remap", "-n", "50", how, MOUNT]);
    bench("--prepare")?.expect(0)?;
    let path = format!("{MOUNT}/cowprobe-remap.dedupe");
    let file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all_at(b"other", 7 * 4096 + 100)?;
    let ran = bench("--prepared")?;
    ran.expect(1)?;
    for words in [
        "clone: 50 of 50 as expected",
        "dedupe: 49 of 50 as expected",
        "dedupe: first unexpected: range 7: the contents differ",
    ] {
        ensure!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    Ok(ran.stdout)
}
