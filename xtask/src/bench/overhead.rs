//! `cargo xtask bench overhead`.

use std::{fmt::Write as _, process::ExitCode};

use anyhow::{Context, Result};
use serde::Deserialize;

/// Options of `cargo xtask bench overhead`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: super::Common,
}

/// What the guest says of a hit.
#[derive(Deserialize)]
struct Figure {
    what: String,
    hook: String,
    tool: String,
    /// Thousandths of an instruction.
    cost: u64,
}

/// The floor of its hook.
const FLOOR: &str = "nothing";
/// The tool that others are compared with.
const USUAL: &str = "bpftrace";

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let (kernel, said) = args.common.measured("overhead", true)?;
    if args.common.json {
        print!("{said}");
        return Ok(ExitCode::SUCCESS);
    }
    let figures: Vec<Figure> = serde_json::from_str(&said).context("the guest says no figures")?;
    print!("{}", table(&kernel, &figures));
    Ok(ExitCode::SUCCESS)
}

/// Each figure, over the floor of its hook, and as a part of what the usual tool takes.
#[expect(clippy::cast_precision_loss, reason = "thousands of instructions")]
fn table(kernel: &str, figures: &[Figure]) -> String {
    let mut text =
        format!("{kernel}, instructions a hit over a loop of umask(2), medians of 5\n\n");
    let _ = writeln!(
        text,
        "{:8} {:7} {:20} {:>8} {:>11} {:>11}",
        "", "hook", "by", "a hit", "over floor", "/ bpftrace"
    );
    for figure in figures {
        let of = |tool: &str| {
            let same = |f: &&Figure| f.what == figure.what && f.hook == figure.hook;
            let found = figures.iter().filter(same).find(|f| f.tool == tool);
            found.map(|f| f.cost as f64)
        };
        let cost = figure.cost as f64;
        let over = of(FLOOR).map_or_else(
            || "-".to_owned(),
            |floor| format!("{:.0}", (cost - floor) / 1000.0),
        );
        let ratio =
            of(USUAL).map_or_else(|| "-".to_owned(), |usual| format!("{:.2}", cost / usual));
        let _ = writeln!(
            text,
            "{:8} {:7} {:20} {:>8.1} {over:>11} {ratio:>11}",
            figure.what,
            figure.hook,
            figure.tool,
            cost / 1000.0
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_compared_with_those_of_its_hook() {
        let figure = |hook: &str, tool: &str, cost| Figure {
            what: "timed".to_owned(),
            hook: hook.to_owned(),
            tool: tool.to_owned(),
            cost,
        };
        let figures = [
            figure("kprobe", "nothing", 700_000),
            figure("kprobe", "bpftrace", 2_000_000),
            figure("kprobe", "cowprobe", 1_000_000),
            figure("fentry", "nothing", 100_000),
        ];
        let text = table("7.3", &figures);
        let row = text
            .lines()
            .find(|l| l.contains("cowprobe"))
            .expect("a row");
        let words: Vec<_> = row.split_whitespace().collect();
        assert_eq!(
            words,
            ["timed", "kprobe", "cowprobe", "1000.0", "300", "0.50"]
        );
        let row = text.lines().last().expect("a row");
        assert!(row.ends_with('-'), "{row}");
    }
}
