//! BPF programs of others on the same functions: each way of attaching one is noted,
//! and none where there is none.

use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::{
    FUNCTIONS,
    bpftrace::json,
    cowprobe::{RECORD, Ran, cowprobe, document, record},
};

const OUTPUT: &str = "/tmp/others.out";
/// On each of the three, and on something else. What bpftrace 0.23 makes of it: events
/// without a link, links of several functions, and one of a program that traces.
const SCRIPT: &str = "kprobe:btrfs_remap_file_range { @a = count(); } \
    kretprobe:btrfs_remap_file_range { @b = count(); } \
    kprobe:btrfs_inhibit_eb_wr*,kprobe:btrfs_*clone* { @c = count(); } \
    fentry:btrfs:btrfs_uninhibit_all_eb_writeback { @d = count(); } \
    kprobe:btrfs_sync_file { @e = count(); }";

/// By each way of bpftrace. Another cowprobe is one that has kprobes by links.
pub(crate) fn are_noted() -> anyhow::Result<String> {
    let alone = noted(&run()?)?;
    ensure!(alone.concat().is_empty(), "{alone:?} alone");
    let bpftrace = Bpftrace::start()?;
    let ran = run()?;
    let noted = noted(&ran)?;
    let watch = cowprobe(&["watch", "--allow-inexact", "--duration", "0.5", "--json"])?;
    drop(bpftrace);
    watch.expect(0)?;
    let mut kinds = noted.iter().map(|on| on.iter().map(|(kind, _)| &**kind));
    for expected in [&["kprobe", "kretprobe"][..], &["kprobe.multi"], &["fentry"]] {
        let mut of: Vec<&str> = kinds.next().into_iter().flatten().collect();
        of.sort_unstable();
        ensure!(of == expected, "{of:?}, not {expected:?}: {noted:?}");
    }
    // At the beginning and at the end of a watch.
    for (said, times) in [(&ran.stderr, 1), (&watch.stderr, 2)] {
        // A wide line goes on after a colon.
        let said = said.replace("\n  ", " ");
        let on = [
            "other BPF programs are",
            "another BPF program is",
            "another BPF program is",
        ];
        for (function, words) in FUNCTIONS.iter().zip(on) {
            let line = format!("warning: {function}: {words} on it: ");
            ensure!(said.matches(&line).count() == times, "{line}: {said}");
        }
    }
    let last = watch.stdout.lines().last().context("no document")?;
    let last = document(last)?;
    ensure!(
        last["total"][1]["other_programs"][0]["kind"] == "kprobe.multi",
        "{last}"
    );
    Ok(noted
        .concat()
        .into_iter()
        .map(|(kind, name)| kind + " " + &name)
        .collect::<Vec<_>>()
        .join(", "))
}

/// Fails unless bpftrace's fentry, the second referee, is on a target, and nothing else.
pub(crate) fn is_fentry_alone(target: &Value) -> anyhow::Result<()> {
    let on = &target["other_programs"];
    let kinds = on.as_array().context("unknown")?.iter().map(|o| &o["kind"]);
    ensure!(kinds.eq(["fentry"].iter()), "{on}");
    Ok(())
}

fn run() -> anyhow::Result<Ran> {
    let ran = cowprobe(&["run", "--allow-inexact", "-o", RECORD, "--", "true"])?;
    ran.expect(0)?;
    Ok(ran)
}

/// Kinds and names in the record, of programs that are loaded under this name.
fn noted(ran: &Ran) -> anyhow::Result<Vec<Vec<(String, String)>>> {
    let programs = json(&["prog", "show"])?;
    let programs = programs.as_array().context("bpftool lists nothing")?;
    let record = record()?;
    let each = |target: &Value| -> anyhow::Result<Vec<(String, String)>> {
        let others = target["other_programs"].as_array().context("unknown")?;
        let of = |other: &Value| {
            let text = |name: &str| other[name].as_str().map(str::to_owned).context("no text");
            let (kind, name) = (text("kind")?, text("name")?);
            let said = format!("{kind} {name} (id {})", other["id"]);
            ensure!(ran.stderr.contains(&said), "{said}: {}", ran.stderr);
            // bpftool has the whole name from the program's BTF.
            let is = |p: &&Value| {
                p["id"] == other["id"] && p["name"].as_str().is_some_and(|n| n.starts_with(&name))
            };
            programs
                .iter()
                .find(is)
                .with_context(|| format!("no {name} in {programs:?}"))?;
            Ok((kind, name))
        };
        others.iter().map(of).collect()
    };
    let targets = record["targets"].as_array().context("no targets")?;
    targets.iter().map(each).collect()
}

struct Bpftrace(Child);

impl Bpftrace {
    fn start() -> anyhow::Result<Self> {
        let before = links()?;
        let output = File::create(OUTPUT)?;
        let mut command = Command::new("bpftrace");
        command.args(["-e", SCRIPT]).stdin(Stdio::null());
        command.stderr(output.try_clone()?).stdout(output);
        let mut this = Self(command.spawn().context("cannot start bpftrace")?);
        let limit = Instant::now() + Duration::from_mins(1);
        while links()? < before + 3 || kprobes_on(FUNCTIONS[0])? < 2 {
            if let Some(status) = this.0.try_wait()? {
                bail!("bpftrace: {status}: {}", fs::read_to_string(OUTPUT)?);
            }
            ensure!(Instant::now() < limit, "{}", fs::read_to_string(OUTPUT)?);
            thread::sleep(Duration::from_millis(200));
        }
        Ok(this)
    }
}

impl Drop for Bpftrace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kprobes_on(function: &str) -> anyhow::Result<usize> {
    let list = fs::read_to_string("/sys/kernel/debug/kprobes/list")?;
    Ok(list.matches(&format!("{function}+")).count())
}

fn links() -> anyhow::Result<usize> {
    let links = json(&["link", "show"])?;
    Ok(links.as_array().context("bpftool lists no links")?.len())
}
