//! What is attached to the kernel, listed by others than cowprobe.

use std::{collections::BTreeSet, fs, thread, time::Duration};

use anyhow::{Context as _, bail};

use super::bpftrace::json;

/// BPF programs, maps and links by id, kprobe events, and registered kprobes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    entries: BTreeSet<String>,
}

impl Attached {
    /// Lists everything now.
    pub(crate) fn list() -> anyhow::Result<Self> {
        let mut entries = BTreeSet::new();
        for kind in ["prog", "map", "link"] {
            let all = json(&[kind, "show"])?;
            for object in all.as_array().context("bpftool lists nothing")? {
                let (id, name) = (&object["id"], &object["name"]);
                entries.insert(format!("{kind} {id} {name}"));
            }
        }
        for file in [
            "tracing/kprobe_events",
            "tracing/dynamic_events",
            "debug/kprobes/list",
        ] {
            let text = fs::read_to_string(format!("/sys/kernel/{file}"))
                .with_context(|| format!("cannot read {file}"))?;
            entries.extend(text.lines().map(|line| format!("{file} {line}")));
        }
        Ok(Self { entries })
    }

    /// How many programs have this name.
    pub(crate) fn programs(&self, name: &str) -> usize {
        let named = |e: &&String| e.starts_with("prog ") && e.ends_with(&format!("\"{name}\""));
        self.entries.iter().filter(named).count()
    }

    /// How many kprobes are registered.
    pub(crate) fn kprobes(&self) -> usize {
        self.entries
            .iter()
            .filter(|e| e.starts_with("debug/kprobes/list"))
            .count()
    }

    /// Fails unless everything is as it was; the kernel frees some of it late.
    pub(crate) fn expect_again(&self) -> anyhow::Result<()> {
        let mut now = Self::list()?;
        for _ in 0..50 {
            if now == *self {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(100));
            now = Self::list()?;
        }
        let left: Vec<_> = now.entries.symmetric_difference(&self.entries).collect();
        bail!("left behind: {left:?}");
    }
}
