//! A report as a mail, as Markdown, and as a table of tab-separated values.

mod markdown;
mod shell;
mod wrap;

pub(crate) use markdown::report_markdown;

use tabled::settings::Alignment;

use self::{
    shell::command_lines,
    wrap::{ascii, facts, paragraph},
};
use super::{WIDTH, lay_out, with_names_above};
use crate::model::{Between, CountedFunction, LatencyBlock, Report, Timing};

/// A mail's text: at most [`WIDTH`] columns of ASCII without a tab, in the same order
/// each time. The name of who tested is as it was given.
pub(crate) fn report_mail(report: &Report) -> String {
    let mut sections = vec![
        section("What was tested", &facts(&report.tested)),
        section("Failed", &list(&report.failed)),
        section("Calls", &counts(&report.counts)),
        section("Expected", &list(&report.expectations)),
    ];
    let blocks = report.latency.iter().map(latency);
    let blocks: Vec<_> = blocks.collect();
    sections.push(section("Time from entry to return, ns", &blocks.join("\n")));
    sections.push(section("Rounds, ns an operation", &timing(&report.timing)));
    sections.push(section(
        "Control, patched, control, ns an operation",
        &comparison(report),
    ));
    sections.push(section("Semantic checks", &facts(&report.checks)));
    sections.push(section("Identity", &facts(&report.identity)));
    if !report.command.is_empty() {
        sections.push(section("Command", &command_lines(&report.command)));
    }
    sections.push(section("Scope and caveats", &list(&report.caveats)));
    sections.push(section("SHA-256", &facts(&report.sources)));
    let text = sections
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n");
    match &report.tested_by {
        Some(who) => format!("{text}\nTested-by: {who}\n"),
        None => text,
    }
}

/// A row for each value: the section, what it is of, its name, and itself.
pub(crate) fn report_tsv(report: &Report) -> String {
    let mut rows = vec![["section", "name", "field", "value"].map(str::to_owned)];
    let mut row = |section: &str, name: &str, field: &str, value: &str| {
        // What would end a cell stands as it does in a string of Rust.
        rows.push([section, name, field, value].map(ascii));
    };
    let or_none = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    for (section, all) in [
        ("tested", &report.tested),
        ("checks", &report.checks),
        ("identity", &report.identity),
        ("sha256", &report.sources),
    ] {
        for fact in all {
            row(section, &fact.name, "", &fact.value);
        }
    }
    for of in &report.counts {
        let name = &of.function;
        row("calls", name, "calls", &or_none(of.calls));
        row("calls", name, "missed", &or_none(of.missed));
        row("calls", name, "errors", &or_none(of.errors));
        row("calls", name, "verdict", &of.verdict);
        for part in &of.parts {
            row("calls", name, &part.name, &part.calls.to_string());
        }
    }
    for block in &report.latency {
        let name = &block.function;
        row("times", name, "verdict", &block.verdict);
        row("times", name, "count", &block.count.to_string());
        row("times", name, "min", &block.min.to_string());
        row("times", name, "max", &block.max.to_string());
        row("times", name, "mean", &block.mean);
        for (field, value) in bounds(block) {
            row(
                "times",
                name,
                &format!("{field} low"),
                &value.low.to_string(),
            );
            row(
                "times",
                name,
                &format!("{field} high"),
                &value.high.to_string(),
            );
        }
    }
    for of in &report.timing {
        let name = format!("{} {}", of.target_id, of.scenario);
        row("rounds", &name, "kernel", &of.kernel);
        row("rounds", &name, "rounds", &of.rounds.to_string());
        for (field, value) in means(of) {
            row("rounds", &name, field, value);
        }
    }
    for of in &report.comparison {
        let name = format!("{}, {}", of.scenario, of.rounds);
        for (field, value) in [
            ("control_a", &of.control_a),
            ("patched", &of.patched),
            ("control_b", &of.control_b),
            ("drift_pct", &of.drift_pct),
            ("delta_pct", &of.delta_pct),
        ] {
            row("comparison", &name, field, value);
        }
    }
    for (section, all) in [
        ("expected", &report.expectations),
        ("command", &report.command),
        ("caveats", &report.caveats),
        ("failed", &report.failed),
    ] {
        for (place, text) in (1..).zip(all) {
            row(section, &format!("{place}"), "", text);
        }
    }
    let lines = rows.into_iter().map(|row| row.join("\t") + "\n");
    lines.collect()
}

/// Nothing where there is nothing to say.
fn section(title: &str, text: &str) -> Option<String> {
    (!text.is_empty()).then(|| format!("{title}\n{text}"))
}

fn list(items: &[String]) -> String {
    items.iter().map(|item| paragraph("- ", item)).collect()
}

