//! Checkpoints: whole at every moment, never taken for a record, and free of charge.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    FUNCTIONS,
    clone::Pair,
    cowprobe::{RECORD, calls_and_missed, cowprobe, document, missed, record, status},
    filesystem::{self, Load, sh},
    kprobe_profile,
    report::{Check, Report},
};

const LOAD: Load = Load {
    tasks: 1,
    operations: 500,
};

const CHECKS: &[Check] = &[
    ("kill -9", killed),
    ("no hit is lost", often),
    ("in a window and between two", windows),
    ("full disk", full),
    ("full disk, room in the end", freed),
    ("a pipe cannot be replaced", pipe),
];

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CHECKS.len());
    report.run(CHECKS);
    filesystem::unmount()
}

fn bench() -> String {
    let (dir, n) = (filesystem::directory(0), LOAD.operations);
    format!("cowprobe bench remap --prepared -n {n} {dir} >/dev/null")
}

/// A checkpoint of a run that counted so many remaps.
fn checkpoint(path: &str, remaps: u64) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("no {path}"))?;
    let record = document(&text).with_context(|| format!("half: {text}"))?;
    ensure!(record["schema"] == "cowprobe-record-1", "{record}");
    ensure!(
        record["complete"] == false && record["exit"].is_null(),
        "it looks like a record: {record}"
    );
    let target = &record["targets"][0];
    ensure!(target["calls"] == remaps, "not {remaps}: {target}");
    ensure!(target["calls"] == target["returns"], "{target}");
    Ok(record)
}

