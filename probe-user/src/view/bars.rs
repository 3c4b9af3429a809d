//! A histogram in ASCII, for any width.

use probe_ebpf::h2::{OVERFLOW, bounds};

use super::{grouped, time::time};
use crate::model::{Histogram, Target};

/// How the times of a target are distributed: a line for each power of two.
pub(crate) fn histogram(target: &Target, latency: &Histogram, width: usize) -> String {
    let mut octaves: Vec<(u64, u64)> = Vec::new();
    for (slot, &count) in latency.buckets.iter().enumerate() {
        if count == 0 {
            continue;
        }
        let (low, _) = bounds(slot);
        let octave = low.checked_ilog2().map_or(0, |log| 1 << log);
        match octaves.last_mut() {
            Some(last) if last.0 == octave => last.1 += count,
            _ => octaves.push((octave, count)),
        }
    }
    let most = octaves.iter().map(|o| o.1).max().unwrap_or(0);
    let digits = grouped(most).len();
    let lines = octaves.into_iter().map(|(low, count)| {
        let until = match low {
            OVERFLOW => "and up".to_owned(),
            _ => format!("- {}", time((low * 2).max(1))),
        };
        let label = format!("{:>7} {until:<9} {:>digits$} |", time(low), grouped(count));
        let room = width.saturating_sub(label.len()) as u128;
        let bar = u128::from(count) * room / u128::from(most.max(1));
        // What is there is seen.
        let bar = usize::try_from(bar).unwrap_or(0).max(1);
        format!("{label}{}\n", "#".repeat(bar))
    });
    let head = format!("{}, time from entry to return\n", target.name());
    std::iter::once(head)
        .chain(lines)
        .collect::<Vec<_>>()
        .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::assert_golden_within;

    #[test]
    fn it_has_a_line_for_each_octave() {
        let mut latency = Histogram::empty();
        for (slot, count) in [
            (0, 1),
            (2, 10),
            (72, 5_000),
            (73, 2_000),
            (80, 700),
            (264, 1),
        ] {
            latency.buckets[slot] = count;
        }
        let text = histogram(&Target::three()[0], &latency, 60);
        assert_golden_within("histogram-60.txt", &text, 60);
    }
}
