//! What a reader must know beside the counts: hits that were missed, and counts
//! that this kernel cannot prove.

use crate::model::{Counts, Need, Target, Window};

/// What was found of a window's counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// What makes a required target's count wrong.
    pub(crate) causes: Vec<String>,
    /// What a reader must know all the same.
    pub(crate) warnings: Vec<String>,
}

/// One line for each thing that makes a count less than exact.
pub(crate) fn findings(targets: &[Target], window: &Window) -> Findings {
    let mut all = Findings::default();
    for (target, counts) in targets.iter().zip(&window.counts) {
        let Some(counts) = counts else { continue };
        let name = target.name();
        for (what, missed) in [
            ("calls", counts.missed_calls()),
            ("returns", counts.missed_returns()),
        ] {
            let line = match missed {
                Some(0) => continue,
                Some(missed) => {
                    // The kernel's counter is not atomic: two CPUs may count one miss.
                    format!("{name}: {missed} {what} or more were missed")
                }
                None => format!("{name}: {what} unproven: this kernel does not tell misses"),
            };
            if missed.is_some() && target.need == Need::Required {
                all.causes.push(line);
            } else {
                all.warnings.push(line);
            }
        }
        all.warnings.extend(untimed(&name, counts));
    }
    all
}

/// Calls that are counted, and not timed.
fn untimed(name: &str, counts: &Counts) -> impl Iterator<Item = String> {
    let each = [
        (counts.unstored, "calls were not timed: too many at once"),
        (
            counts.abandoned,
            "calls were not timed: their returns were missed",
        ),
        (
            counts.unmatched,
            "returns of calls that were not seen to start",
        ),
    ];
    let name = name.to_owned();
    let some = each.into_iter().filter(|(n, _)| *n > 0);
    some.map(move |(n, what)| format!("{name}: {n} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Histogram, Losses};

    #[test]
    fn only_proven_counts_pass_in_silence() {
        let counts = |losses| {
            Some(Counts {
                calls: 10,
                plain: 10,
                dedupe: 0,
                returns: 9,
                in_flight: 1,
                errors: 0,
                unstored: 0,
                abandoned: 0,
                unmatched: 2,
                latency: Histogram::empty(),
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
        let mut window = Window {
            start_ns: 0,
            end_ns: 1,
            counts: vec![counts(proven), counts(lossy), None],
        };
        window.counts[0].as_mut().expect("there").unmatched = 0;
        let mut targets = Target::three();
        let found = findings(&targets, &window);
        let missed = "btrfs_inhibit_eb_writeback: 3 calls or more were missed";
        assert_eq!(found.causes, [missed]);
        let others = [
            "btrfs_inhibit_eb_writeback: returns unproven: this kernel does not tell misses",
            "btrfs_inhibit_eb_writeback: 2 returns of calls that were not seen to start",
        ];
        assert_eq!(found.warnings, others);
        targets[1].need = Need::Diagnostic;
        let found = findings(&targets, &window);
        assert_eq!(found.causes, [""; 0]);
        assert_eq!(found.warnings, [missed, others[0], others[1]]);
    }
}
