//! The folder that a run leaves as evidence: made by one command, computed again, and never
//! there by half.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::{
    cowprobe::{Ran, cowprobe, document, missed, status},
    filesystem::{MOUNT, sh},
    report::Check,
};

pub(crate) const CHECKS: &[Check] = &[
    ("one command makes evidence that verify passes", one_command),
    ("times under probes are marked", probed_times),
    ("a run without a benchmark", without_bench),
    ("a changed byte is named", changed_byte),
    ("a timed pass that fails", untimed),
    ("a folder that is there is left alone", there),
    ("a folder that cannot be written", unwritable),
    ("a full disk", full_disk),
    ("kill -9 at any point", killed),
];

const DIR: &str = "/tmp/folder";
const IDENTITY: &str = "/tmp/identity.tsv";

/// Runs cowprobe with a new folder; returns the folder's record.
fn run(dir: &str, words: &[&str]) -> anyhow::Result<(Ran, Value)> {
    remove(dir)?;
    let ran = cowprobe(&[&["run", "--bundle", dir][..], words].concat())?;
    let record = fs::read_to_string(format!("{dir}/record.json"));
    let record = record.with_context(|| format!("no record: {}", ran.stderr))?;
    let record = document(&record)?;
    ran.expect(status(&missed(&record)))?;
    Ok((ran, record))
}

fn remove(dir: &str) -> anyhow::Result<()> {
    sh("rm", &["-rf", dir]).map(|_| ())
}

/// What `verify` says of a folder that follows.
fn verified(dir: &str) -> anyhow::Result<String> {
    let ran = cowprobe(&["verify", dir])?;
    ran.expect(0)?;
    ensure!(ran.stderr.is_empty(), "{}", ran.stderr);
    // The referee's own program for the sums.
    sh(
        "sh",
        &[
            "-c",
            &format!("cd {dir} && sha256sum -c --quiet SHA256SUMS"),
        ],
    )?;
    Ok(ran.stdout)
}

fn rows(dir: &str, name: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let table = fs::read_to_string(format!("{dir}/{name}")).with_context(|| name.to_owned())?;
    let rows = table.lines().skip(1);
    Ok(rows
        .map(|row| row.split('\t').map(str::to_owned).collect())
        .collect())
}

fn one_command() -> anyhow::Result<String> {
    let release = sh("uname", &["-r"])?.trim_end().to_owned();
    let tester = format!("field\tvalue\npatch_sha256\tabc\ntested_kernelrelease\t{release}\n");
    fs::write(IDENTITY, tester)?;
    let words = [
        "--bench",
        "--identity",
        IDENTITY,
        "--label",
        "patched",
        "--",
    ];
    let bench = ["remap", "--rounds", "3", "-n", "200", MOUNT];
    let (ran, record) = run(DIR, &[&words[..], &bench].concat())?;
    let said = verified(DIR)?;
    let names = sh("ls", &["-A", DIR])?;
    let names: Vec<_> = names.lines().collect();
    ensure!(
        names
            == [
                "SHA256SUMS",
                "direct-hit.tsv",
                "matrix-summary.tsv",
                "per-run-stats.tsv",
                "record.json",
                "rounds.tsv",
                "source-identity.tsv",
                "stderr.txt",
                "stdout.txt",
            ],
        "{names:?}"
    );
    let calls = &record["targets"][0]["calls"];
    let both = calls.as_u64().context("no calls")? + missed(&record)[0];
    ensure!(both == 1200, "{calls}");
    ensure!(record["windows"].as_array().map(Vec::len) == Some(6));
    ensure!(record["filesystems"][0]["mount_point"] == MOUNT, "{record}");
    let rounds = rows(DIR, "rounds.tsv")?;
    ensure!(rounds.len() == 6, "{rounds:?}");
    for row in &rounds {
        ensure!(row[0] == "patched" && row[1] == release, "{row:?}");
        ensure!(row.last().is_some_and(|probed| probed == "0"), "{row:?}");
    }
    // Six loops of 200: the mean of a scenario, computed here from its three times.
    for row in rows(DIR, "per-run-stats.tsv")? {
        let of = rounds.iter().filter(|round| round[2] == row[2]);
        let times: Vec<u64> = of.map(|round| round[6].parse()).collect::<Result<_, _>>()?;
        let thousandths = (times.iter().sum::<u64>() * 1000 + 300) / 600;
        let mean = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        ensure!(times.len() == 3 && row[4] == mean, "{mean}: {row:?}");
    }
    let [point] = &rows(DIR, "matrix-summary.tsv")?[..] else {
        bail!("not one point");
    };
    let at = record["started_at"].as_str().context("no time")?;
    let of_a_run = ["0", "patched", "tested", &release, at, "6", "100", "0"];
    ensure!(point[..8] == of_a_run, "{point:?}");
    ensure!(point[8] == "PASS", "{point:?}");
    let identity = fs::read_to_string(format!("{DIR}/source-identity.tsv"))?;
    for row in [
        "patch_sha256\tabc".to_owned(),
        format!("running_kernelrelease\t{release}"),
    ] {
        ensure!(identity.lines().any(|line| line == row), "{identity}");
    }
    ensure!(fs::read_to_string(format!("{DIR}/stdout.txt"))? == ran.stdout);
    for words in ["ns/op, 3 rounds", "counted, 3 rounds"] {
        ensure!(ran.stdout.contains(words), "{}", ran.stdout);
    }
    let report = cowprobe(&["report", DIR, "--format", "json"])?;
    document(&report.stdout)?;
    let mail = cowprobe(&[
        "report",
        DIR,
        "--tested-by",
        "Ada Example <ada@example.org>",
    ])?;
    mail.expect(ran.code.unwrap_or(2))?;
    Ok(said + &mail.stdout)
}

