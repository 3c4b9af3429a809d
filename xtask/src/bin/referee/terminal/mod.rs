//! What `cowprobe watch` draws in a real terminal: tmux, resized while it runs, and
//! captured as a user sees it.
//!
//! A capture is compared with a golden text in which every number that differs from
//! run to run is `N`, and spaces are squeezed; that nothing is wrapped or shifted is
//! looked for in the capture itself. `UPDATE=1 cargo xtask test --only terminal`
//! writes the golden texts anew.

use std::{fs, thread, time::Duration};

use anyhow::{Context as _, bail, ensure};

use super::{
    FUNCTIONS,
    filesystem::{self, Load, sh},
    report::Report,
};

mod masked;

/// Where captures are left: `NAME.txt` as it was, `NAME.masked.txt` as it is
/// compared.
const OUT: &str = "/out";

const SESSION: &str = "cowprobe";
const LOAD: Load = Load {
    tasks: 1,
    operations: 500,
};

/// Columns, and what is to be seen then.
const WIDTHS: [(usize, &str, &str); 4] = [
    (80, "80", include_str!("80.txt")),
    (60, "60", include_str!("60.txt")),
    (200, "200", include_str!("200.txt")),
    // Back again: nothing of the wider one is left.
    (80, "80-again", include_str!("80.txt")),
];

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(WIDTHS.len() + 2);
    filesystem::fresh(LOAD)?;
    let prompt = start("cowprobe watch -I 500")?;
    let mut bench = LOAD.bench("--prepared", 0);
    let status = bench.stdout(std::process::Stdio::null()).status()?;
    ensure!(status.success(), "the workload: {status}");
    sh("sync", &[])?;
    for (columns, name, golden) in WIDTHS {
        report.check(name, shown(columns, name, golden));
    }
    report.check("totals", totals(&prompt));
    filesystem::unmount()?;
    report.check("histogram", histogram());
    Ok(())
}

/// Starts a command in a terminal of 80 columns; returns what stands there before.
fn start(command: &str) -> anyhow::Result<String> {
    let size = ["-x", "80", "-y", "40"];
    sh(
        "tmux",
        &[
            &["-f", "/dev/null", "new-session", "-d", "-s", SESSION],
            &size[..],
        ]
        .concat(),
    )?;
    let marked = "PS1='$ '; clear; echo what was there before";
    sh("tmux", &["send-keys", "-t", SESSION, marked, "Enter"])?;
    let before = until(|screen| screen == "what was there before\n$\n")?;
    sh("tmux", &["send-keys", "-t", SESSION, command, "Enter"])?;
    until(|screen| screen.starts_with("kernel"))?;
    Ok(before)
}

fn end() -> anyhow::Result<()> {
    sh("tmux", &["kill-session", "-t", SESSION]).map(drop)
}

fn capture() -> anyhow::Result<String> {
    let screen = sh("tmux", &["capture-pane", "-p", "-t", SESSION])?;
    Ok(screen.trim_end().to_owned() + "\n")
}

/// Captures until the screen is as it must be.
fn until(is_right: impl Fn(&str) -> bool) -> anyhow::Result<String> {
    let mut screen = String::new();
    for _ in 0..100 {
        screen = capture()?;
        if is_right(&screen) {
            return Ok(screen);
        }
        thread::sleep(Duration::from_millis(200));
    }
    bail!("this is what the screen shows: {screen}")
}

fn shown(columns: usize, name: &str, golden: &str) -> anyhow::Result<String> {
    sh(
        "tmux",
        &["resize-window", "-t", SESSION, "-x", &columns.to_string()],
    )?;
    // Two intervals in which nothing happens.
    thread::sleep(Duration::from_secs(1));
    let screen = until(|screen| screen.contains("btrfs_"))?;
    keep(name, &screen)?;
    masked::fits(&screen, columns)?;
    for (function, calls) in FUNCTIONS.into_iter().zip(["1,000", "3,", "1,0"]) {
        ensure!(
            masked::first_number(&screen, function).is_some_and(|n| n.starts_with(calls)),
            "{function} is not {calls}: {screen}"
        );
    }
    compare(name, &screen, golden)
}

fn totals(before: &str) -> anyhow::Result<String> {
    sh("tmux", &["send-keys", "-t", SESSION, "C-c"])?;
    // The prompt is there again.
    let screen = until(|screen| screen.ends_with("$\n") && screen.contains("  dedupe"))?;
    end()?;
    keep("totals", &screen)?;
    ensure!(
        screen.starts_with(before.trim_end()),
        "what was on the screen is lost: {screen}"
    );
    masked::fits(&screen, 80)?;
    compare("totals", &screen, include_str!("totals.txt"))
}

/// Bars of however many buckets, in the narrowest terminal.
fn histogram() -> anyhow::Result<String> {
    filesystem::fresh(LOAD)?;
    start("cowprobe watch -I 500 --hist btrfs_remap_file_range")?;
    sh("tmux", &["resize-window", "-t", SESSION, "-x", "60"])?;
    let mut bench = LOAD.bench("--prepared", 0);
    let status = bench.stdout(std::process::Stdio::null()).status()?;
    ensure!(status.success(), "the workload: {status}");
    let screen = until(|screen| {
        screen.contains("|#")
            && masked::first_number(screen, "btrfs_remap_file_range") == Some("1,000")
    })?;
    end()?;
    filesystem::unmount()?;
    keep("histogram", &screen)?;
    masked::fits(&screen, 60)?;
    let bars: Vec<&str> = screen.lines().filter(|l| l.contains('|')).collect();
    let bar = bars.first().and_then(|bar| bar.find('|'));
    ensure!(
        bar.is_some() && bars.iter().all(|line| line.find('|') == bar),
        "the bars do not stand in a row: {screen}"
    );
    let counts = bars
        .iter()
        .filter_map(|line| line.split('|').next()?.split_whitespace().next_back());
    let sum: u64 = counts
        .map(|n| n.replace(',', "").parse().unwrap_or(0))
        .sum();
    ensure!(sum == 1000, "the bars are of {sum} calls: {screen}");
    Ok(format!("{} bars in 60 columns", bars.len()))
}

fn compare(name: &str, screen: &str, golden: &str) -> anyhow::Result<String> {
    let masked = masked::mask(screen);
    ensure!(masked == golden, "{name} is {masked:?}, not {golden:?}");
    Ok(format!("{} lines", screen.lines().count()))
}

fn keep(name: &str, screen: &str) -> anyhow::Result<()> {
    let file = |end: &str| format!("{OUT}/{name}{end}");
    fs::write(file(".txt"), screen)?;
    fs::write(file(".masked.txt"), masked::mask(screen)).context("cannot keep a capture")
}
