//! Which filesystem: two that are busy at once, a subvolume, a loop file, and one that
//! the command makes.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    cowprobe::{RECORD, cowprobe, document, missed, record, status},
    filesystem::{MOUNT, sh, unmount},
    report::{Check, Report},
};

const SECOND: &str = "/run/second";
const LOOP: &str = "/run/loop";
const IMAGE: &str = "/mnt/image";

const CHECKS: &[Check] = &[
    ("two at once", two_at_once),
    ("a subvolume is in", subvolume),
    ("a loop file inside is out", loop_file),
    ("by its UUID, mounted by the command", by_fsid),
    ("a path that is mounted later", mounted_later),
    ("another super block splits the row", split),
    ("no call in scope", no_call),
    ("documents of a watch", documents),
    ("never mounted", never_mounted),
];

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CHECKS.len());
    for dir in [SECOND, LOOP] {
        std::fs::create_dir_all(dir)?;
    }
    fresh()?;
    report.run(CHECKS);
    for point in [LOOP, SECOND] {
        let _ = sh("umount", &[point]);
    }
    unmount()
}

/// Two filesystems with files for 300 clones and 300 dedupes in each.
fn fresh() -> anyhow::Result<()> {
    unmount()?;
    for (device, point) in [("/dev/ram0", MOUNT), ("/dev/ram1", SECOND)] {
        sh("mkfs.btrfs", &["-q", "-f", device])?;
        sh("mount", &["-t", "btrfs", "-o", "commit=300", device, point])?;
    }
    sh("btrfs", &["subvolume", "create", &format!("{MOUNT}/sub")])?;
    Ok(())
}

fn prepare(dir: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    sh(
        "cowprobe",
        &["bench", "remap", "--prepare", "-n", "300", dir],
    )?;
    sh("sync", &[])?;
    Ok(())
}

fn bench(dir: &str) -> String {
    format!("cowprobe bench remap --prepared -n 300 {dir}")
}

/// Runs a script under cowprobe and returns the record.
fn counted(args: &[&str], script: &str) -> anyhow::Result<(Option<i32>, String, Value)> {
    let all = [&["run", "-o", RECORD], args, &["--", "sh", "-c", script]].concat();
    let ran = cowprobe(&all)?;
    let record = record().with_context(|| ran.stderr.clone())?;
    Ok((ran.code, ran.stderr, record))
}

fn number(target: &Value, field: &str) -> anyhow::Result<u64> {
    let n = target[field].as_u64();
    n.with_context(|| format!("{field} of {target}"))
}

/// Calls and out of scope of each of the three.
fn calls(record: &Value) -> anyhow::Result<Vec<[u64; 2]>> {
    let targets = record["targets"].as_array().context("no targets")?;
    let each = targets
        .iter()
        .map(|t| Ok([number(t, "calls")?, number(t, "out_of_scope")?]));
    each.collect()
}

fn device_of(point: &str) -> anyhow::Result<String> {
    let text = sh("findmnt", &["-n", "-o", "MAJ:MIN", point])?;
    Ok(text.trim().to_owned())
}

