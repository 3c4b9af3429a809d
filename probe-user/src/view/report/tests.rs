//! What holds of every report, whatever is in it.

use proptest::prelude::*;

use super::*;
use crate::model::{Comparison, Fact, ReportPart};

fn facts_of(texts: &[String]) -> Vec<Fact> {
    let pairs = texts.chunks(2);
    pairs
        .map(|pair| Fact::new(&*pair[0], pair.last().map_or("", |t| t)))
        .collect()
}

/// Beyond what anybody counts, in calls or in ns.
const MOST: u64 = 10_000_000_000_000_000;

/// With these texts and numbers wherever there are any.
fn report(texts: &[String], symbol: &str, numbers: &[u64; 4]) -> Report {
    let [a, b, c, d] = *numbers;
    let text = |i: usize| texts[i % texts.len()].clone();
    let value = Between { low: a, high: b };
    Report {
        schema: Report::SCHEMA,
        tested: facts_of(texts),
        counts: vec![CountedFunction {
            function: symbol.to_owned(),
            required: false,
            calls: Some(a),
            errors: Some(b),
            missed: Some(c),
            verdict: "INEXACT".to_owned(),
            parts: vec![ReportPart {
                name: "by the workload".to_owned(),
                calls: d,
            }],
        }],
        expectations: texts.to_vec(),
        latency: vec![LatencyBlock {
            function: symbol.to_owned(),
            verdict: "UNPROVEN".to_owned(),
            count: a,
            min: b,
            max: c,
            mean: format!("{d}.999"),
            median: value,
            stddev: value,
            p90: value,
            p95: value,
            p99: value,
        }],
        timing: vec![Timing {
            target_id: text(2),
            kernel: text(3),
            scenario: symbol.to_owned(),
            rounds: d,
            mean: format!("{}.123", a / 100_000),
            mean_without_first: None,
            min: format!("{}.123", b / 100_000),
            max: format!("{}.123", c / 100_000),
        }],
        comparison: vec![Comparison {
            scenario: "fidedupe_16384k_pages".to_owned(),
            rounds: "without the first",
            control_a: "2943.790".to_owned(),
            patched: "2159.123".to_owned(),
            control_b: "2970.446".to_owned(),
            drift_pct: "0.905".to_owned(),
            delta_pct: "-26.986".to_owned(),
        }],
        checks: facts_of(texts),
        identity: facts_of(texts),
        command: texts.to_vec(),
        caveats: texts.to_vec(),
        failed: texts.to_vec(),
        sources: facts_of(texts),
        tested_by: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_mail_is_narrow_and_plain(
        texts in prop::collection::vec("\\PC{0,100}|[ -~]{0,200}|[a-z]{60,90}|\t\n\r", 1..9),
        symbol in "[a-z_]{1,60}",
        numbers in prop::array::uniform4(0..MOST),
    ) {
        let mail = report_mail(&report(&texts, &symbol, &numbers));
        for line in mail.lines() {
            prop_assert!(line.len() <= WIDTH, "{line:?}");
            prop_assert!(line.bytes().all(|b| b == b' ' || b.is_ascii_graphic()), "{line:?}");
            prop_assert!(!line.ends_with(' '), "{line:?}");
        }
    }

    #[test]
    fn a_row_has_four_cells(
        texts in prop::collection::vec("\\PC{0,50}|[\t\n\r]{1,3}", 1..9),
        symbol in "[a-z_]{1,60}",
        numbers in prop::array::uniform4(0..MOST),
    ) {
        let table = report_tsv(&report(&texts, &symbol, &numbers));
        for line in table.split_terminator('\n') {
            prop_assert_eq!(line.split('\t').count(), 4, "{:?}", line);
        }
    }
}
