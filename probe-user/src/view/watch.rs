//! The live table, for any width from 60 columns.

use tabled::settings::Alignment;

use super::{Number, WIDTH, grouped, lay_out, time::time, with_names_above};
use crate::model::{Counts, Identity, Presence, Target, Variant, Verdict, Window};

/// From this width on all columns stand side by side.
const WIDE: usize = 126;
/// What a table of one moment shows.
#[derive(Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) targets: &'a [Target],
    pub(crate) presence: &'a [Presence],
    /// Since the beginning.
    pub(crate) total: &'a Window,
    /// Since the last table: rates and times are of it.
    pub(crate) interval: &'a Window,
}

/// A row for each target: one table if there is room for it, else one of counts
/// and one of times.
pub(crate) fn watch_table(moment: &Moment<'_>, width: usize) -> String {
    if width >= WIDE {
        return fitted(moment, width, &[&COUNTS, &TIMES]);
    }
    let counts = fitted(moment, width, &[&COUNTS]);
    let times = fitted(moment, width, &[&TIMES]);
    format!("{counts}\n{times}")
}

/// The times of a whole window, for a mail.
pub(crate) fn times_table(targets: &[Target], presence: &[Presence], window: &Window) -> String {
    let moment = Moment {
        targets,
        presence,
        total: window,
        interval: window,
    };
    fitted(&moment, WIDTH, &[&TIMES])
}

/// Which kernel, what is counted, and for how long: lines for 60 columns.
pub(crate) fn watch_head(
    identity: &Identity,
    variant: &Variant,
    what: &str,
    total: &Window,
) -> String {
    format!(
        "kernel      {}\ninhibition  {variant}\ncounted     {what}, {}\n\n",
        identity.release,
        time(total.length_ns())
    )
}

/// A column's head, and its value for a target.
type Column = (&'static str, fn(&Row<'_>) -> String);

struct Row<'a> {
    total: &'a Counts,
    interval: &'a Counts,
    length_ns: u64,
    returns_errno: bool,
    number: Number,
}

const COUNTS: [Column; 6] = [
    ("calls", |row| (row.number)(row.total.calls)),
    ("calls/s", |row| {
        (row.number)(per_second(row.interval.calls, row.length_ns))
    }),
    ("errors", |row| {
        if row.returns_errno {
            (row.number)(row.total.errors)
        } else {
            "-".to_owned()
        }
    }),
    ("flight", |row| (row.number)(row.total.in_flight)),
    ("missed", missed),
    ("hook", |_| "kprobe".to_owned()),
];

const TIMES: [Column; 5] = [
    ("mean", |row| time_or_dash(row.interval.latency.mean_ns())),
    ("p50", |row| upper(row.interval.latency.quantile_ns(500))),
    ("p99", |row| upper(row.interval.latency.quantile_ns(990))),
    ("max", |row| upper(row.interval.latency.max_ns())),
    ("total", |row| time(row.total.latency.sum_ns)),
];

/// In all, and after a plus what the interval brought: a column of its own would
/// be of zeros.
fn missed(row: &Row<'_>) -> String {
    let Some(total) = row.total.missed_calls() else {
        return "-".to_owned();
    };
    let total = (row.number)(total);
    match row.interval.missed_calls() {
        None | Some(0) => total,
        Some(now) => format!("{total} +{}", (row.number)(now)),
    }
}

fn per_second(count: u64, length_ns: u64) -> u64 {
    let per_s = u128::from(count) * 1_000_000_000 / u128::from(length_ns.max(1));
    u64::try_from(per_s).unwrap_or(u64::MAX)
}

fn time_or_dash(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), time)
}

/// The upper bound: no more than so long.
fn upper(bounds: Option<(u64, u64)>) -> String {
    match bounds {
        Some((_, u64::MAX)) => ">34s".to_owned(),
        bounds => time_or_dash(bounds.map(|(_, high)| high)),
    }
}

/// A table within the width, the first of these that fits: names beside their
/// numbers, names above them, and then without separated thousands.
fn fitted(moment: &Moment<'_>, width: usize, parts: &[&[Column]]) -> String {
    let columns: Vec<&Column> = parts.iter().copied().flatten().collect();
    let ways: [(bool, Number); 3] = [(false, grouped), (true, grouped), (true, |n| n.to_string())];
    let mut text = String::new();
    for (names_above, number) in ways {
        text = table(moment, &columns, names_above, number);
        if text.lines().all(|line| line.len() <= width) {
            break;
        }
    }
    text
}

