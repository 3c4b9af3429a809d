//! What each tool says of a function's times.

use std::{fs, process::Command};

use anyhow::Context as _;
use serde_json::{Map, Value};

use super::super::{
    FUNCTIONS,
    cowprobe::{RECORD, Ran, cowprobe, record},
};

/// What bpftrace runs.
const COMMAND: &str = "/tmp/command.sh";

/// One function's times, as one of the tools saw them.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) calls: u64,
    pub(super) sum_ns: u64,
    buckets: Vec<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    low_ns: u64,
    /// The first above.
    end_ns: u64,
    count: u64,
}

impl Times {
    pub(super) fn mean_ns(&self) -> u64 {
        self.sum_ns / self.calls
    }

    /// Where the buckets begin, and where the last ends.
    pub(super) fn bounds(&self) -> impl Iterator<Item = u64> {
        let last = self.buckets.last().map(|b| b.end_ns);
        self.buckets.iter().map(|b| b.low_ns).chain(last)
    }

    /// How many are below for sure, and how many may be.
    pub(super) fn below(&self, ns: u64) -> (u64, u64) {
        let sum = |is: &dyn Fn(&Bucket) -> bool| {
            let some = self.buckets.iter().filter(|b| is(b));
            some.map(|b| b.count).sum()
        };
        (sum(&|b| b.end_ns <= ns), sum(&|b| b.low_ns < ns))
    }
}

/// How bpftrace finds the start of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// By task, as everybody writes it.
    Plain,
    /// By task and depth.
    Nested,
}

impl Script {
    /// Times a function in maps of its own.
    pub(crate) fn of(self, function: &str, place: usize) -> String {
        let (down, key, up) = match self {
            Self::Plain => (String::new(), "tid".to_owned(), String::new()),
            Self::Nested => (
                format!("@depth{place}[tid]++;"),
                format!("tid, @depth{place}[tid]"),
                format!("@depth{place}[tid]--;"),
            ),
        };
        let start = format!("@start{place}[{key}]");
        format!(
            "kprobe:{function} {{ {down} {start} = nsecs; }} \
             kretprobe:{function} /{start}/ {{ \
             $time = nsecs - {start}; delete({start}); {up} \
             @hist{place} = hist($time); @sum{place} = sum($time); @count{place} = count(); }} "
        )
    }
}

/// The times of these functions while a shell's command runs.
pub(super) fn by_cowprobe(functions: &[&str], command: &str) -> anyhow::Result<Vec<Times>> {
    let mut args = vec!["run", "-o", RECORD];
    for function in functions.iter().filter(|f| !FUNCTIONS.contains(f)) {
        args.extend(["--probe", function]);
    }
    args.extend(["--", "sh", "-c", command]);
    cowprobe(&args)?.expect(0)?;
    let record = record()?;
    let targets = record["targets"].as_array().context("no targets")?;
    let each = functions.iter().map(|function| {
        let target = targets.iter().find(|t| t["symbol"] == **function);
        of_target(target.with_context(|| format!("no {function}"))?)
    });
    each.collect()
}

fn of_target(target: &Value) -> anyhow::Result<Times> {
    let latency = &target["latency"];
    let bucket = |b: &Value| -> anyhow::Result<Bucket> {
        Ok(Bucket {
            low_ns: number(&b["low_ns"])?,
            end_ns: number(&b["high_ns"])? + 1,
            count: number(&b["count"])?,
        })
    };
    let buckets = latency["buckets"].as_array().context("no buckets")?;
    Ok(Times {
        calls: number(&target["returns"])?,
        sum_ns: number(&latency["sum_ns"])?,
        buckets: buckets.iter().map(bucket).collect::<anyhow::Result<_>>()?,
    })
}

/// The same by a script.
pub(super) fn by_bpftrace(
    script: Script,
    functions: &[&str],
    command: &str,
) -> anyhow::Result<Vec<Times>> {
    let each = functions.iter().enumerate();
    let text: String = each.map(|(place, f)| script.of(f, place)).collect();
    let maps = maps_of(&text, command)?;
    let of_place = |place: usize| -> anyhow::Result<Times> {
        let map = |name: &str| {
            let value = maps.get(&format!("@{name}{place}"));
            value.with_context(|| format!("the script recorded no {name}: {maps:?}"))
        };
        let bucket = |b: &Value| -> anyhow::Result<Bucket> {
            Ok(Bucket {
                // The first has no minimum.
                low_ns: b["min"].as_u64().unwrap_or(0),
                end_ns: number(&b["max"])? + 1,
                count: number(&b["count"])?,
            })
        };
        let buckets = map("hist")?.as_array().context("no buckets")?;
        Ok(Times {
            calls: number(map("count")?)?,
            sum_ns: number(map("sum")?)?,
            buckets: buckets.iter().map(bucket).collect::<anyhow::Result<_>>()?,
        })
    };
    (0..functions.len()).map(of_place).collect()
}

/// Runs a script while a shell's command runs, and returns its maps.
pub(crate) fn maps_of(script: &str, command: &str) -> anyhow::Result<Map<String, Value>> {
    let mut bpftrace = Command::new("bpftrace");
    // It takes what is between spaces for words, quotes or not.
    fs::write(COMMAND, command)?;
    let command = format!("/bin/sh {COMMAND}");
    bpftrace.args(["-f", "json", "-e", script, "-c", &command]);
    let out = bpftrace.output().context("cannot start bpftrace")?;
    let ran = Ran::from_output(&out);
    ran.expect(0)?;
    let documents = ran
        .stdout
        .lines()
        .filter_map(|l| serde_json::from_str(l).ok());
    let mut maps = Map::new();
    for document in documents.filter(|d: &Value| d["type"] != "attached_probes") {
        let data = document["data"].as_object().into_iter().flatten();
        maps.extend(data.map(|(name, value)| (name.clone(), value.clone())));
    }
    Ok(maps)
}

fn number(value: &Value) -> anyhow::Result<u64> {
    value.as_u64().with_context(|| format!("no count: {value}"))
}
