//! `cowprobe watch` as a user ends it, and as a pipe or a disk does.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader},
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};

use super::super::{
    cowprobe::{Ran, cowprobe, document},
    filesystem::sh,
};

pub(super) fn signals_end_it_with_totals() -> anyhow::Result<String> {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut command = Command::new("cowprobe");
        command.args(["watch", "-I", "100"]).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let mut out = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut line = String::new();
        out.read_line(&mut line)?;
        sh("kill", &[signal, &child.id().to_string()])?;
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut out, &mut rest)?;
        let ran = Ran::from_output(&child.wait_with_output()?);
        ran.expect(0)?;
        let rest = String::from_utf8(rest)?;
        ensure!(
            line.starts_with("kernel ") && rest.contains("  dedupe "),
            "{line}{rest}"
        );
    }
    Ok("INT, TERM and HUP: totals, exit 0".to_owned())
}

pub(super) fn a_script_ends_it() -> anyhow::Result<String> {
    // A shell without job control makes what it starts in the background ignore INT.
    let script = "cowprobe watch -I 100 > /tmp/watch.out & sleep 3; kill -INT $!; wait $!";
    let ran = Ran::from_output(&Command::new("sh").args(["-c", script]).output()?);
    ran.expect(0)?;
    let out = fs::read_to_string("/tmp/watch.out")?;
    ensure!(out.contains("  dedupe "), "{out}");
    Ok("INT ends it in the background as well".to_owned())
}

pub(super) fn a_closed_pipe_ends_it() -> anyhow::Result<String> {
    let mut command = Command::new("cowprobe");
    command.args(["watch", "-I", "100"]).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    drop(child.stdout.take());
    let ran = Ran::from_output(&child.wait_with_output()?);
    ran.expect(0)?;
    ensure!(ran.stderr.is_empty(), "{}", ran.stderr);
    Ok("exit 0 in silence".to_owned())
}

pub(super) fn a_full_disk_is_said() -> anyhow::Result<String> {
    let mut command = Command::new("cowprobe");
    let full = OpenOptions::new().write(true).open("/dev/full")?;
    command.args(["watch", "-I", "100"]).stdout(full);
    let ran = Ran::from_output(&command.output()?);
    ran.expect(2)?;
    ran.expect_line(&["cannot write to standard output", "no space left"])?;
    Ok(ran.stderr)
}

pub(super) fn json_is_a_document_a_line() -> anyhow::Result<String> {
    let ran = cowprobe(&["watch", "-I", "200", "--duration", "1", "--json"])?;
    ran.expect(0)?;
    let documents = ran
        .stdout
        .lines()
        .map(document)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (last, others) = documents.split_last().context("no document")?;
    ensure!(last["last"] == true, "{last}");
    ensure!(
        !others.is_empty() && others.iter().all(|d| d["last"] == false),
        "{}",
        ran.stdout
    );
    ensure!(
        documents
            .iter()
            .all(|d| d["schema"] == "cowprobe-interval-1"),
        "{}",
        ran.stdout
    );
    Ok(format!("{} documents", documents.len()))
}

pub(super) fn a_prompt_prints_now() -> anyhow::Result<String> {
    let mut command = Command::new("cowprobe");
    command
        .args(["watch", "-I", "3600000", "--json"])
        .stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let pid = child.id().to_string();
    let mut out = BufReader::new(child.stdout.take().context("no pipe")?);
    // Until its handler is there USR1 would end it.
    let caught = || -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let hex = status.lines().find_map(|l| l.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(hex.trim(), 16).ok()
    };
    while caught().is_some_and(|bits| bits >> 9 & 1 == 0) {
        thread::sleep(Duration::from_millis(10));
    }
    sh("kill", &["-USR1", &pid])?;
    let mut line = String::new();
    out.read_line(&mut line)?;
    let document = document(&line)?;
    ensure!(document["last"] == false, "{document}");
    sh("kill", &["-INT", &pid])?;
    drop(out);
    child.wait()?;
    Ok("a document before the interval's end".to_owned())
}

/// timeout(1) sends its signal to the process and to the group: twice, at once.
pub(super) fn a_signal_that_comes_twice_is_one() -> anyhow::Result<String> {
    let mut command = Command::new("timeout");
    command.args(["4", "cowprobe", "watch", "-I", "500"]);
    let ran = Ran::from_output(&command.output()?);
    // Of timeout itself.
    ran.expect(124)?;
    ensure!(
        ran.stdout.contains("  dedupe "),
        "no totals: {}",
        ran.stdout
    );
    Ok("the totals come".to_owned())
}

/// A reader that has stopped to read keeps us from everything but our end.
pub(super) fn a_second_signal_aborts() -> anyhow::Result<String> {
    let mut command = Command::new("cowprobe");
    command.args(["watch", "-I", "10"]).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let pid = child.id().to_string();
    // It sleeps in a write to the full pipe.
    let stuck =
        || fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|w| w.contains("pipe_write"));
    for _ in 0..600 {
        if stuck() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    ensure!(stuck(), "the pipe does not fill");
    for signal in ["-INT", "-TERM"] {
        ensure!(child.try_wait()?.is_none(), "it ended by itself");
        sh("kill", &[signal, &pid])?;
        thread::sleep(Duration::from_millis(200));
    }
    let status = child.wait()?;
    ensure!(status.signal() == Some(15), "{status}");
    Ok("behind a full pipe, INT and then TERM".to_owned())
}