/// Its counts are those of that load alone: remap and inhibit to the last call.
fn two_at_once() -> anyhow::Result<String> {
    let (first, second) = (format!("{MOUNT}/d"), format!("{SECOND}/d"));
    prepare(&first)?;
    let (code, stderr, alone) = counted(&["--mount", MOUNT], &bench(&first))?;
    ensure!(code == Some(status(&missed(&alone))), "{stderr}");
    let alone = calls(&alone)?;
    ensure!(alone[0] == [600, 0], "{alone:?}");
    // The same once more, on a new filesystem, beside another.
    for point in [SECOND, MOUNT] {
        sh("umount", &[point])?;
    }
    fresh()?;
    prepare(&first)?;
    prepare(&second)?;
    let both = format!("{} & {}; wait", bench(&second), bench(&first));
    let (code, stderr, record) = counted(&["--mount", MOUNT], &both)?;
    ensure!(code == Some(status(&missed(&record))), "{stderr}");
    let both = calls(&record)?;
    let lost = missed(&record);
    ensure!(both[0] == [600, 600] || lost[0] > 0, "{both:?}");
    ensure!(
        both[1][0] == alone[1][0] || lost[1] > 0,
        "{both:?}, alone {alone:?}"
    );
    let found = &record["scope"]["filesystems"][0];
    ensure!(found["device"] == device_of(MOUNT)?, "{record}");
    ensure!(found["mount_point"] == MOUNT, "{found}");
    let fsid = sh("findmnt", &["-n", "-o", "UUID", MOUNT])?;
    ensure!(found["fsid"] == fsid.trim(), "{found}, not {fsid}");
    ensure!(stderr.contains("out of scope"), "{stderr}");
    Ok(format!("in and out: {both:?}; alone {alone:?}"))
}

fn subvolume() -> anyhow::Result<String> {
    let dir = format!("{MOUNT}/sub/d");
    prepare(&dir)?;
    let (code, stderr, record) = counted(&["--mount", MOUNT], &bench(&dir))?;
    ensure!(code == Some(status(&missed(&record))), "{stderr}");
    let by_mount = calls(&record)?;
    ensure!(
        by_mount[0] == [600, 0] || missed(&record)[0] > 0,
        "{by_mount:?}"
    );
    // And the whole by the subvolume's path.
    let other = format!("{MOUNT}/e");
    prepare(&other)?;
    let sub = format!("{MOUNT}/sub");
    let (_, _, record) = counted(&["--mount", &sub], &bench(&other))?;
    let by_path = calls(&record)?;
    ensure!(
        by_path[0] == [600, 0] || missed(&record)[0] > 0,
        "{by_path:?}"
    );
    Ok(format!("{by_mount:?}, and by its path {by_path:?}"))
}

fn loop_file() -> anyhow::Result<String> {
    sh("truncate", &["-s", "200m", IMAGE])?;
    sh("mkfs.btrfs", &["-q", "-f", IMAGE])?;
    sh("mount", &["-o", "loop,commit=300", IMAGE, LOOP])?;
    let dir = format!("{LOOP}/d");
    prepare(&dir)?;
    let (_, stderr, record) = counted(&["--mount", MOUNT], &bench(&dir))?;
    let all = calls(&record)?;
    ensure!(all[0] == [0, 600] || missed(&record)[0] > 0, "{all:?}");
    ensure!(
        stderr.contains("btrfs_remap_file_range was not called in scope"),
        "{stderr}"
    );
    let on = record["targets"][0]["by_filesystem"][0].clone();
    ensure!(
        on["device"] == device_of(LOOP)? && on["in_scope"] == false,
        "{on}"
    );
    sh("umount", &[LOOP])?;
    Ok(format!("in and out: {all:?}"))
}

fn by_fsid() -> anyhow::Result<String> {
    let fsid = "12345678-9abc-def0-1234-56789abcdef0";
    let _ = sh("umount", &[SECOND]);
    let script = format!(
        "mkfs.btrfs -q -f -U {fsid} /dev/ram1 && mount -t btrfs /dev/ram1 {SECOND} && \
         cowprobe bench remap -n 300 {SECOND} && sleep 1"
    );
    let (_, stderr, record) = counted(&["--fsid", &fsid.to_uppercase()], &script)?;
    let all = calls(&record)?;
    ensure!(
        all[0] == [600, 0] || missed(&record)[0] > 0,
        "{all:?}: {stderr}"
    );
    ensure!(
        record["scope"]["filesystems"][0]["fsid"] == fsid,
        "{record}"
    );
    Ok(format!("{all:?}"))
}

