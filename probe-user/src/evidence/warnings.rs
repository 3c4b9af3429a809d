//! What a reader must know beside the counts: hits that were missed, and counts
//! that this kernel cannot prove.

use crate::model::{Counts, Need, OtherProgram, Others, Target, Verdict, Window};

/// What was found of a window's counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// What makes a required target's count wrong.
    pub(crate) causes: Vec<String>,
    /// What a reader must know all the same.
    pub(crate) warnings: Vec<String>,
}

/// What a run lets pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gate {
    /// INEXACT is a warning.
    pub(crate) allow_inexact: bool,
    /// UNPROVEN fails.
    pub(crate) strict: bool,
}

/// One line for each thing that makes a count less than exact.
pub(crate) fn findings(targets: &[Target], window: &Window, gate: Gate) -> Findings {
    let mut all = Findings::default();
    for (target, counts) in targets.iter().zip(&window.counts) {
        let Some(counts) = counts else { continue };
        let name = target.name();
        for (verdict, line) in [
            (counts.calls_verdict(), calls_line(&name, counts)),
            (counts.times_verdict(), times_line(&name, counts)),
        ] {
            let fails = match verdict {
                Verdict::Exact => continue,
                Verdict::Unproven => gate.strict,
                Verdict::Inexact(_) => !gate.allow_inexact,
                Verdict::Invalid => true,
            };
            if fails && target.need == Need::Required {
                all.causes.push(line);
            } else {
                all.warnings.push(line);
            }
        }
        all.warnings.extend(untimed(&name, counts));
    }
    all
}

/// One line for each target on which others have programs.
pub(crate) fn other_programs(targets: &[Target], others: &Others) -> Vec<String> {
    let others = match others {
        Ok(others) => others,
        Err(why) => {
            let line = "it is not known whether other BPF programs are on these functions";
            return vec![format!("{line}: {why}")];
        }
    };
    let both = targets.iter().zip(others);
    let lines = both.filter_map(|(target, others)| {
        let name = target.name();
        let each: Vec<String> = others.iter().map(named).collect();
        match &each[..] {
            [] => None,
            [one] => Some(format!("{name}: another BPF program is on it: {one}")),
            _ => Some(format!(
                "{name}: other BPF programs are on it: {}",
                each.join(", ")
            )),
        }
    });
    lines.collect()
}

fn named(other: &OtherProgram) -> String {
    let OtherProgram { kind, name, id } = other;
    match &name[..] {
        "" => format!("{kind} (id {id})"),
        _ => format!("{kind} {name} (id {id})"),
    }
}

/// Why the number of calls is less than exact.
fn calls_line(name: &str, counts: &Counts) -> String {
    let (verdict, calls) = (counts.calls_verdict(), counts.calls);
    match verdict {
        // The kernel's counter is not atomic: two CPUs may count one miss.
        Verdict::Inexact(missed) => format!(
            "{name}: {verdict} {calls}..{}, {missed} calls or more were missed",
            calls + missed
        ),
        _ => format!("{name}: {verdict}, {UNTOLD}"),
    }
}

/// Why the times are less than all.
fn times_line(name: &str, counts: &Counts) -> String {
    match counts.times_verdict() {
        verdict @ Verdict::Inexact(untimed) => {
            format!("{name}: times {verdict}, those of {untimed} calls or more are missing")
        }
        verdict => format!("{name}: times {verdict}, {UNTOLD}"),
    }
}

/// What an unproven count lacks.
const UNTOLD: &str = "this kernel does not tell what probes miss (Linux 6.7 does)";

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
    use crate::model::Losses;

    const PROVEN: Losses = Losses {
        entry_missed: Some(0),
        entry_recursion_misses: Some(0),
        return_missed: Some(0),
        return_recursion_misses: Some(0),
    };

    fn counts(losses: Losses) -> Counts {
        Counts {
            calls: 10,
            plain: 10,
            dedupe: 0,
            returns: 9,
            in_flight: 1,
            losses,
            ..Counts::nothing()
        }
    }

    /// What is found of the first target alone.
    fn check(counts: Counts, gate: Gate, need: Need, causes: &[&str], warnings: &[&str]) {
        let mut targets = Target::three();
        targets[0].need = need;
        let window = Window {
            start_ns: 0,
            end_ns: 1,
            classes: crate::model::Classes::of_threads(),
            counts: vec![Some(counts), None, None],
        };
        let found = findings(&targets, &window, gate);
        let with_name = |lines: &[&str]| -> Vec<String> {
            let name = &targets[0].symbol;
            lines.iter().map(|line| format!("{name}: {line}")).collect()
        };
        assert_eq!(found.causes, with_name(causes));
        assert_eq!(found.warnings, with_name(warnings));
    }

    #[test]
    fn only_an_exact_count_passes_in_silence() {
        use Need::{Diagnostic, Required};
        let plain = Gate::default();
        let strict = Gate {
            strict: true,
            ..plain
        };
        let lenient = Gate {
            allow_inexact: true,
            ..plain
        };
        check(counts(PROVEN), strict, Required, &[], &[]);

        let missed = "INEXACT 10..13, 3 calls or more were missed";
        let lossy = Losses {
            entry_missed: Some(2),
            entry_recursion_misses: Some(1),
            ..PROVEN
        };
        check(counts(lossy), plain, Required, &[missed], &[]);
        check(counts(lossy), lenient, Required, &[], &[missed]);
        check(counts(lossy), strict, Diagnostic, &[], &[missed]);

        let untimed = "times INEXACT, those of 4 calls or more are missing";
        let lossy = Losses {
            return_missed: Some(4),
            ..PROVEN
        };
        check(counts(lossy), plain, Required, &[untimed], &[]);

        let calls = "UNPROVEN, this kernel does not tell what probes miss (Linux 6.7 does)";
        let times = "times UNPROVEN, this kernel does not tell what probes miss (Linux 6.7 does)";
        check(
            counts(Losses::default()),
            plain,
            Required,
            &[],
            &[calls, times],
        );
        check(
            counts(Losses::default()),
            strict,
            Required,
            &[calls, times],
            &[],
        );
    }

    #[test]
    fn programs_of_others_are_a_line_a_target() {
        let other = |kind, name: &str, id| OtherProgram {
            kind,
            name: name.to_owned(),
            id,
        };
        let check = |others: Others, lines: &[&str]| {
            assert_eq!(other_programs(&Target::three(), &others), lines);
        };
        check(Ok(vec![vec![]; 3]), &[]);
        check(
            Ok(vec![
                vec![other("kprobe", "foo", 12)],
                vec![],
                vec![other("fentry", "", 7), other("kprobe.multi", "bar", 8)],
            ]),
            &[
                "btrfs_remap_file_range: another BPF program is on it: kprobe foo (id 12)",
                "btrfs_uninhibit_all_eb_writeback: other BPF programs are on it: fentry (id 7), kprobe.multi bar (id 8)",
            ],
        );
        check(
            Err("why".to_owned()),
            &["it is not known whether other BPF programs are on these functions: why"],
        );
    }

    #[test]
    fn starts_that_were_not_kept_are_times_that_are_missing() {
        let mut some = counts(PROVEN);
        (some.unstored, some.unmatched) = (5, 5);
        let untimed = "times INEXACT, those of 5 calls or more are missing";
        let each = [
            "5 calls were not timed: too many at once",
            "5 returns of calls that were not seen to start",
        ];
        check(some, Gate::default(), Need::Required, &[untimed], &each);
    }
}