fn probed_times() -> anyhow::Result<String> {
    let words = ["--bench", "--probed-times", "--", "remap", "--rounds", "3"];
    run(DIR, &[&words[..], &["-n", "100", MOUNT]].concat())?;
    let said = verified(DIR)?;
    let rounds = rows(DIR, "rounds.tsv")?;
    let marked = rounds.iter().filter(|row| row[11] == "1").count();
    ensure!(rounds.len() == 12 && marked == 6, "{rounds:?}");
    for row in rows(DIR, "per-run-stats.tsv")? {
        ensure!(row[3] == "3", "{row:?}");
    }
    Ok(said)
}

fn without_bench() -> anyhow::Result<String> {
    let words = ["--", "sh", "-c"];
    let script = format!("cowprobe bench remap -n 50 {MOUNT}; echo to stderr >&2");
    let (ran, record) = run(DIR, &[&words[..], &[&script]].concat())?;
    let said = verified(DIR)?;
    ensure!(!Path::new(DIR).join("rounds.tsv").exists(), "rounds");
    let calls = &record["targets"][0]["calls"];
    ensure!(calls.as_u64() == Some(100 - missed(&record)[0]), "{calls}");
    let [hit, ..] = &rows(DIR, "direct-hit.tsv")?[..] else {
        bail!("no hits");
    };
    ensure!(hit[3].parse().ok() == calls.as_u64(), "{hit:?}");
    let printed = ["stdout.txt", "stderr.txt"]
        .map(|name| fs::read_to_string(format!("{DIR}/{name}")).unwrap_or_default());
    ensure!(printed[0] == ran.stdout, "{printed:?}");
    ensure!(printed[1] == "to stderr\n", "{printed:?}");
    ensure!(ran.stderr.starts_with("to stderr\n"), "{}", ran.stderr);
    Ok(said)
}

/// After a byte of each file.
fn changed_byte() -> anyhow::Result<String> {
    let mut named = 0;
    for entry in fs::read_dir(DIR)? {
        let path = entry?.path();
        let whole = fs::read(&path)?;
        let name = path.file_name().context("no name")?.to_string_lossy();
        let mut changed = whole.clone();
        let Some(byte) = changed.last_mut().filter(|_| name != "SHA256SUMS") else {
            continue;
        };
        // Still a line, so that it is the sum that tells.
        *byte = if *byte == b'\n' { b' ' } else { b'\n' };
        changed.push(b'\n');
        fs::write(&path, &changed)?;
        let ran = cowprobe(&["verify", DIR])?;
        fs::write(&path, &whole)?;
        ensure!(ran.code == Some(1) || ran.code == Some(2), "{ran:?}");
        ensure!(ran.stderr.contains(&*name), "{name}: {}", ran.stderr);
        named += 1;
    }
    ensure!(named >= 4, "{named} files");
    verified(DIR)?;
    Ok(format!("{named} files"))
}

