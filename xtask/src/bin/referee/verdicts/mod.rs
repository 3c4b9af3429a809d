//! The verdict of each case and the exit status that it makes, in the table and in the
//! record, however a run or a watch is ended.

use anyhow::{Context as _, ensure};
use nix::sys::signal::Signal::{self, SIGHUP, SIGINT, SIGKILL, SIGTERM};
use serde_json::Value;

use super::{FUNCTIONS, clone::Pair, filesystem, report::Report};

mod ended;
mod provoked;

use Ended::{Command, Cowprobe, Group, Itself};
use Provoked::{Missed, Nothing, Reloaded, SwitchedOff, Unloaded, Untimed};
use Tool::{Run, Watch};
use provoked::Provoked;

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    /// `cowprobe run`, whose command makes the window.
    Run,
    /// Two of `cowprobe watch` at once, one with tables and one with documents.
    Watch,
}

/// How its window comes to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The command exits; `watch` has its `--duration`.
    Itself,
    /// The command is killed.
    Command(Signal),
    /// The signal is sent to cowprobe alone.
    Cowprobe(Signal),
    /// The signal is sent to cowprobe and its command, as a terminal does.
    Group(Signal),
}

/// One window, with one clone in it.
#[derive(Clone, Copy, Debug)]
struct Case {
    tool: Tool,
    provoked: Provoked,
    ended: Ended,
    args: &'static [&'static str],
    verdict: &'static str,
    exit: i32,
}

const fn case(
    (tool, provoked, ended): (Tool, Provoked, Ended),
    args: &'static [&'static str],
    verdict: &'static str,
    exit: i32,
) -> Case {
    Case {
        tool,
        provoked,
        ended,
        args,
        verdict,
        exit,
    }
}

const ALLOW: &[&str] = &["--allow-inexact"];
const STRICT: &[&str] = &["--strict"];
const DO_WITHOUT: &[&str] = &["--diagnostic", Provoked::MISSING];

/// A kernel that tells what probes miss.
const CASES: &[Case] = &[
    case((Run, Nothing, Itself), &[], "EXACT", 0),
    case((Run, Nothing, Itself), STRICT, "EXACT", 0),
    case((Run, Nothing, Command(SIGTERM)), &[], "EXACT", 143),
    case((Run, Nothing, Command(SIGINT)), &[], "EXACT", 130),
    case((Run, Nothing, Command(SIGKILL)), &[], "EXACT", 137),
    case((Run, Nothing, Cowprobe(SIGTERM)), &[], "EXACT", 143),
    case((Run, Nothing, Cowprobe(SIGHUP)), &[], "EXACT", 129),
    case((Run, Nothing, Group(SIGINT)), &[], "EXACT", 130),
    case((Run, Missed, Itself), &[], "INEXACT", 1),
    case((Run, Missed, Itself), ALLOW, "INEXACT", 0),
    case((Run, Missed, Itself), DO_WITHOUT, "INEXACT", 0),
    case((Run, Missed, Command(SIGKILL)), &[], "INEXACT", 137),
    case((Run, Missed, Cowprobe(SIGTERM)), ALLOW, "INEXACT", 143),
    case((Run, Missed, Group(SIGINT)), &[], "INEXACT", 130),
    case((Run, Untimed, Itself), &[], "INEXACT", 1),
    case((Run, Untimed, Itself), ALLOW, "INEXACT", 0),
    case((Run, Unloaded, Itself), &[], "INVALID", 1),
    case((Run, Unloaded, Itself), ALLOW, "INVALID", 1),
    case((Run, Unloaded, Command(SIGKILL)), &[], "INVALID", 137),
    case((Run, Reloaded, Itself), &[], "INVALID", 1),
    case((Run, Reloaded, Cowprobe(SIGTERM)), &[], "INVALID", 143),
    case((Run, SwitchedOff, Itself), &[], "INVALID", 1),
    case((Run, SwitchedOff, Command(SIGTERM)), &[], "INVALID", 143),
    case((Watch, Nothing, Itself), &[], "EXACT", 0),
    case((Watch, Nothing, Cowprobe(SIGINT)), &[], "EXACT", 0),
    case((Watch, Nothing, Cowprobe(SIGTERM)), STRICT, "EXACT", 0),
    case((Watch, Nothing, Cowprobe(SIGHUP)), &[], "EXACT", 0),
    case((Watch, Missed, Itself), &[], "INEXACT", 1),
    case((Watch, Missed, Cowprobe(SIGINT)), &[], "INEXACT", 1),
    case((Watch, Missed, Cowprobe(SIGTERM)), ALLOW, "INEXACT", 0),
    case((Watch, Missed, Cowprobe(SIGHUP)), DO_WITHOUT, "INEXACT", 0),
    case((Watch, Untimed, Cowprobe(SIGHUP)), &[], "INEXACT", 1),
    case((Watch, Unloaded, Cowprobe(SIGTERM)), &[], "INVALID", 1),
    case((Watch, Reloaded, Cowprobe(SIGINT)), ALLOW, "INVALID", 1),
    case((Watch, SwitchedOff, Cowprobe(SIGHUP)), &[], "INVALID", 1),
];

/// Where the other two functions are absent, as in every kernel that is so old.
const REMAP_ALONE: &[&str] = &["--diagnostic", FUNCTIONS[1], "--diagnostic", FUNCTIONS[2]];

