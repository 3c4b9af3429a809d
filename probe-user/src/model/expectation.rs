//! What a tester expects of a count, and whether it came true.
//!
//! `btrfs_remap_file_range==2000`, `remap>=2000`, `uninhibit==2000..2030`,
//! `clone==1000`, `inhibit/remap<=3.9`: calls of a target, of one kind of its calls,
//! or the ratio of two such numbers, compared exactly.

use super::{Counts, Kinds, Target, Window};

/// One that was parsed against the targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expectation {
    /// As it was written.
    pub(crate) text: String,
    of: Number,
    /// The number by which it is divided.
    per: Option<Number>,
    is: Is,
}

/// A number of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    /// Among the targets.
    target: usize,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Calls,
    Clones,
    Dedupes,
}

/// What it is compared with; both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Is {
    least: Option<Decimal>,
    most: Option<Decimal>,
}

/// `units / 10^places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    units: u64,
    places: u32,
}

/// Whether it came true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Held,
    Failed,
    /// Calls were missed, and it depends on them.
    Undecided,
    /// There is no valid count, or a division by nothing.
    NoCount,
}

impl Outcome {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Failed => "failed",
            Self::Undecided => "undecided",
            Self::NoCount => "no count",
        }
    }
}

/// An outcome, and what was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) outcome: Outcome,
    /// The number, or the two of a ratio.
    pub(crate) counted: Vec<u64>,
}

/// From the least that a number can be to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    least: u64,
    most: u64,
}

impl Expectation {
    /// From the command line; an error says what to write.
    pub(crate) fn parse(text: &str, targets: &[Target]) -> Result<Self, String> {
        let form = || {
            format!(
                "--expect {text:?}: write it as NAME==N, NAME>=N, NAME<=N, NAME==N..M or NAME/NAME<=N"
            )
        };
        let operators = ["==", ">=", "<="];
        let found = operators
            .iter()
            .filter_map(|op| Some((text.find(op)?, *op)));
        let (at, operator) = found.min().ok_or_else(form)?;
        let (left, right) = (text[..at].trim(), text[at + 2..].trim());
        let is = Is::parse(operator, right).ok_or_else(form)?;
        let number = |name: &str| {
            Number::parse(name.trim(), targets).map_err(|why| format!("--expect {text:?}: {why}"))
        };
        let (of, per) = match left.split_once('/') {
            Some((of, per)) => (number(of)?, Some(number(per)?)),
            None => (number(left)?, None),
        };
        Ok(Self {
            text: text.to_owned(),
            of,
            per,
            is,
        })
    }

    /// What came of it in a window.
    pub(crate) fn judge(&self, window: &Window) -> Came {
        let no_count = Came {
            outcome: Outcome::NoCount,
            counted: Vec::new(),
        };
        let Some(of) = self.of.range(window) else {
            return no_count;
        };
        let per = self.per.map(|per| per.range(window));
        let per = match per {
            Some(Some(per)) => per,
            Some(None) => return no_count,
            None => Range { least: 1, most: 1 },
        };
        let counted = match self.per {
            Some(_) => vec![of.least, per.least],
            None => vec![of.least],
        };
        if per.least == 0 {
            return Came {
                outcome: Outcome::NoCount,
                counted,
            };
        }
        // The least that the ratio can be, and the most.
        let ends = [(of.least, per.most), (of.most, per.least)];
        let [low, high] = ends.map(|(of, per)| self.is.side(of, per));
        let outcome = match (low, high) {
            (Side::Within, Side::Within) => Outcome::Held,
            (Side::Above, _) | (_, Side::Below) => Outcome::Failed,
            _ => Outcome::Undecided,
        };
        Came { outcome, counted }
    }
}

/// Where a number lies beside what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    Within,
    Above,
}

impl Is {
    fn parse(operator: &str, text: &str) -> Option<Self> {
        let one = |text: &str| Decimal::parse(text.trim());
        let is = match (operator, text.split_once("..")) {
            ("==", Some((least, most))) => Self {
                least: Some(one(least)?),
                most: Some(one(most)?),
            },
            (_, Some(_)) => return None,
            ("==", None) => Self {
                least: Some(one(text)?),
                most: Some(one(text)?),
            },
            (">=", None) => Self {
                least: Some(one(text)?),
                most: None,
            },
            (_, None) => Self {
                least: None,
                most: Some(one(text)?),
            },
        };
        Some(is)
    }

    fn side(self, of: u64, per: u64) -> Side {
        if self
            .least
            .is_some_and(|least| least.compare(of, per).is_gt())
        {
            Side::Below
        } else if self.most.is_some_and(|most| most.compare(of, per).is_lt()) {
            Side::Above
        } else {
            Side::Within
        }
    }
}

impl Decimal {
    /// At most nine places, so that no product overflows.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
            return None;
        }
        if text.ends_with('.') {
            return None;
        }
        Some(Self {
            units: format!("{whole}{fraction}").parse().ok()?,
            places: u32::try_from(fraction.len()).ok()?,
        })
    }

    /// `self` beside `of / per`.
    fn compare(self, of: u64, per: u64) -> std::cmp::Ordering {
        let mine = u128::from(self.units) * u128::from(per);
        mine.cmp(&(u128::from(of) * 10_u128.pow(self.places)))
    }
}

