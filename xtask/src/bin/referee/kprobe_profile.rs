//! The first referee: a kprobe event of tracefs on each function, enabled all the
//! time. `kprobe_profile` has its hits and misses; both together are the calls
//! (Documentation/trace/kprobetrace.rst of Linux 7.2).

use std::{fs, io::Write as _, thread, time::Duration};

use anyhow::{Context as _, bail, ensure};

const TRACEFS: &str = "/sys/kernel/tracing";
const GROUP: &str = "referee";

/// Adds and enables an event for each function.
pub(crate) fn start(functions: &[&str]) -> anyhow::Result<()> {
    for function in functions {
        let mut events = fs::OpenOptions::new()
            .append(true)
            .open(format!("{TRACEFS}/kprobe_events"))?;
        // One write for the whole line: each write is a command of its own.
        let line = format!("p:{GROUP}/{function} {function}\n");
        events
            .write_all(line.as_bytes())
            .with_context(|| format!("no kprobe event on {function}"))?;
    }
    fs::write(format!("{TRACEFS}/events/{GROUP}/enable"), "1").context("cannot enable the events")
}

/// Takes the events away, so that others may be started.
pub(crate) fn stop() -> anyhow::Result<()> {
    fs::write(format!("{TRACEFS}/events/{GROUP}/enable"), "0")?;
    fs::write(format!("{TRACEFS}/kprobe_events"), "").context("cannot remove the events")
}

/// Hits and misses together, for each function in order.
pub(crate) fn read(functions: &[&str]) -> anyhow::Result<Vec<u64>> {
    let profile = fs::read_to_string(format!("{TRACEFS}/kprobe_profile"))?;
    let counts = functions.iter().map(|function| {
        let line = profile.lines().find_map(|line| {
            let mut fields = line.split_whitespace();
            (fields.next() == Some(function)).then_some(fields)
        });
        let numbers: Vec<u64> = line
            .with_context(|| format!("{function} is not in kprobe_profile"))?
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        ensure!(
            numbers.len() == 2,
            "kprobe_profile has {} columns",
            numbers.len() + 1
        );
        Ok(numbers.iter().sum())
    });
    counts.collect()
}

/// Reads when nothing moves: two readings a second apart are equal.
pub(crate) fn quiet(functions: &[&str]) -> anyhow::Result<Vec<u64>> {
    let mut last = read(functions)?;
    for _ in 0..30 {
        thread::sleep(Duration::from_secs(1));
        let next = read(functions)?;
        if next == last {
            return Ok(next);
        }
        last = next;
    }
    bail!("the filesystem does not come to rest: {last:?}");
}