/// A kernel that does not tell what probes miss.
const UNTOLD: &[Case] = &[
    case((Run, Nothing, Itself), &[], "UNPROVEN", 0),
    case((Run, Nothing, Itself), STRICT, "UNPROVEN", 1),
    case((Run, Nothing, Command(SIGKILL)), STRICT, "UNPROVEN", 137),
    case((Run, Nothing, Cowprobe(SIGTERM)), &[], "UNPROVEN", 143),
    case((Run, Untimed, Itself), &[], "INEXACT", 1),
    case((Run, Unloaded, Itself), &[], "INVALID", 1),
    case((Run, Reloaded, Command(SIGTERM)), &[], "INVALID", 143),
    case((Run, SwitchedOff, Itself), &[], "INVALID", 1),
    case((Watch, Nothing, Cowprobe(SIGINT)), &[], "UNPROVEN", 0),
    case((Watch, Nothing, Cowprobe(SIGTERM)), STRICT, "UNPROVEN", 1),
    case((Watch, Nothing, Cowprobe(SIGHUP)), ALLOW, "UNPROVEN", 0),
    case((Watch, Unloaded, Cowprobe(SIGTERM)), &[], "INVALID", 1),
];

/// How many checks there are on a kernel that does not tell of misses.
pub(crate) const UNTOLD_CHECKS: usize = UNTOLD.len();

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CASES.len());
    all(report, CASES, &[])
}

/// Without a plan: these are the last checks of a suite.
pub(crate) fn run_untold(report: &mut Report) -> anyhow::Result<()> {
    all(report, UNTOLD, REMAP_ALONE)
}

fn all(report: &mut Report, cases: &[Case], more: &[&str]) -> anyhow::Result<()> {
    filesystem::fresh(filesystem::Load {
        tasks: 1,
        operations: 1,
    })?;
    Pair::new()?;
    for case in cases {
        provoked::restore()?;
        let ended = match case.tool {
            Run => ended::run(case, more),
            Watch => ended::watch(case, more),
        };
        report.check(&case.name(), ended.and_then(|ended| case.judge(&ended)));
    }
    provoked::restore()?;
    filesystem::unmount()
}

impl Case {
    fn name(&self) -> String {
        let ended = match self.ended {
            Itself => "by itself".to_owned(),
            Command(signal) => format!("the command by {signal}"),
            Cowprobe(signal) => format!("{signal}"),
            Group(signal) => format!("{signal} to the group"),
        };
        let args = self.args.iter().map(|arg| format!(" {arg}"));
        let args: String = args.collect();
        format!("{:?}, {:?}, {ended}{args}", self.tool, self.provoked)
    }

    /// All that tells of the end must tell the same.
    fn judge(&self, ended: &ended::Said) -> anyhow::Result<String> {
        let said = &ended.text;
        for code in &ended.codes {
            ensure!(
                *code == Some(self.exit),
                "exit {code:?} instead of {}: {said}",
                self.exit
            );
        }
        let target = self.provoked.target();
        let in_table = in_table(said, target);
        ensure!(
            !in_table.is_empty() && in_table.iter().all(|word| *word == self.verdict),
            "{in_table:?} of {target}: {said}"
        );
        let written = ended.targets.iter().find(|t| t["symbol"] == target);
        let written = written.with_context(|| format!("no {target} in the record"))?;
        ensure!(written["verdict"] == self.verdict, "{written}");
        // The one clone is counted, or nothing is.
        let calls = &ended.targets[0]["calls"];
        if self.verdict == "INVALID" {
            ensure!(*calls == Value::Null, "{calls} calls");
        } else {
            ensure!(*calls == 1, "{calls} calls");
        }
        // What does not pass says why, and what is let pass as well.
        let why = if self.verdict == "INVALID" {
            self.provoked.cause()
        } else {
            self.verdict
        };
        // A long line is folded; what follows the break is indented.
        let unfolded = said.replace("\n ", " ");
        let mut lines = unfolded.lines().filter(|l| l.starts_with("cowprobe: "));
        let line = lines.find(|l| l.contains(why));
        ensure!(
            line.is_some() != (self.verdict == "EXACT"),
            "{line:?} with {}: {said}",
            self.verdict
        );
        let warned = line.is_some_and(|l| l.contains("warning: "));
        ensure!(
            self.fails_by_verdict() == (line.is_some() && !warned),
            "{line:?} with status {}",
            self.exit
        );
        Ok(format!("{}, exit {}", self.verdict, self.exit))
    }

    /// Whether the verdict alone makes the status 1; one of the command hides that.
    fn fails_by_verdict(&self) -> bool {
        match self.verdict {
            "INVALID" => true,
            "INEXACT" => ![ALLOW, DO_WITHOUT].contains(&self.args),
            "UNPROVEN" => self.args == STRICT,
            _ => false,
        }
    }
}

/// The verdicts in the rows of a target: one, and two where it has no times either.
fn in_table<'a>(said: &'a str, target: &str) -> Vec<&'a str> {
    let words = said.lines().filter_map(|line| {
        let rest = line.strip_prefix(target)?.strip_prefix(' ')?;
        rest.split_whitespace().last()
    });
    words
        .filter(|word| ["EXACT", "UNPROVEN", "INEXACT", "INVALID"].contains(word))
        .collect()
}