impl Number {
    fn parse(name: &str, targets: &[Target]) -> Result<Self, String> {
        let kinds = targets.iter().position(|t| t.kinds == Kinds::CloneDedupe);
        match (name, kinds) {
            ("clone", Some(target)) => {
                let part = Part::Clones;
                return Ok(Self { target, part });
            }
            ("dedupe", Some(target)) => {
                let part = Part::Dedupes;
                return Ok(Self { target, part });
            }
            _ => {}
        }
        let part = Part::Calls;
        if let Some(target) = targets.iter().position(|t| t.name() == name) {
            return Ok(Self { target, part });
        }
        // Whole words alone: inhibit is not in btrfs_uninhibit_all_eb_writeback.
        let short = |t: &Target| {
            !name.is_empty() && format!("_{}_", t.symbol).contains(&format!("_{name}_"))
        };
        let found: Vec<usize> = (0..targets.len()).filter(|&i| short(&targets[i])).collect();
        match found[..] {
            [target] => Ok(Self { target, part }),
            [] => Err(format!("{name:?} is no target; add it with --probe")),
            _ => {
                let names: Vec<String> = found.iter().map(|&i| targets[i].name()).collect();
                Err(format!(
                    "{name:?} can be {}; write more of it",
                    names.join(" or ")
                ))
            }
        }
    }

    fn range(self, window: &Window) -> Option<Range> {
        let counts: &Counts = window.counts[self.target].as_ref()?;
        let least = match self.part {
            Part::Calls => counts.calls,
            Part::Clones => counts.plain,
            Part::Dedupes => counts.dedupe,
        };
        // Each missed call may be of either kind.
        let missed = counts.missed_calls().unwrap_or(0);
        Some(Range {
            least,
            most: least.saturating_add(missed),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::Losses, *};

    fn counts(plain: u64, dedupe: u64, missed: u64) -> Counts {
        Counts {
            calls: plain + dedupe,
            plain,
            dedupe,
            returns: plain + dedupe,
            losses: Losses {
                entry_missed: Some(missed),
                entry_recursion_misses: Some(0),
                ..Losses::default()
            },
            ..Counts::nothing()
        }
    }

    fn window(missed: u64) -> Window {
        Window {
            start_ns: 0,
            end_ns: 1,
            classes: crate::model::Classes::of_threads(),
            counts: vec![
                Some(counts(1000, 1000, missed)),
                Some(counts(7637, 0, 0)),
                None,
            ],
        }
    }

    fn judge(text: &str, window: &Window) -> Outcome {
        let expectation = Expectation::parse(text, &Target::three());
        expectation.expect("parses").judge(window).outcome
    }

    #[test]
    fn an_expectation_holds_or_not() {
        use Outcome::{Failed, Held, NoCount};
        let window = window(0);
        for (text, outcome) in [
            ("btrfs_remap_file_range==2000", Held),
            ("remap == 2000", Held),
            ("remap==2001", Failed),
            ("remap>=2000", Held),
            ("remap>=2001", Failed),
            ("remap<=1999", Failed),
            ("remap==1990..2000", Held),
            ("remap==2001..3000", Failed),
            ("clone==1000", Held),
            ("dedupe<=999", Failed),
            ("inhibit/remap==3.8185", Held),
            ("inhibit/remap<=3.8184", Failed),
            ("inhibit/remap==3.8..3.9", Held),
            ("clone/dedupe==1", Held),
            ("uninhibit==2000", NoCount),
            ("remap/uninhibit>=0", NoCount),
        ] {
            assert_eq!(judge(text, &window), outcome, "{text}");
        }
    }

    #[test]
    fn what_depends_on_missed_calls_is_undecided() {
        use Outcome::{Failed, Held, Undecided};
        let window = window(3);
        for (text, outcome) in [
            ("remap==2000", Undecided),
            ("remap==2000..2003", Held),
            ("remap>=2000", Held),
            ("remap>=2002", Undecided),
            ("remap>=2004", Failed),
            ("remap<=1999", Failed),
            ("clone==1000", Undecided),
            ("inhibit/remap<=3.8185", Held),
            ("inhibit/remap==3.8185", Undecided),
        ] {
            assert_eq!(judge(text, &window), outcome, "{text}");
        }
    }

    #[test]
    fn nothing_is_no_divisor() {
        let mut window = window(0);
        window.counts[1] = Some(counts(0, 0, 0));
        assert_eq!(judge("remap/inhibit>=1", &window), Outcome::NoCount);
        assert_eq!(judge("inhibit/remap==0", &window), Outcome::Held);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("remap", "NAME==N"),
            ("remap=2000", "NAME==N"),
            ("remap==", "NAME==N"),
            ("remap==-1", "NAME==N"),
            ("remap==1e3", "NAME==N"),
            ("remap==1.", "NAME==N"),
            ("remap>=1..2", "NAME==N"),
            ("remap==99999999999999999999", "NAME==N"),
            ("==1", "is no target"),
            ("rem==1", "is no target"),
            ("btrfs==1", "can be btrfs_remap_file_range or"),
            ("writeback==1", "write more of it"),
        ] {
            let error = Expectation::parse(text, &Target::three()).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z_=<>./0-9 ]{0,24}") {
            if let Ok(expectation) = Expectation::parse(&text, &Target::three()) {
                expectation.judge(&window(u64::MAX));
            }
        }

        #[test]
        fn held_means_that_every_possible_number_is_right(least in 0..50_u64, missed in 0..5_u64, low in 0..60_u64, length in 0..5_u64) {
            let mut window = window(0);
            window.counts[0] = Some(counts(least, 0, missed));
            let high = low + length;
            let right = (least..=least + missed).filter(|n| (low..=high).contains(n)).count() as u64;
            let outcome = match right {
                0 => Outcome::Failed,
                n if n == missed + 1 => Outcome::Held,
                _ => Outcome::Undecided,
            };
            prop_assert_eq!(judge(&format!("remap=={low}..{high}"), &window), outcome);
        }
    }
}