/// It is unmounted again before the end.
fn mounted_later() -> anyhow::Result<String> {
    sh("umount", &[SECOND])?;
    let script = format!(
        "mkfs.btrfs -q -f /dev/ram1 && mount -t btrfs /dev/ram1 {SECOND} && \
         cowprobe bench remap -n 300 {SECOND} && sleep 1 && umount {SECOND}"
    );
    let (_, stderr, record) = counted(&["--mount", SECOND], &script)?;
    let all = calls(&record)?;
    ensure!(
        all[0] == [600, 0] || missed(&record)[0] > 0,
        "{all:?}: {stderr}"
    );
    Ok(format!("{all:?}"))
}

/// Meanwhile its number goes to another filesystem.
fn split() -> anyhow::Result<String> {
    let make = format!("mkfs.btrfs -q -f /dev/ram1 && mount -t btrfs /dev/ram1 {SECOND}");
    let bench = format!("cowprobe bench remap -n 100 {SECOND} && sleep 1");
    let script = format!(
        "{make} && {bench} && umount {SECOND} && mount -t tmpfs none {LOOP} && {make} && {bench}"
    );
    let (_, stderr, record) = counted(&["--mount", SECOND], &script)?;
    sh("umount", &[LOOP])?;
    let all = calls(&record)?;
    ensure!(
        all[0][0] == 400 || missed(&record)[0] > 0,
        "{all:?}: {stderr}"
    );
    let rows = stderr
        .lines()
        .filter(|l| l.trim_start().starts_with("on 0:"));
    ensure!(rows.count() >= 2, "{stderr}");
    Ok("two rows of 200 together 400".to_owned())
}

fn no_call() -> anyhow::Result<String> {
    let dir = format!("{SECOND}/d");
    prepare(&dir)?;
    let (code, stderr, _) = counted(&["--mount", MOUNT], &bench(&dir))?;
    ensure!(code == Some(1), "{code:?}: {stderr}");
    let instead = format!("but 600 on {} ({SECOND})", device_of(SECOND)?);
    ensure!(stderr.contains(&instead), "{instead}: {stderr}");
    Ok(instead)
}

/// Each says what it is of, and the last why it fails.
fn documents() -> anyhow::Result<String> {
    let args = ["--json", "--mount", MOUNT, "-I", "100", "--duration", "1"];
    let ran = cowprobe(&[&["watch"], &args[..]].concat())?;
    ran.expect(1)?;
    let documents = ran.stdout.lines().map(document);
    let documents = documents.collect::<anyhow::Result<Vec<_>>>()?;
    let (last, live) = documents.split_last().context("no document")?;
    let device = device_of(MOUNT)?;
    for document in live.iter().chain([last]) {
        let filesystems = &document["scope"]["filesystems"];
        ensure!(filesystems.to_string().contains(&device), "{document}");
        ensure!(document["warnings"] == serde_json::json!([]), "{document}");
        let causes = document["causes"].as_array().context("no causes")?;
        ensure!(
            causes.is_empty() == (document["last"] == false),
            "{document}"
        );
    }
    ensure!(!live.is_empty() && last["last"] == true, "{last}");
    Ok(format!("{} and a last one", live.len()))
}

fn never_mounted() -> anyhow::Result<String> {
    let (code, stderr, record) = counted(&["--mount", "/no/such"], "true")?;
    ensure!(code == Some(1), "{code:?}: {stderr}");
    let words = "--mount /no/such: no such btrfs was mounted";
    ensure!(stderr.contains(words), "{stderr}");
    ensure!(
        record["scope"]["filesystems"] == serde_json::json!([]),
        "{record}"
    );
    // And watch goes on meanwhile.
    let out = Command::new("cowprobe")
        .args(["watch", "--mount", "/no/such", "--duration", "0.3"])
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    ensure!(
        text.contains("nothing yet: --mount /no/such is not mounted"),
        "{text}"
    );
    std::thread::sleep(Duration::from_millis(100));
    Ok(words.to_owned())
}
