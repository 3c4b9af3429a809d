//! How the command ends, its streams and its signals.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};

use super::{
    super::{
        attached::Attached,
        cowprobe::{RECORD, Ran, cowprobe, record},
        filesystem::sh,
    },
    MARK, nothing_ran,
};

pub(super) fn the_command_fails() -> anyhow::Result<String> {
    let ran = cowprobe(&["run", "-o", RECORD, "--", "sh", "-c", "exit 7"])?;
    ran.expect(7)?;
    let record = record()?;
    ensure!(
        record["command"]["status"] == 7 && record["exit"]["code"] == 7,
        "{record}"
    );
    ensure!(record["targets"][0]["calls"] == 0, "{record}");
    Ok("7 is passed on".to_owned())
}

pub(super) fn the_command_is_killed() -> anyhow::Result<String> {
    let ran = cowprobe(&["run", "-o", RECORD, "--", "sh", "-c", "kill -9 $$"])?;
    ran.expect(137)?;
    let record = record()?;
    ensure!(record["command"]["signal"] == 9, "{record}");
    Ok("137".to_owned())
}

pub(super) fn streams_are_untouched() -> anyhow::Result<String> {
    let mut command = Command::new("cowprobe");
    command.args(["run", "--", "sh", "-c", "cat; echo from the command >&2"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let bytes = b"in\0and out\xff\n";
    child.stdin.take().context("no pipe")?.write_all(bytes)?;
    let out = child.wait_with_output()?;
    ensure!(out.stdout == bytes, "{:?}", out.stdout);
    let ran = Ran::from_output(&out);
    ran.expect(0)?;
    ensure!(
        ran.stderr.starts_with("from the command\n"),
        "{}",
        ran.stderr
    );
    ensure!(
        ran.stderr.contains("btrfs_remap_file_range"),
        "{}",
        ran.stderr
    );
    Ok("12 bytes through, the table on stderr".to_owned())
}

/// Starts a run of a command that waits, and returns when its probes are there.
fn waiting_run() -> anyhow::Result<Child> {
    let before = Attached::list()?;
    let mut command = Command::new("cowprobe");
    command.args(["run", "-o", RECORD, "--", "sh", "-c"]);
    command.arg(format!("echo $$ > {MARK}; exec sleep 60"));
    let child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(100));
        if fs::read_to_string(MARK).is_ok_and(|text| text.ends_with('\n')) {
            let now = Attached::list()?;
            let programs = (
                now.programs("cowprobe_entry"),
                now.programs("cowprobe_return"),
            );
            ensure!(programs == (3, 3), "{programs:?} programs");
            let kprobes = now.kprobes() - before.kprobes();
            ensure!(kprobes == 6, "{kprobes} kprobes");
            return Ok(child);
        }
    }
    bail!("the command does not start");
}

pub(super) fn term_is_passed_on() -> anyhow::Result<String> {
    let child = waiting_run()?;
    sh("kill", &["-TERM", &child.id().to_string()])?;
    let ran = Ran::from_output(&child.wait_with_output()?);
    ran.expect(143)?;
    ensure!(
        ran.stderr.contains("btrfs_remap_file_range"),
        "{}",
        ran.stderr
    );
    ensure!(record()?["command"]["signal"] == 15, "{}", record()?);
    Ok("143, table and record".to_owned())
}

pub(super) fn check_leaves_nothing() -> anyhow::Result<String> {
    let ran = cowprobe(&["check"])?;
    ran.expect(0)?;
    Ok("attached for real, nothing left".to_owned())
}

pub(super) fn kill_leaves_nothing() -> anyhow::Result<String> {
    let mut child = waiting_run()?;
    child.kill()?;
    child.wait()?;
    let command = fs::read_to_string(MARK)?;
    sh("kill", &[command.trim()])?;
    ensure!(!Path::new(RECORD).exists(), "half a record");
    Ok("3 + 3 programs and 6 kprobes were there, none is".to_owned())
}

/// Starts a run, and returns as soon as its command is held: before the probes are
/// attached.
fn held_run() -> anyhow::Result<Child> {
    let mut command = Command::new("cowprobe");
    command.args(["run", "-o", RECORD, "--", "touch", MARK]);
    let child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let held = || {
        // The child is forked by another thread of cowprobe.
        let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).ok()?;
        let mut lists = tasks.flatten().map(|t| t.path().join("children"));
        lists.find(|list| fs::read_to_string(list).is_ok_and(|text| !text.trim().is_empty()))
    };
    for _ in 0..10_000 {
        if held().is_some() {
            return Ok(child);
        }
        thread::sleep(Duration::from_millis(1));
    }
    bail!("no child in {children}");
}

pub(super) fn a_signal_withholds_the_command() -> anyhow::Result<String> {
    let child = held_run()?;
    sh("kill", &["-INT", &child.id().to_string()])?;
    let ran = Ran::from_output(&child.wait_with_output()?);
    ran.expect(130)?;
    ran.expect_line(&["signal 2", "before touch was started"])?;
    nothing_ran()?;
    Ok(ran.stderr)
}

pub(super) fn an_early_kill_withholds_the_command() -> anyhow::Result<String> {
    let mut child = held_run()?;
    child.kill()?;
    child.wait()?;
    thread::sleep(Duration::from_millis(500));
    nothing_ran()?;
    Ok("killed while the command was held: it never ran".to_owned())
}

pub(super) fn nohup_is_kept() -> anyhow::Result<String> {
    let script = "trap '' HUP; exec cowprobe run -- sh -c 'kill -HUP $$; kill -HUP $PPID; echo on'";
    let out = Command::new("sh").args(["-c", script]).output()?;
    let ran = Ran::from_output(&out);
    ran.expect(0)?;
    ensure!(ran.stdout == "on\n", "{}", ran.stdout);
    Ok("HUP stays ignored".to_owned())
}

pub(super) fn a_closed_stderr_costs_nothing() -> anyhow::Result<String> {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let mut command = Command::new("cowprobe");
    command.args(["run", "-o", RECORD, "--", "sh", "-c", "exit 3"]);
    let status = command.stdin(Stdio::null()).stderr(writer).status()?;
    ensure!(status.code() == Some(3), "{status}");
    ensure!(record()?["command"]["status"] == 3, "{}", record()?);
    Ok("the status and the record are there".to_owned())
}
