//! Makes a case's window, ends it as the case says, and takes what was said of it.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use nix::{
    sys::signal::{kill, killpg},
    unistd::Pid,
};
use serde_json::Value;

use super::{
    super::{
        cowprobe::{RECORD, Ran, document, record},
        filesystem::sh,
    },
    Case, Ended,
};

/// The command of a run makes it when all is done that is to be in the window.
const DONE: &str = "/tmp/done";

/// What was said of a window.
pub(super) struct Said {
    /// The exit statuses; of `watch` there are two.
    pub(super) codes: Vec<Option<i32>>,
    /// Tables, and what stands under them.
    pub(super) text: String,
    /// The targets as they were written.
    pub(super) targets: Vec<Value>,
}

pub(super) fn run(case: &Case, more: &[&str]) -> anyhow::Result<Said> {
    for file in [DONE, RECORD] {
        let _ = fs::remove_file(file);
    }
    let end = match case.ended {
        Ended::Itself => "true".to_owned(),
        Ended::Command(signal) => format!("kill -{} $$", signal as i32),
        Ended::Cowprobe(_) | Ended::Group(_) => format!("touch {DONE} && exec sleep 600"),
    };
    let script = format!("{} && {end}", case.provoked.command()?);
    let mut command = Command::new("cowprobe");
    command.args(["run", "-o", RECORD]);
    command
        .args(case.provoked.args())
        .args(case.args)
        .args(more);
    command.args(["--", "sh", "-c", &script]);
    let child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let signal = match case.ended {
        Ended::Cowprobe(signal) => {
            wait_for(|| Path::new(DONE).exists())?;
            kill(pid, signal)?;
            Some(signal)
        }
        Ended::Group(signal) => {
            wait_for(|| Path::new(DONE).exists())?;
            killpg(pid, signal)?;
            Some(signal)
        }
        Ended::Command(signal) => Some(signal),
        Ended::Itself => None,
    };
    let ran = Ran::from_output(&child.wait_with_output()?);
    let record = record().with_context(|| ran.stderr.clone())?;
    let ended = record["command"]["signal"].as_i64();
    ensure!(
        ended == signal.map(|s| s as i64),
        "the command ended by {ended:?}: {}",
        ran.stderr
    );
    ensure!(record["exit"]["code"] == case.exit, "{}", record["exit"]);
    let targets = record["targets"].as_array().context("no targets")?;
    Ok(Said {
        codes: vec![ran.code],
        text: ran.stderr,
        targets: targets.clone(),
    })
}

/// A watch writes tables or documents: two see the same window.
pub(super) fn watch(case: &Case, more: &[&str]) -> anyhow::Result<Said> {
    let mut children = Vec::new();
    for (out, json) in [
        ("/tmp/watch.tables", None),
        ("/tmp/watch.documents", Some("--json")),
    ] {
        let mut command = Command::new("cowprobe");
        command.args(["watch", "-I", "500"]).args(json);
        command
            .args(case.provoked.args())
            .args(case.args)
            .args(more);
        if case.ended == Ended::Itself {
            // Far longer than the clone takes.
            command.args(["--duration", "8"]);
        }
        command.stdin(Stdio::null()).stdout(File::create(out)?);
        children.push((out, command.stderr(Stdio::piped()).spawn()?));
    }
    // With the first table the window is open.
    for (out, child) in &mut children {
        wait_for(|| {
            fs::metadata(&out).is_ok_and(|m| m.len() > 0)
                || child.try_wait().is_ok_and(|s| s.is_some())
        })?;
    }
    sh("sh", &["-c", &case.provoked.command()?])?;
    if let Ended::Cowprobe(signal) = case.ended {
        for (_, child) in &children {
            kill(Pid::from_raw(child.id().cast_signed()), signal)?;
        }
    }
    let mut codes = Vec::new();
    let mut said = Vec::new();
    for (out, child) in children {
        let ran = Ran::from_output(&child.wait_with_output()?);
        codes.push(ran.code);
        said.push((fs::read_to_string(out)?, ran.stderr));
    }
    let [(tables, under), (documents, _)] = &said[..] else {
        bail!("not two");
    };
    let last = documents.lines().last().context("no document")?;
    let last = document(last)?;
    ensure!(last["last"] == true, "{last}");
    // The totals are the last block.
    let totals = tables.rfind("\nkernel ").map_or(0, |at| at + 1);
    Ok(Said {
        codes,
        text: format!("{}{under}", &tables[totals..]),
        targets: last["total"].as_array().context("no targets")?.clone(),
    })
}

fn wait_for(mut comes: impl FnMut() -> bool) -> anyhow::Result<()> {
    for _ in 0..600 {
        if comes() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("it does not come to that");
}
