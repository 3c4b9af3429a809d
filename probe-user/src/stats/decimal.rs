//! Decimal numbers with at most three digits after the point.

use std::fmt;

/// Such a number, held exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Thousandths(i64);

impl Thousandths {
    /// `numerator / denominator`, rounded to three digits, half away from zero; `None` if
    /// that is no such number.
    pub(crate) fn of_ratio(numerator: i128, denominator: i128) -> Option<Self> {
        let sign = numerator.signum() * denominator.signum();
        let (over, under) = (numerator.unsigned_abs(), denominator.unsigned_abs());
        if under == 0 {
            return None;
        }
        let doubled = over.checked_mul(2000)?.checked_add(under)?;
        let rounded = i128::try_from(doubled / under.checked_mul(2)?).ok()?;
        i64::try_from(sign * rounded).ok().map(Self)
    }

    /// The same, rounded towards zero: a percentage is 100 only if all of it is there.
    pub(crate) fn of_ratio_down(numerator: i128, denominator: i128) -> Option<Self> {
        let down = numerator.checked_mul(1000)?.checked_div(denominator)?;
        i64::try_from(down).ok().map(Self)
    }

    /// As it is written: digits, and perhaps a point with one to three more. An error says
    /// what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, part) = match digits.split_once('.') {
            Some((_, "")) => return Err("digits are missing after the point"),
            Some(both) => both,
            None => (digits, ""),
        };
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(part) {
            return Err("not a decimal number");
        }
        if whole.len() > 1 && whole.starts_with('0') {
            return Err("a leading 0");
        }
        if part.len() > 3 {
            return Err("more than three digits after the point");
        }
        let number = format!("{whole}{part:0<3}").parse::<i64>();
        let number = number.map_err(|_| "too large")?;
        match (negative, number) {
            (true, 0) => Err("a negative zero"),
            (true, number) => Ok(Self(-number)),
            (false, number) => Ok(Self(number)),
        }
    }

    /// How many thousandths it is.
    pub(crate) const fn thousandths(self) -> i128 {
        self.0 as i128
    }

    pub(crate) const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Without what follows the last digit that is not 0: `100`, `99.95`.
    pub(crate) fn shortest(self) -> String {
        let text = self.to_string();
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, all) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        f.pad(&format!("{sign}{}.{:03}", all / 1000, all % 1000))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        for (numerator, denominator, text) in [
            (7_100_555, 2000, "3550.278"),
            (-1, 2000, "-0.001"),
            (1, 2001, "0.000"),
            (1, -3, "-0.333"),
            (2, 3, "0.667"),
            (0, 5, "0.000"),
        ] {
            let number = Thousandths::of_ratio(numerator, denominator).expect("a number");
            assert_eq!(number.to_string(), text);
        }
        assert_eq!(Thousandths::of_ratio(1, 0), None);
        assert_eq!(Thousandths::of_ratio(i128::MAX, 1), None);
        let down = Thousandths::of_ratio_down(99_999_999, 1_000_000).expect("a number");
        assert_eq!(down.shortest(), "99.999");
    }

    #[test]
    fn only_plain_decimals_are_read() {
        for text in ["0", "100", "2943.790", "-26.986", "0.5", "99.95"] {
            assert!(Thousandths::parse(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "-",
            ".5",
            "5.",
            "1.2345",
            "NaN",
            "inf",
            "1e3",
            "+1",
            " 1",
            "1 ",
            "01",
            "-0",
            "--1",
            "1,5",
            "99999999999999999",
            "٣",
        ] {
            assert!(Thousandths::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(number in any::<i32>()) {
            let number = Thousandths(i64::from(number));
            prop_assert_eq!(Thousandths::parse(&number.to_string()), Ok(number));
            let shortest = number.shortest();
            prop_assert_eq!(Thousandths::parse(&shortest), Ok(number));
        }

        #[test]
        fn rounding_is_by_half_at_most(numerator in any::<i32>(), denominator in 1..i32::MAX) {
            let (numerator, denominator) = (i128::from(numerator), i128::from(denominator));
            let number = Thousandths::of_ratio(numerator, denominator).expect("small");
            let error = numerator * 1000 - number.thousandths() * denominator;
            prop_assert!(2 * error.abs() <= denominator);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = Thousandths::parse(&text);
        }
    }
}