fn table(moment: &Moment<'_>, columns: &[&Column], names_above: bool, number: Number) -> String {
    let named = |name: &str, cells: Vec<String>| {
        let name = std::iter::once(name.to_owned());
        name.chain(cells).collect::<Vec<_>>()
    };
    let heads = columns.iter().map(|(head, _)| (*head).to_owned());
    let mut rows = vec![named("target", heads.collect())];
    let counts = moment.total.counts.iter().zip(&moment.interval.counts);
    for ((target, presence), counts) in moment.targets.iter().zip(moment.presence).zip(counts) {
        let (Some(total), Some(interval)) = counts else {
            let word = if *presence == Presence::Absent {
                "absent"
            } else {
                Verdict::Invalid.word()
            };
            rows.push(named(&target.name(), vec![word.to_owned()]));
            continue;
        };
        let row = Row {
            total,
            interval,
            length_ns: moment.interval.length_ns(),
            returns_errno: target.returns_errno,
            number,
        };
        let cells = columns.iter().map(|(_, cell)| cell(&row));
        rows.push(named(&target.name(), cells.collect()));
    }
    if names_above {
        let above = moment.targets.iter().map(|target| Some(target.name()));
        let above: Vec<_> = std::iter::once(None).chain(above).collect();
        return with_names_above(rows, &above);
    }
    lay_out(rows, Alignment::right())
}

#[cfg(test)]
mod tests {
    use probe_ebpf::h2::bounds;

    use super::*;
    use crate::{
        model::{Histogram, Losses},
        view::assert_golden_within,
    };

    fn counts(calls: u64, times: &[(usize, u64)]) -> Counts {
        let mut latency = Histogram::empty();
        for &(slot, count) in times {
            latency.buckets[slot] = count;
            latency.sum_ns += bounds(slot).0.saturating_mul(count);
        }
        Counts {
            calls,
            plain: calls,
            dedupe: 0,
            returns: latency.count(),
            in_flight: calls - latency.count(),
            errors: 12,
            latency,
            losses: Losses {
                entry_missed: Some(0),
                entry_recursion_misses: Some(0),
                return_missed: Some(0),
                return_recursion_misses: Some(0),
            },
            ..Counts::nothing()
        }
    }

    fn window(end_ns: u64, counts: [Counts; 2]) -> Window {
        let [a, b] = counts;
        Window {
            start_ns: 0,
            end_ns,
            classes: crate::model::Classes::of_threads(),
            counts: vec![Some(a), Some(b), None],
        }
    }

    fn window_of(counts: [Counts; 3]) -> Window {
        Window {
            start_ns: 0,
            end_ns: 1_000_000_000,
            classes: crate::model::Classes::of_threads(),
            counts: counts.map(Some).to_vec(),
        }
    }

    fn with_moment(check: impl Fn(&Moment<'_>)) {
        let here = Presence::Module("btrfs".to_owned());
        check(&Moment {
            targets: &Target::three(),
            presence: &[here.clone(), here, Presence::Absent],
            total: &window(
                60_000_000_000,
                [
                    counts(123_456, &[(120, 100_000), (140, 23_455)]),
                    counts(1_234_567, &[(72, 1_234_567)]),
                ],
            ),
            interval: &window(
                1_000_000_000,
                [counts(2_011, &[(120, 2_000), (150, 10)]), counts(0, &[])],
            ),
        });
    }

    #[test]
    fn it_fits_any_width_from_60() {
        with_moment(|moment| {
            for width in [60, 72, 80, 100, 200] {
                let text = watch_table(moment, width);
                assert_golden_within(&format!("watch-{width}.txt"), &text, width);
            }
        });
    }

    #[test]
    fn what_an_interval_missed_is_told_from_the_rest() {
        // Both counters of the kernel are meant.
        let lossy = |missed: Option<u64>| Counts {
            losses: Losses {
                entry_missed: missed,
                entry_recursion_misses: missed,
                ..Losses::default()
            },
            ..counts(2_011, &[(120, 2_011)])
        };
        let here = Presence::BuiltIn;
        let moment = Moment {
            targets: &Target::three(),
            presence: &[here.clone(), here.clone(), here],
            total: &window_of([Some(617), Some(617), None].map(lossy)),
            interval: &window_of([Some(8), Some(0), None].map(lossy)),
        };
        let widths = [60, 100, 200];
        let texts = widths.map(|width| (width, watch_table(&moment, width)));
        for (width, text) in texts {
            assert_golden_within(&format!("watch-missed-{width}.txt"), &text, width);
        }
    }

    #[test]
    fn large_numbers_lose_their_separators() {
        let here = Presence::BuiltIn;
        let huge = || counts(12_345_678_901, &[(130, 12_345_678_000)]);
        let window = window(1_000_000_000, [huge(), huge()]);
        let moment = Moment {
            targets: &Target::three()[..2],
            presence: &[here.clone(), here],
            total: &window,
            interval: &window,
        };
        assert_golden_within("watch-huge-60.txt", &watch_table(&moment, 60), 60);
    }
}
