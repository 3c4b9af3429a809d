//! Runs cowprobe as a user does, and reads the record that it wrote.

use std::{
    process::{Command, Output, Stdio},
    sync::LazyLock,
};

use anyhow::{Context as _, ensure};
use jsonschema::Validator;
use serde_json::Value;

/// Where a record goes.
pub(crate) const RECORD: &str = "/tmp/record.json";

/// What a run of cowprobe left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// From the output of a process.
    pub(crate) fn from_output(out: &Output) -> Self {
        Self {
            code: out.status.code(),
            stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }

    /// Checks the exit status, showing what was said if it is another.
    pub(crate) fn expect(&self, code: i32) -> anyhow::Result<()> {
        ensure!(
            self.code == Some(code),
            "exit {:?} instead of {code}: {}",
            self.code,
            self.stderr
        );
        Ok(())
    }

    /// Checks for a single line on standard error that has these words in it.
    pub(crate) fn expect_line(&self, words: &[&str]) -> anyhow::Result<()> {
        let stderr = &self.stderr;
        ensure!(stderr.lines().count() == 1, "not one line: {stderr:?}");
        for word in words {
            ensure!(stderr.contains(word), "{word:?} is missing: {stderr:?}");
        }
        Ok(())
    }
}

/// Runs cowprobe without input.
pub(crate) fn cowprobe(args: &[&str]) -> anyhow::Result<Ran> {
    let out = Command::new("cowprobe")
        .args(args)
        .stdin(Stdio::null())
        .output();
    Ok(Ran::from_output(&out.context("cannot start cowprobe")?))
}

/// The record that the last run wrote.
pub(crate) fn record() -> anyhow::Result<Value> {
    document(&std::fs::read_to_string(RECORD).context("no record")?)
}

/// The forms of what cowprobe writes.
const SCHEMAS: [(&str, &str); 4] = [
    (
        "cowprobe-record-1",
        include_str!("../../../../probe-user/schema/cowprobe-record-1.schema.json"),
    ),
    (
        "cowprobe-interval-1",
        include_str!("../../../../probe-user/schema/cowprobe-interval-1.schema.json"),
    ),
    (
        "cowprobe-check-1",
        include_str!("../../../../probe-user/schema/cowprobe-check-1.schema.json"),
    ),
    (
        "cowprobe-report-1",
        include_str!("../../../../probe-user/schema/cowprobe-report-1.schema.json"),
    ),
];

/// The same, ready to compare with.
static VALIDATORS: LazyLock<[Validator; 4]> = LazyLock::new(|| {
    SCHEMAS.map(|(_, text)| {
        let schema = serde_json::from_str(text).expect("JSON");
        jsonschema::draft202012::new(&schema).expect("a schema")
    })
});

/// What cowprobe wrote, if it is as the schema that it names says.
pub(crate) fn document(text: &str) -> anyhow::Result<Value> {
    let document: Value = serde_json::from_str(text).context("it is not JSON")?;
    let named = &document["schema"];
    let place = SCHEMAS.iter().position(|(name, _)| named == *name);
    let place = place.with_context(|| format!("there is no schema {named}"))?;
    let errors = VALIDATORS[place].iter_errors(&document);
    let errors: Vec<_> = errors
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    ensure!(
        errors.is_empty(),
        "not as {named} says: {}",
        errors.join("; ")
    );
    Ok(document)
}

/// Calls and missed calls together, for each function in order.
pub(crate) fn calls_and_missed(record: &Value, functions: &[&str]) -> anyhow::Result<Vec<u64>> {
    let targets = record["targets"].as_array().context("no targets")?;
    let each = functions.iter().map(|function| {
        let target = targets.iter().find(|t| t["symbol"] == **function);
        let target = target.with_context(|| format!("{function} is not in the record"))?;
        let field = |name: &str| {
            let n = target[name].as_u64();
            n.with_context(|| format!("{function}: {name} is {}", target[name]))
        };
        Ok(field("calls")? + field("missed")? + field("recursion_misses")?)
    });
    each.collect()
}

/// How many hits of each target were told as missed, calls and returns.
pub(crate) fn missed(record: &Value) -> Vec<u64> {
    let targets = record["targets"].as_array().map(Vec::as_slice);
    let names = [
        "missed",
        "recursion_misses",
        "return_missed",
        "return_recursion_misses",
    ];
    let of = |t: &Value| {
        names
            .iter()
            .map(|name| t[*name].as_u64().unwrap_or(0))
            .sum()
    };
    targets.unwrap_or_default().iter().map(of).collect()
}

/// The exit status of a run whose command succeeded. A missed hit fails it. They
/// are rare, and not ours to prevent: while any program's map operation is
/// preempted, the kernel skips and counts the kprobe programs of that CPU
/// (`bpf_disable_instrumentation`, include/linux/bpf.h of Linux 7.2).
pub(crate) fn status(missed: &[u64]) -> i32 {
    i32::from(missed.iter().sum::<u64>() > 0)
}