fn untimed() -> anyhow::Result<String> {
    remove(DIR)?;
    let words = ["run", "--bundle", DIR, "--bench", "--"];
    let ran = cowprobe(&[&words[..], &["remap", "/proc"]].concat())?;
    ran.expect(2)?;
    for words in ["/proc is not on btrfs", "nothing was counted"] {
        ensure!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    nothing_at(DIR)?;
    Ok(ran.stderr)
}

/// Neither the folder nor a part of it.
fn nothing_at(dir: &str) -> anyhow::Result<()> {
    let path = Path::new(dir);
    let around = path.parent().context("no parent")?;
    let name = path.file_name().context("no name")?.to_string_lossy();
    for entry in fs::read_dir(around)? {
        let other = entry?.file_name().to_string_lossy().into_owned();
        ensure!(!other.contains(&*name), "{other} was left");
    }
    Ok(())
}

/// A command that must not be run.
const MARK: &str = "/tmp/mark";

fn refused(dir: &str, words: &[&str]) -> anyhow::Result<String> {
    let _ = fs::remove_file(MARK);
    let ran = cowprobe(&["run", "--bundle", dir, "--", "touch", MARK])?;
    ran.expect(2)?;
    ran.expect_line(&[&[dir], words].concat())?;
    ensure!(!Path::new(MARK).exists(), "the command was run");
    Ok(ran.stderr)
}

fn there() -> anyhow::Result<String> {
    remove(DIR)?;
    fs::create_dir(DIR)?;
    fs::write(format!("{DIR}/mine"), "mine")?;
    let said = refused(DIR, &["not empty"])?;
    ensure!(fs::read_to_string(format!("{DIR}/mine"))? == "mine");
    // One that is empty is filled, and keeps its mode.
    remove(DIR)?;
    fs::create_dir(DIR)?;
    sh("chmod", &["750", DIR])?;
    cowprobe(&["run", "--bundle", DIR, "--", "true"])?;
    verified(DIR)?;
    ensure!(sh("stat", &["-c", "%a", DIR])?.trim_end() == "750");
    // What came meanwhile is not replaced, and what is new is not lost.
    remove(DIR)?;
    let script = format!("mkdir {DIR}; echo mine >{DIR}/mine");
    let ran = cowprobe(&["run", "--bundle", DIR, "--", "sh", "-c", &script])?;
    ran.expect(2)?;
    ensure!(fs::read_to_string(format!("{DIR}/mine"))? == "mine\n");
    let (_, kept) = ran
        .stderr
        .trim_end()
        .rsplit_once("it is complete in ")
        .with_context(|| ran.stderr.clone())?;
    verified(kept)?;
    remove(kept)?;
    remove(DIR)?;
    Ok(said)
}

fn unwritable() -> anyhow::Result<String> {
    sh("mkdir", &["-p", "/tmp/small"])?;
    sh("mount", &["-t", "tmpfs", "-o", "ro", "none", "/tmp/small"])?;
    let said = refused("/tmp/small/folder", &["read-only"]);
    let mounted = refused("/tmp/small", &["something is mounted there"]);
    sh("umount", &["/tmp/small"])?;
    mounted?;
    refused("/no/such/folder", &["no such file"])?;
    refused(".", &["no name"])?;
    refused("/proc/version", &["no folder"])?;
    said
}

fn full_disk() -> anyhow::Result<String> {
    sh(
        "mount",
        &["-t", "tmpfs", "-o", "size=64k", "none", "/tmp/small"],
    )?;
    let checked = || -> anyhow::Result<String> {
        // What the command prints does not fit; then what is written after it does not.
        let mut said = String::new();
        for bytes in ["1000000", "50000"] {
            let script = format!("head -c {bytes} /dev/zero");
            let record = [
                "run",
                "-o",
                "/tmp/record.json",
                "--bundle",
                "/tmp/small/folder",
            ];
            let ran = cowprobe(&[&record[..], &["--", "sh", "-c", &script]].concat())?;
            ran.expect(2)?;
            said = ran.stderr;
            for words in ["the folder is lost", "no space left"] {
                ensure!(said.contains(words), "{words}: {said}");
            }
            ensure!(ran.stdout.len().to_string() == bytes, "output is missing");
            nothing_at("/tmp/small/folder")?;
            // The record is another file.
            document(&fs::read_to_string("/tmp/record.json")?)?;
        }
        Ok(said)
    };
    let checked = checked();
    sh("umount", &["/tmp/small"])?;
    checked
}

/// Later and later, until the run ends by itself.
fn killed() -> anyhow::Result<String> {
    let mut kills = 0;
    loop {
        remove(DIR)?;
        let mut run = Command::new("cowprobe");
        run.args(["run", "--bundle", DIR, "--bench", "--", "remap"]);
        run.args(["--rounds", "1", "-n", "10", MOUNT]);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        thread::sleep(Duration::from_millis(20 * kills));
        let by_itself = run.try_wait()?.is_some();
        run.kill()?;
        run.wait()?;
        // The benchmark goes on by itself.
        let end = "pkill -9 -x cowprobe; while pgrep -x cowprobe; do sleep 0.01; done";
        sh("sh", &["-c", &format!("{end}; rm -f {MOUNT}/*")])?;
        if Path::new(DIR).exists() {
            verified(DIR)?;
        }
        if by_itself {
            ensure!(Path::new(DIR).exists(), "nothing is there");
            break;
        }
        kills += 1;
        ensure!(kills < 500, "it does not end");
    }
    sh("sh", &["-c", "rm -rf /tmp/.folder.*.partial"])?;
    ensure!(kills > 0, "it was never killed");
    Ok(format!("{kills} kills"))
}