fn counts(all: &[CountedFunction]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let head = ["  function", "calls", "missed", "errors", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let mut names = vec![None];
    for of in all {
        let name = format!("  {}", ascii(&of.function));
        names.push(Some(name.clone()));
        let verdict = of.verdict.clone();
        let numbers = [of.calls, of.missed, of.errors].map(number);
        let [calls, missed, errors] = numbers;
        rows.push(vec![name, calls, missed, errors, verdict]);
        if !of.required {
            let name = "    not required".to_owned();
            names.push(Some(name.clone()));
            rows.push(vec![name]);
        }
        for part in &of.parts {
            let name = format!("    {}", part.name);
            names.push(Some(name.clone()));
            rows.push(vec![name, part.calls.to_string()]);
        }
    }
    fitting(rows, &names)
}

/// A table, with names above their rows if it would be too wide.
fn fitting(rows: Vec<Vec<String>>, names: &[Option<String>]) -> String {
    let text = lay_out(rows.clone(), Alignment::right());
    if text.lines().all(|line| line.len() <= WIDTH) {
        return text;
    }
    with_names_above(rows, names)
}

/// As developers of btrfs quote times.
fn latency(block: &LatencyBlock) -> String {
    let [median, stddev, p90, p95, p99] = bounds(block).map(|(_, value)| between(value));
    let mut text = paragraph(
        "  ",
        &format!("{}, times {}", block.function, block.verdict),
    );
    for parts in [
        &[format!("Count: {}", block.count)][..],
        &[
            format!("Range: {} - {}", block.min, block.max),
            format!("Mean: {}", block.mean),
        ],
        &[format!("Median: {median}"), format!("Stddev: {stddev}")],
        &[
            format!("Percentiles: 90th: {p90}"),
            format!("95th: {p95}"),
            format!("99th: {p99}"),
        ],
    ] {
        let mut line = String::from("   ");
        for (place, part) in parts.iter().enumerate() {
            let end = if place + 1 < parts.len() { ";" } else { "" };
            if line.len() + 1 + part.len() + end.len() > WIDTH {
                text.push_str(&line);
                text.push('\n');
                line = String::from("     ");
            }
            line.extend([" ", part, end]);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// What a histogram tells as bounds.
fn bounds(block: &LatencyBlock) -> [(&'static str, Between); 5] {
    [
        ("median", block.median),
        ("stddev", block.stddev),
        ("p90", block.p90),
        ("p95", block.p95),
        ("p99", block.p99),
    ]
}

fn between(value: Between) -> String {
    if value.low == value.high {
        value.low.to_string()
    } else {
        format!("{}..{}", value.low, value.high)
    }
}

fn means(of: &Timing) -> [(&'static str, &str); 4] {
    [
        ("mean", &of.mean),
        (
            "without first",
            of.mean_without_first.as_deref().unwrap_or("-"),
        ),
        ("min", &of.min),
        ("max", &of.max),
    ]
}

/// A table for each point.
fn timing(all: &[Timing]) -> String {
    let same = |a: &Timing, b: &Timing| a.target_id == b.target_id;
    let points = all.chunk_by(same).map(|rows| {
        let [first, ..] = rows else {
            return String::new();
        };
        let point = format!(
            "{}, {}, {} rounds",
            first.target_id, first.kernel, first.rounds
        );
        let head = means(first).map(|(name, _)| name.to_owned());
        let mut table = vec![[vec!["  operation".to_owned()], head.to_vec()].concat()];
        let mut names = vec![None];
        for row in rows {
            let name = format!("  {}", ascii(&row.scenario));
            names.push(Some(name.clone()));
            let values = means(row).map(|(_, value)| value.to_owned());
            table.push([vec![name], values.to_vec()].concat());
        }
        paragraph("  ", &point) + &fitting(table, &names)
    });
    points.collect::<Vec<_>>().join("\n")
}

fn comparison(report: &Report) -> String {
    let same = |a: &crate::model::Comparison, b: &crate::model::Comparison| a.rounds == b.rounds;
    let tables = report.comparison.chunk_by(same).map(|rows| {
        let title = rows.first().map_or("", |row| row.rounds);
        let head = [title, "control A", "patched", "control B", "drift", "delta"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        let mut names = vec![None];
        for row in rows {
            let name = ascii(&row.scenario);
            names.push(Some(name.clone()));
            table.push(vec![
                name,
                row.control_a.clone(),
                row.patched.clone(),
                row.control_b.clone(),
                format!("{}%", row.drift_pct),
                format!("{}%", row.delta_pct),
            ]);
        }
        fitting(table, &names)
    });
    tables.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
