//! Times for people: three digits and a unit.

/// Such as `850ns`, `1.92us`, `24.6us`, `365us`, `11.5ms`, `1.20s`, `34359s`.
pub(crate) fn time(ns: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    for (unit, name) in UNITS {
        // The unit's half last digit below: 999.5 us is 1.00 ms.
        if ns >= unit - unit / 2000 {
            return three_digits(ns, unit) + name;
        }
    }
    format!("{ns}ns")
}

/// `ns / unit`, rounded to three digits.
fn three_digits(ns: u64, unit: u64) -> String {
    for (digits, limit) in [(2, 10), (1, 100)] {
        let step = unit / 10_u64.pow(digits);
        let steps = (ns + step / 2) / step;
        let (whole, rest) = (steps * step / unit, steps % 10_u64.pow(digits));
        if whole < limit {
            let width = digits as usize;
            return format!("{whole}.{rest:0width$}");
        }
    }
    ((ns + unit / 2) / unit).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.00us"),
            (1_919, "1.92us"),
            (9_994, "9.99us"),
            (9_996, "10.0us"),
            (24_576, "24.6us"),
            (99_949, "99.9us"),
            (99_960, "100us"),
            (365_063, "365us"),
            (999_400, "999us"),
            (999_600, "1.00ms"),
            (11_525_672, "11.5ms"),
            (1_200_000_000, "1.20s"),
            (34_359_738_368_000, "34360s"),
        ] {
            assert_eq!(time(ns), text, "{ns}");
        }
    }
}
