//! Functions that `--probe` cannot have: one line that says why, and nothing runs.

use std::fs;

use anyhow::Context as _;

use super::{
    super::{cowprobe::cowprobe, symbols::functions},
    MARK, nothing_ran,
};

/// Asks for these functions and wants to be refused with these words.
fn refused(functions: &[&str], words: &[&str]) -> anyhow::Result<String> {
    let mut args = vec!["run"];
    for function in functions {
        args.extend(["--probe", function]);
    }
    args.extend(["--", "touch", MARK]);
    let ran = cowprobe(&args)?;
    ran.expect(2)?;
    ran.expect_line(words)?;
    nothing_ran()?;
    Ok(ran.stderr)
}

pub(super) fn unknown() -> anyhow::Result<String> {
    refused(
        &["no_such_function"],
        &["no_such_function", "/proc/kallsyms"],
    )
}

/// It is in the sources of every kernel here, and inlined into two callers.
pub(super) fn inlined() -> anyhow::Result<String> {
    let words = "has no function should_cow_block, or inlined it into its callers";
    refused(&["should_cow_block"], &[words])
}

pub(super) fn blacklisted() -> anyhow::Result<String> {
    let list = fs::read_to_string("/sys/kernel/debug/kprobes/blacklist")?;
    let symbols = functions()?;
    let mut names = list.lines().filter_map(|l| l.split_whitespace().nth(1));
    let name = names.find(|name| symbols.get(*name) == Some(&1));
    let name = name.context("nothing is blacklisted")?;
    refused(&[name], &[name, "kprobe blacklist"])
}

pub(super) fn untraceable() -> anyhow::Result<String> {
    refused(&["__schedule"], &["__schedule", "lets nobody probe it"])
}

pub(super) fn too_many() -> anyhow::Result<String> {
    let names: Vec<String> = (0..33).map(|n| format!("f{n}")).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    refused(&names, &["33 functions", "32 are possible"])
}

/// A function of which the compiler made copies.
pub(super) fn with_twins() -> anyhow::Result<String> {
    let symbols = functions()?;
    let twins = symbols.keys().filter_map(|name| {
        let (base, rest) = name.split_once(".constprop.")?;
        (!base.contains('.') && !rest.contains('.')).then_some((base, name))
    });
    let (base, twin) = twins.min().context("no function has copies")?;
    refused(&[base], &[base, twin, "would not be whole"])
}

pub(super) fn of_several() -> anyhow::Result<String> {
    let symbols = functions()?;
    let several = symbols.iter().filter(|(_, count)| **count > 1);
    let several = several.map(|(name, _)| name).filter(|name| {
        // One with copies is refused for these.
        let copy = format!("{name}.");
        !name.contains('.') && !symbols.keys().any(|other| other.starts_with(&copy))
    });
    let name = several.min().context("no two functions have one name")?;
    refused(&[name], &[name, " functions "])
}
