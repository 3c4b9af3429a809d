//! A report as Markdown, for a web page or an issue.

use super::{between, bounds, means, shell::command_line, wrap::ascii};
use crate::model::{Fact, Report};

/// The same sections as a mail's, in the same order.
pub(crate) fn report_markdown(report: &Report) -> String {
    let mut text = String::new();
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            text.extend(["## ", title, "\n\n", &body, "\n"]);
        }
    };
    section("What was tested", facts(&report.tested));
    section("Failed", list(&report.failed));
    section("Calls", counts(report));
    section("Expected", list(&report.expectations));
    section("Time from entry to return, ns", latency(report));
    section("Rounds, ns an operation", timing(report));
    section(
        "Control, patched, control, ns an operation",
        comparison(report),
    );
    section("Semantic checks", facts(&report.checks));
    section("Identity", facts(&report.identity));
    if !report.command.is_empty() {
        let command = command_line(&report.command);
        section("Command", format!("```\n{command}\n```\n"));
    }
    section("Scope and caveats", list(&report.caveats));
    section("SHA-256", facts(&report.sources));
    if let Some(who) = &report.tested_by {
        text.extend(["`Tested-by: ", who, "`\n"]);
    }
    text
}

/// Text that is nothing but text.
fn cell(text: &str) -> String {
    ascii(text).chars().fold(String::new(), |mut out, c| {
        if "\\`*_{}[]<>#|~&".contains(c) {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A table whose first column is words, and the others numbers.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: String = rows.map(|cells| row(&cells)).collect();
    if rows.is_empty() {
        return rows;
    }
    let head: Vec<_> = head.iter().map(|&name| name.to_owned()).collect();
    let line = format!("|---|{}\n", "---:|".repeat(head.len() - 1));
    row(&head) + &line + &rows
}

fn list(items: &[String]) -> String {
    let lines = items.iter().map(|item| format!("- {}\n", cell(item)));
    lines.collect()
}

fn facts(all: &[Fact]) -> String {
    let lines = all.iter();
    let lines = lines.map(|fact| format!("- {}: {}\n", cell(&fact.name), cell(&fact.value)));
    lines.collect()
}

fn counts(report: &Report) -> String {
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let rows = report.counts.iter().flat_map(|of| {
        let numbers = [of.calls, of.missed, of.errors].map(number);
        let mut whole = vec![cell(&of.function)];
        whole.extend(numbers);
        whole.push(cell(&of.verdict));
        let parts = of.parts.iter().map(|part| {
            let none = String::new;
            let name = format!("... {}", cell(&part.name));
            vec![name, part.calls.to_string(), none(), none(), none()]
        });
        std::iter::once(whole).chain(parts)
    });
    table(&["function", "calls", "missed", "errors", "verdict"], rows)
}

fn latency(report: &Report) -> String {
    let rows = report.latency.iter().map(|block| {
        let mut cells = vec![cell(&block.function), cell(&block.verdict)];
        cells.extend([block.count, block.min, block.max].map(|n| n.to_string()));
        cells.push(block.mean.clone());
        cells.extend(bounds(block).map(|(_, value)| between(value)));
        cells
    });
    let head = [
        "function", "times", "count", "min", "max", "mean", "median", "stddev", "90th", "95th",
        "99th",
    ];
    table(&head, rows)
}

fn timing(report: &Report) -> String {
    let rows = report.timing.iter().map(|of| {
        let name = format!("{}, {}, {}", of.target_id, of.kernel, of.scenario);
        let mut cells = vec![cell(&name), of.rounds.to_string()];
        cells.extend(means(of).map(|(_, value)| value.to_owned()));
        cells
    });
    let head = ["operation", "rounds", "mean", "without first", "min", "max"];
    table(&head, rows)
}

fn comparison(report: &Report) -> String {
    let rows = report.comparison.iter().map(|of| {
        vec![
            cell(&format!("{}, {}", of.scenario, of.rounds)),
            of.control_a.clone(),
            of.patched.clone(),
            of.control_b.clone(),
            format!("{}%", of.drift_pct),
            format!("{}%", of.delta_pct),
        ]
    });
    let head = [
        "operation",
        "control A",
        "patched",
        "control B",
        "drift",
        "delta",
    ];
    table(&head, rows)
}
