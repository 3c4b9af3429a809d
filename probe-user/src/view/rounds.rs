//! Timed rounds of a benchmark.

use tabled::settings::Alignment;

use super::lay_out;
use crate::stats::{Loops, Thousandths};

/// All rounds of a scenario.
pub(crate) struct Rounds {
    pub(crate) scenario: String,
    pub(crate) loops: Loops,
    /// Results that were not expected, in all rounds.
    pub(crate) unexpected: u64,
}

/// A row for each scenario, in ns an operation, with how many results were as expected;
/// all have as many rounds. What was timed under probes says so.
pub(crate) fn rounds_table(each: &[Rounds], probed: bool) -> String {
    let count = count(each);
    let under = if probed { " under probes" } else { "" };
    let head = [
        &format!("ns/op{under}, {count} rounds"),
        "mean",
        "min",
        "max",
        "match",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let number = |n: Option<Thousandths>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    for Rounds {
        scenario,
        loops,
        unexpected,
    } in each
    {
        rows.push(vec![
            scenario.clone(),
            number(loops.mean()),
            number(loops.min()),
            number(loops.max()),
            match_ratio(*unexpected, loops.count() * loops.operations()),
        ]);
    }
    lay_out(rows, Alignment::right())
}

/// The same without times, for loops that were counted.
pub(crate) fn counted_rounds_table(each: &[Rounds]) -> String {
    let count = count(each);
    let head = [&format!("counted, {count} rounds"), "operations", "match"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for rounds in each {
        let operations = rounds.loops.count() * rounds.loops.operations();
        rows.push(vec![
            rounds.scenario.clone(),
            operations.to_string(),
            match_ratio(rounds.unexpected, operations),
        ]);
    }
    lay_out(rows, Alignment::right())
}

fn count(each: &[Rounds]) -> u64 {
    each.first().map_or(0, |rounds| rounds.loops.count())
}

/// In per cent; 100 only of all.
fn match_ratio(unexpected: u64, results: u64) -> String {
    let expected = i128::from(results) - i128::from(unexpected);
    let ratio = Thousandths::of_ratio_down(100 * expected, results.into());
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{}%", ratio.shortest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::assert_golden;

    #[test]
    fn a_row_a_scenario() {
        let rounds = |scenario: &str, times: [u64; 3], unexpected| {
            let mut loops = Loops::first(10_000, times[0]).expect("operations");
            times[1..].iter().for_each(|ns| loops.add(*ns));
            Rounds {
                scenario: scenario.to_owned(),
                loops,
                unexpected,
            }
        };
        let short = [29_437_900, 28_658_250, 30_316_820];
        let long = [9_353_545_600, 339_738_900, 378_128_300];
        let all = [
            rounds("ficlonerange_4k_pages", short, 0),
            rounds("fidedupe_16384k_pages", long, 1),
        ];
        assert_golden("rounds.txt", &rounds_table(&all, false));
        assert_golden("rounds-probed.txt", &rounds_table(&all, true));
        assert_golden("rounds-counted.txt", &counted_rounds_table(&all));
    }
}