fn killed() -> anyhow::Result<String> {
    filesystem::fresh(LOAD)?;
    let _ = fs::remove_file(RECORD);
    let script = format!("{}; exec sleep 30", bench());
    let mut run = Command::new("cowprobe");
    run.args([
        "run",
        "--checkpoint",
        "0.1",
        "-o",
        RECORD,
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let mut run = run.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // Whenever it is read, it is whole.
    let mut reads = 0;
    let calls = || -> anyhow::Result<Option<u64>> {
        let Ok(text) = fs::read_to_string(RECORD) else {
            return Ok(None);
        };
        let record = document(&text).with_context(|| format!("half: {text}"))?;
        Ok(record["targets"][0]["calls"].as_u64())
    };
    while calls()? != Some(1000) {
        reads += 1;
        ensure!(reads < 3000, "it never has all calls");
        thread::sleep(Duration::from_millis(10));
    }
    run.kill()?;
    run.wait()?;
    let record = checkpoint(RECORD, 1000)?;
    ensure!(record["windows"][0]["open"] == true, "{record}");
    sh("pkill", &["-x", "sleep"])?;
    Ok(format!("1000 calls, whole each of {} times", reads + 1))
}

fn often() -> anyhow::Result<String> {
    filesystem::fresh(LOAD)?;
    kprobe_profile::start(&FUNCTIONS)?;
    let before = kprobe_profile::quiet(&FUNCTIONS)?;
    let script = format!("{}; sync; sleep 4", bench());
    let args = ["run", "--checkpoint", "0.02", "-o", RECORD];
    let ran = cowprobe(&[&args[..], &["--", "sh", "-c", &script]].concat());
    let after = kprobe_profile::read(&FUNCTIONS)?;
    kprobe_profile::stop()?;
    let (ran, record) = (ran?, record()?);
    ran.expect(status(&missed(&record)))?;
    let ours = calls_and_missed(&record, &FUNCTIONS)?;
    let theirs: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    ensure!(ours == theirs, "{ours:?}, by kprobe events {theirs:?}");
    ensure!(record["complete"] == true, "{record}");
    ensure!(record["windows"][0]["open"] == false, "{record}");
    ensure!(record["warnings"] == serde_json::json!([]), "{record}");
    let lost: u64 = missed(&record).iter().sum();
    Ok(format!("{ours:?} twice, {lost} of them missed"))
}

fn windows() -> anyhow::Result<String> {
    Pair::new()?;
    let me = std::env::current_exe()?;
    let clone = format!("{} clone-once", me.display());
    let order = |order: &str| format!("echo {order} >/tmp/ctl; read x </tmp/ack; ");
    // Outside of a window nothing is counted.
    let script = format!(
        "{clone}; {}{clone}; {clone}; sleep 2; cp {RECORD} /tmp/inside; {}{clone}; sleep 2; \
         cp {RECORD} /tmp/between; {}{clone}; {}",
        order("enable"),
        order("disable"),
        order("enable"),
        order("disable")
    );
    for fifo in ["/tmp/ctl", "/tmp/ack"] {
        let _ = fs::remove_file(fifo);
        sh("mkfifo", &[fifo])?;
    }
    let ran = cowprobe(&[
        "run",
        "--control",
        "fifo:/tmp/ctl,/tmp/ack",
        "-D",
        "-1",
        "--checkpoint",
        "0.2",
        "-o",
        RECORD,
        "--",
        "sh",
        "-c",
        &script,
    ])?;
    let last = record().with_context(|| ran.stderr.clone())?;
    ran.expect(status(&missed(&last)))?;
    let open = |record: &Value| {
        let windows = record["windows"].as_array().into_iter().flatten();
        let each = windows.map(|w| (w["open"].clone(), w["targets"][0]["calls"].clone()));
        format!("{:?}", each.collect::<Vec<_>>())
    };
    for (path, remaps, windows) in [
        ("/tmp/inside", 2, "[(Bool(true), Number(2))]"),
        ("/tmp/between", 2, "[(Bool(false), Number(2))]"),
    ] {
        let record = checkpoint(path, remaps)?;
        ensure!(open(&record) == windows, "{path}: {}", open(&record));
    }
    let both = "[(Bool(false), Number(2)), (Bool(false), Number(1))]";
    ensure!(
        open(&last) == both && last["complete"] == true,
        "{}",
        open(&last)
    );
    Ok("2, then 2, then 2 and 1".to_owned())
}

const SMALL: &str = "/run/small";
const FILL: &str = "/run/small/fill";

/// A run whose checkpoints find no room after the first ones.
fn on_full_disk(then: &str) -> anyhow::Result<(Option<i32>, String, String)> {
    filesystem::fresh(LOAD)?;
    fs::create_dir_all(SMALL)?;
    sh("mount", &["-t", "tmpfs", "-o", "size=64k", "none", SMALL])?;
    let path = format!("{SMALL}/r.json");
    let fill = format!("dd if=/dev/zero of={FILL} bs=4k 2>/dev/null");
    let script = format!("{}; sleep 2; {fill}; sleep 2; {then}", bench());
    let ran = cowprobe(&[
        "run",
        "--checkpoint",
        "0.2",
        "-o",
        &path,
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let left = fs::read_to_string(&path);
    let names = sh("ls", &["-A", SMALL])?;
    sh("umount", &[SMALL])?;
    let ran = ran?;
    // Lines are broken for a mail.
    let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(!names.contains("partial"), "{names}");
    let words = "warning: a checkpoint could not be written: no space left";
    ensure!(said.contains(words), "{said}");
    Ok((ran.code, said, left?))
}

fn full() -> anyhow::Result<String> {
    let (code, stderr, left) = on_full_disk("true")?;
    ensure!(code == Some(2), "{code:?}: {stderr}");
    for words in [
        "the record is lost",
        "what was counted until the last checkpoint is there",
    ] {
        ensure!(stderr.contains(words), "{words}: {stderr}");
    }
    fs::write("/tmp/left.json", left)?;
    checkpoint("/tmp/left.json", 1000)?;
    Ok("the last one that had room stays".to_owned())
}

fn freed() -> anyhow::Result<String> {
    let (code, stderr, left) = on_full_disk(&format!("rm {FILL}"))?;
    let record = document(&left)?;
    ensure!(code == Some(status(&missed(&record))), "{code:?}: {stderr}");
    ensure!(record["complete"] == true, "{record}");
    ensure!(record["targets"][0]["calls"] == 1000, "{record}");
    let warnings = record["warnings"].to_string();
    ensure!(
        warnings.contains("checkpoints could not be written"),
        "{warnings}"
    );
    Ok(warnings)
}

fn pipe() -> anyhow::Result<String> {
    let fifo = Path::new("/tmp/fifo");
    let _ = fs::remove_file(fifo);
    sh("mkfifo", &["/tmp/fifo"])?;
    let mut reader = Command::new("cat")
        .arg(fifo)
        .stdout(Stdio::null())
        .spawn()?;
    let ran = cowprobe(&["run", "--checkpoint", "1", "-o", "/tmp/fifo", "--", "true"])?;
    reader.wait()?;
    ran.expect(2)?;
    ran.expect_line(&["/tmp/fifo is no file that can be replaced", "-o"])?;
    Ok("said".to_owned())
}
