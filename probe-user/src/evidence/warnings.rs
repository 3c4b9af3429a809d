//! What a reader must know beside the counts: hits that were missed, and counts
//! that this kernel cannot prove.

use crate::model::{Target, Window};

/// One line for each thing that makes a count less than exact.
pub(crate) fn warnings(targets: &[Target], window: &Window) -> Vec<String> {
    let mut lines = Vec::new();
    for (target, counts) in targets.iter().zip(&window.counts) {
        let Some(counts) = counts else { continue };
        let symbol = target.symbol;
        for (what, counted, missed) in [
            ("calls", counts.calls, counts.missed_calls()),
            ("returns", counts.returns, counts.missed_returns()),
        ] {
            match missed {
                Some(0) => {}
                Some(missed) => lines.push(format!(
                    "{symbol}: {missed} {what} missed; there were {} or more",
                    counted + missed
                )),
                None => lines.push(format!(
                    "{symbol}: {what} unproven; this kernel does not report missed hits"
                )),
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Counts, Losses, TARGETS};

    #[test]
    fn only_proven_counts_pass_in_silence() {
        let counts = |losses| {
            Some(Counts {
                calls: 10,
                plain: 10,
                dedupe: 0,
                returns: 9,
                errors: 0,
                losses,
            })
        };
        let proven = Losses {
            entry_missed: Some(0),
            entry_recursion_misses: Some(0),
            return_missed: Some(0),
            return_recursion_misses: Some(0),
        };
        let lossy = Losses {
            entry_missed: Some(2),
            entry_recursion_misses: Some(1),
            return_missed: None,
            ..proven
        };
        let window = Window {
            start_ns: 0,
            end_ns: 1,
            counts: vec![counts(proven), counts(lossy), None],
        };
        assert_eq!(
            warnings(&TARGETS, &window),
            [
                "btrfs_inhibit_eb_writeback: 3 calls missed; there were 13 or more",
                "btrfs_inhibit_eb_writeback: returns unproven; this kernel does not report missed hits",
            ]
        );
    }
}
