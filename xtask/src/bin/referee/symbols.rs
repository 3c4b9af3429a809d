//! The functions of the running kernel.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use anyhow::ensure;

use super::FUNCTIONS;

/// How many functions there are of each name.
pub(crate) fn functions() -> anyhow::Result<HashMap<String, u32>> {
    let text = fs::read_to_string("/proc/kallsyms")?;
    let mut functions = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split_whitespace().skip(1);
        if let (Some("t" | "T"), Some(name)) = (fields.next(), fields.next()) {
            *functions.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    ensure!(!functions.is_empty(), "no symbols");
    Ok(functions)
}

/// Functions of btrfs that can be probed: of one name each, and without copies.
pub(crate) fn traceable_in_btrfs(count: usize) -> anyhow::Result<Vec<String>> {
    let symbols = functions()?;
    let copied: HashSet<&str> = symbols
        .keys()
        .filter_map(|n| Some(n.split_once('.')?.0))
        .collect();
    let list = fs::read_to_string("/sys/kernel/tracing/available_filter_functions")?;
    let of_btrfs = list
        .lines()
        .filter_map(|line| line.strip_suffix(" [btrfs]"));
    let some: Vec<String> = of_btrfs
        .filter(|name| {
            symbols.get(*name) == Some(&1) && !copied.contains(name) && !name.contains('.')
        })
        .filter(|name| !FUNCTIONS.contains(name))
        .map(str::to_owned)
        .collect();
    let step = some.len() / count;
    ensure!(step > 0, "btrfs has {} functions", some.len());
    Ok(some.into_iter().step_by(step).take(count).collect())
}
