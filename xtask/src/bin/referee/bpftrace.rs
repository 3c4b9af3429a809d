//! The second referee: bpftrace's fentry on each function, another hook with
//! losses of its own. Its count and the misses of its program are the calls.
//!
//! Both are read at once and without bpftrace's help: the maps by bpftool, the
//! misses where the kernel shows bpftrace's programs, in `/proc/PID/fdinfo`.

use std::{
    collections::HashMap,
    fs::{self, File},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::filesystem::sh;

/// What bpftrace says.
const OUTPUT: &str = "/tmp/bpftrace.out";
/// Its process id.
const PID: &str = "/tmp/bpftrace.pid";
/// Its programs, by function.
const PROGRAMS: &str = "/tmp/bpftrace.programs";
/// What bpftool is asked.
const BATCH: &str = "/tmp/bpftool.batch";

/// A running bpftrace; ended when dropped.
#[derive(Debug)]
pub(crate) struct Bpftrace {
    child: Child,
}

/// The name of a function's map: short, for the kernel keeps 15 characters.
fn map_name(index: usize) -> String {
    format!("referee{index}")
}

impl Bpftrace {
    /// Starts it and waits until every function is attached.
    pub(crate) fn start(functions: &[&str]) -> anyhow::Result<Self> {
        let module = std::path::Path::new("/sys/kernel/btf/btrfs").exists();
        let place = if module { "btrfs" } else { "vmlinux" };
        let probe = |(i, f)| format!("fentry:{place}:{f} {{ @{} = count(); }}", map_name(i));
        let probes: Vec<String> = functions.iter().enumerate().map(probe).collect();
        let script = probes.join(" ");
        let output = File::create(OUTPUT)?;
        let child = Command::new("bpftrace")
            .args(["-e", &script])
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .spawn()
            .context("cannot start bpftrace")?;
        fs::write(PID, child.id().to_string())?;
        let mut this = Self { child };
        let start = Instant::now();
        while tracing_links()? < functions.len() {
            if let Some(status) = this.child.try_wait()? {
                let said = fs::read_to_string(OUTPUT).unwrap_or_default();
                bail!("bpftrace ended with {status}: {said}");
            }
            ensure!(
                start.elapsed() < Duration::from_mins(1),
                "bpftrace does not attach"
            );
            thread::sleep(Duration::from_millis(200));
        }
        Ok(this)
    }
}

impl Drop for Bpftrace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Count and misses together, for each function in order; and all misses.
pub(crate) fn read(functions: &[&str]) -> anyhow::Result<(Vec<u64>, u64)> {
    let ids = program_ids()?;
    let misses = recursion_misses()?;
    let mut calls = counts(functions.len())?;
    let mut all = 0;
    for (function, calls) in functions.iter().zip(&mut calls) {
        let id = ids.get(*function);
        let id = id.with_context(|| format!("no fentry program on {function}"))?;
        let misses = misses.get(id);
        let misses = misses.with_context(|| format!("no program {id} in bpftrace's hands"))?;
        *calls += misses;
        all += misses;
    }
    Ok((calls, all))
}

/// Which program is on which function, by bpftool's names; asked for once, and
/// kept for the processes that read later.
fn program_ids() -> anyhow::Result<HashMap<String, u64>> {
    if let Ok(text) = fs::read_to_string(PROGRAMS) {
        return Ok(serde_json::from_str(&text)?);
    }
    let programs = json(&["prog", "show"])?;
    let mut ids = HashMap::new();
    for program in programs.as_array().context("bpftool lists no programs")? {
        let name = program["name"].as_str().unwrap_or_default();
        // Such as fentry_btrfs_btrfs_remap_file_range_1.
        let function = super::FUNCTIONS
            .into_iter()
            .find(|f| name.contains(&format!("_{f}_")));
        if let (true, Some(function)) = (program["type"] == "tracing", function) {
            let id = program["id"].as_u64().context("a program without an id")?;
            let other = ids.insert(function.to_owned(), id);
            ensure!(other.is_none(), "two fentry programs on {function}");
        }
    }
    fs::write(PROGRAMS, serde_json::to_string(&ids)?)?;
    Ok(ids)
}

/// The misses of each of bpftrace's programs, by id.
fn recursion_misses() -> anyhow::Result<HashMap<u64, u64>> {
    let pid = fs::read_to_string(PID).context("bpftrace does not run")?;
    let mut misses = HashMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // An fd may be closed by the time that it is read.
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.trim().parse().ok())
        };
        if let (Some(id), Some(n)) = (field("prog_id:"), field("recursion_misses:")) {
            misses.insert(id, n);
        }
    }
    Ok(misses)
}

/// The sum of each function's map over all keys and CPUs.
fn counts(functions: usize) -> anyhow::Result<Vec<u64>> {
    let dump = |i| format!("map dump name AT_{}\n", map_name(i));
    fs::write(BATCH, (0..functions).map(dump).collect::<Vec<_>>().concat())?;
    let answers = json(&["batch", "file", BATCH])?;
    let answers = answers.as_array().context("bpftool answers nothing")?;
    ensure!(
        answers.len() == functions,
        "bpftool answers {} times",
        answers.len()
    );
    answers
        .iter()
        .map(|answer| sum(&answer["output"]))
        .collect()
}

fn sum(dump: &Value) -> anyhow::Result<u64> {
    let mut sum = 0;
    for element in dump.as_array().context("bpftool dumps no elements")? {
        let cpus = element["values"].as_array().context("not a per-CPU map")?;
        for cpu in cpus {
            let bytes = cpu["value"].as_array().context("a value without bytes")?;
            let word = bytes.get(..8).context("a value shorter than a count")?;
            for (i, byte) in word.iter().enumerate() {
                let hex = byte.as_str().context("no hexadecimal byte")?;
                let byte = u8::from_str_radix(hex.trim_start_matches("0x"), 16)?;
                sum += u64::from(byte) << (8 * i);
            }
        }
    }
    Ok(sum)
}

fn tracing_links() -> anyhow::Result<usize> {
    let links = json(&["link", "show"])?;
    let links = links.as_array().context("bpftool lists no links")?;
    Ok(links.iter().filter(|l| l["type"] == "tracing").count())
}

/// What bpftool says, as JSON. A list fails while an object in it comes or goes
/// (EAGAIN, ENOENT), so it is asked again.
pub(crate) fn json(args: &[&str]) -> anyhow::Result<Value> {
    let args = [&["-j"], args].concat();
    let mut text = sh("bpftool", &args);
    for _ in 0..20 {
        if text.is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
        text = sh("bpftool", &args);
    }
    let text = text?;
    serde_json::from_str(&text).with_context(|| format!("bpftool {}: {text}", args.join(" ")))
}
