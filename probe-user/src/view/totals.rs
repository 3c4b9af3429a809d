//! The totals of a window.

use probe_ebpf::Class;
use tabled::settings::Alignment;

use super::{Number, WIDTH, grouped, lay_out, with_names_above};
use crate::model::{Classes, Counts, Kinds, Presence, Target, Verdict, Window, filesystem_name};

/// A table of the window's counts: a row for each target, and under it its kinds.
/// Where it would be wider than [`WIDTH`], thousands are not separated, and then
/// names stand above their rows.
pub(crate) fn totals_table(targets: &[Target], presence: &[Presence], window: &Window) -> String {
    let ways: [(bool, Number); 3] = [
        (false, grouped),
        (false, |n| n.to_string()),
        (true, |n| n.to_string()),
    ];
    let tables = ways.map(|(above, number)| table(targets, presence, window, above, number));
    let fitting = tables
        .iter()
        .find(|text| text.lines().all(|l| l.len() <= WIDTH));
    fitting.unwrap_or(&tables[2]).clone()
}

fn table(
    targets: &[Target],
    presence: &[Presence],
    window: &Window,
    names_above: bool,
    number: Number,
) -> String {
    let head = ["target", "calls", "returns", "errors", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut names = vec![None];
    for ((target, presence), counts) in targets.iter().zip(presence).zip(&window.counts) {
        names.push(Some(target.name()));
        match counts {
            Some(counts) => {
                rows.push(counts_row(target, counts, number));
                if target.kinds == Kinds::CloneDedupe {
                    rows.push(vec!["  clone".to_owned(), number(counts.plain)]);
                    rows.push(vec!["  dedupe".to_owned(), number(counts.dedupe)]);
                    names.extend([None, None]);
                }
                for (name, calls) in by_class(counts, &window.classes) {
                    rows.push(vec![format!("  by {name}"), number(calls)]);
                    names.push(None);
                }
                for (name, calls) in by_filesystem(counts) {
                    rows.push(vec![format!("  {name}"), number(calls)]);
                    names.push(None);
                }
            }
            None if *presence == Presence::Absent => rows.push(word_row(target, "absent")),
            None => rows.push(word_row(target, Verdict::Invalid.word())),
        }
    }
    if names_above {
        return with_names_above(rows, &names);
    }
    lay_out(rows, Alignment::right())
}

/// Who executed calls, if that can be told, and how many.
fn by_class<'a>(
    counts: &'a Counts,
    classes: &Classes,
) -> impl Iterator<Item = (&'static str, u64)> + use<'a> {
    let told = !matches!(classes, Classes::Untold(_));
    // Without a workload there are no others.
    let tasks = if matches!(classes, Classes::Told { workload: true, .. }) {
        "other tasks"
    } else {
        "tasks"
    };
    let each = Class::ALL.into_iter().zip(counts.by_class);
    each.filter(move |(_, calls)| told && *calls > 0)
        .map(move |(class, calls)| {
            let name = match class {
                Class::Workload => "the workload",
                Class::Commit => "commit threads",
                Class::Cleaner => "cleaners",
                Class::Kworker => "kworkers",
                Class::Kthread => "kernel threads",
                Class::Other => tasks,
                Class::Interrupt => "interrupts",
            };
            (name, calls)
        })
}

/// Where the calls were, if that is more than one filesystem, and those out of scope.
fn by_filesystem(counts: &Counts) -> Vec<(String, u64)> {
    let parts = counts.parts.iter().flatten();
    let called = parts.filter(|(_, part)| part.calls > 0);
    let mut rows: Vec<_> = called
        .map(|(of, part)| (format!("on {}", filesystem_name(*of)), part.calls))
        .collect();
    if rows.len() < 2 {
        rows.clear();
    }
    let elsewhere = counts.calls_elsewhere().filter(|calls| *calls > 0);
    rows.extend(elsewhere.map(|calls| ("out of scope".to_owned(), calls)));
    rows
}

fn counts_row(target: &Target, counts: &Counts, number: Number) -> Vec<String> {
    // What a function does not tell is not 0.
    let errors = target.returns_errno.then_some(counts.errors);
    vec![
        target.name(),
        number(counts.calls),
        number(counts.returns),
        errors.map_or_else(|| "-".to_owned(), number),
        counts.verdict().word().to_owned(),
    ]
}

fn word_row(target: &Target, word: &str) -> Vec<String> {
    vec![target.name(), word.to_owned()]
}

#[cfg(test)]
mod tests {
    use probe_ebpf::Filesystem;

    use super::*;
    use crate::{model::Losses, view::assert_golden};

    fn counts(plain: u64, dedupe: u64, losses: Losses) -> Counts {
        Counts {
            calls: plain + dedupe,
            plain,
            dedupe,
            by_class: [plain + dedupe, 0, 0, 0, 0, 0, 0],
            returns: plain + dedupe,
            errors: 3,
            losses,
            ..Counts::nothing()
        }
    }

    fn none_lost() -> Losses {
        Losses {
            entry_missed: Some(0),
            entry_recursion_misses: Some(0),
            return_missed: Some(0),
            return_recursion_misses: Some(0),
        }
    }

    fn window(counts: &[Option<Counts>]) -> Window {
        Window {
            start_ns: 0,
            end_ns: 1_500_000_000,
            classes: Classes::all(),
            counts: counts.to_vec(),
        }
    }

    #[test]
    fn every_target_has_a_row() {
        let here = Presence::Module("btrfs".to_owned());
        let window = window(&[
            Some(counts(1000, 1000, none_lost())),
            Some(counts(7637, 0, none_lost())),
            Some(Counts {
                by_class: [2001, 5, 1, 1, 0, 0, 0],
                ..counts(2008, 0, none_lost())
            }),
        ]);
        let presence = [here.clone(), here.clone(), here];
        assert_golden(
            "totals.txt",
            &totals_table(&Target::three(), &presence, &window),
        );
    }

    #[test]
    fn filesystems_in_scope_have_rows_if_there_are_several() {
        let on = |minor| Filesystem::of_numbers(0, minor);
        let scoped = |parts: &[(Filesystem, u64)], elsewhere: u64| Counts {
            parts: Some(
                parts
                    .iter()
                    .map(|(of, calls)| (*of, counts(*calls, 0, none_lost())))
                    .collect(),
            ),
            elsewhere: Some([(on(9), elsewhere)].into()),
            ..counts(parts.iter().map(|(_, calls)| calls).sum(), 0, none_lost())
        };
        let window = window(&[
            Some(scoped(&[(on(45), 600), (on(46), 1400)], 7)),
            Some(scoped(&[(on(45), 7637)], 0)),
            Some(scoped(&[], 12)),
        ]);
        let presence = [const { Presence::BuiltIn }; 3];
        let text = totals_table(&Target::three(), &presence, &window);
        assert_golden("totals-scope.txt", &text);
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let mut some_lost = none_lost();
        some_lost.entry_missed = Some(40);
        some_lost.entry_recursion_misses = Some(2);
        let window = window(&[
            Some(counts(1_234_567_890, 8_765_432_109, Losses::default())),
            None,
            None,
        ]);
        let presence = [Presence::BuiltIn, Presence::Absent, Presence::BuiltIn];
        let mut text = totals_table(&Target::three(), &presence, &window);
        let lossy = super::Window {
            classes: Classes::Untold("no BTF".to_owned()),
            counts: vec![Some(counts(5, 5, some_lost)), None, None],
            ..window
        };
        text.push_str(&totals_table(&Target::three(), &presence, &lossy));
        assert_golden("totals-unknown.txt", &text);
    }
}
