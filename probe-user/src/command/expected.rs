//! What the command line expects, and what came of it.

use crate::model::{Came, Expectation, Outcome, Target, Window};

/// All of them, parsed; an error says what to write.
pub(super) fn parse(texts: &[String], targets: &[Target]) -> anyhow::Result<Vec<Expectation>> {
    let each = texts.iter().map(|text| Expectation::parse(text, targets));
    each.collect::<Result<_, _>>().map_err(anyhow::Error::msg)
}

/// Each with its outcome. Without a window nothing was counted.
pub(super) fn judge(
    expectations: Vec<Expectation>,
    window: Option<&Window>,
) -> Vec<(Expectation, Came)> {
    let nothing = || Came {
        outcome: Outcome::NoCount,
        counted: Vec::new(),
    };
    let each = expectations.into_iter().map(|expectation| {
        let came = window.map_or_else(nothing, |window| expectation.judge(window));
        (expectation, came)
    });
    each.collect()
}

/// The lines of those that held.
pub(super) fn successes(expected: &[(Expectation, Came)]) -> impl Iterator<Item = String> {
    let held = |(_, came): &&(Expectation, Came)| came.outcome == Outcome::Held;
    expected.iter().filter(held).map(line)
}

/// The lines of those that fail the run.
pub(super) fn failures(expected: &[(Expectation, Came)]) -> impl Iterator<Item = String> {
    let failed = |(_, came): &&(Expectation, Came)| came.outcome != Outcome::Held;
    expected.iter().filter(failed).map(line)
}

fn line((expectation, came): &(Expectation, Came)) -> String {
    let counted: Vec<String> = came.counted.iter().map(u64::to_string).collect();
    let counted = if counted.is_empty() {
        String::new()
    } else {
        format!(": counted {}", counted.join("/"))
    };
    format!(
        "expected {}{counted}: {}",
        expectation.text,
        came.outcome.word()
    )
}
