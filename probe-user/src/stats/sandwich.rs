//! A patched kernel between two controls.

use super::Thousandths;

/// What follows from three means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sandwich {
    /// Of the controls.
    pub(crate) midpoint: Thousandths,
    /// How far the controls are apart, in per cent of the first.
    pub(crate) drift_pct: Thousandths,
    /// The patched kernel against the midpoint, in per cent.
    pub(crate) delta_pct: Thousandths,
}

impl Sandwich {
    /// Of control A, the patched kernel, and control B; `None` if they are no times.
    pub(crate) fn of(a: Thousandths, patched: Thousandths, b: Thousandths) -> Option<Self> {
        let [a, patched, b] = [a, patched, b].map(Thousandths::thousandths);
        if a <= 0 || b <= 0 {
            return None;
        }
        Some(Self {
            midpoint: Thousandths::of_ratio(a + b, 2 * 1000)?,
            drift_pct: Thousandths::of_ratio(100 * (b - a).abs(), a)?,
            // Of the midpoint itself, not of the rounded one.
            delta_pct: Thousandths::of_ratio(100 * (2 * patched - a - b), a + b)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_figures_follow() {
        // The mail "Re: [PATCH v2] btrfs: replace writeback inhibition xarray with a fixed
        // inline buffer" and its evidence, control-sandwich.tsv.
        for (a, patched, b, follow) in [
            ("2943.790", "2159.123", "2970.446", "2957.118 0.905 -26.986"),
            ("3535.456", "2762.835", "3546.942", "3541.199 0.325 -21.980"),
            ("2947.164", "2156.813", "2976.346", "2961.755 0.990 -27.178"),
            ("3545.192", "2764.666", "3555.363", "3550.278 0.287 -22.128"),
        ] {
            let [a, patched, b] = [a, patched, b].map(|t| Thousandths::parse(t).expect("a number"));
            let of = Sandwich::of(a, patched, b).expect("times");
            let text = format!("{} {} {}", of.midpoint, of.drift_pct, of.delta_pct);
            assert_eq!(text, follow);
        }
        let zero = Thousandths::default();
        assert_eq!(Sandwich::of(zero, zero, zero), None);
    }
}
