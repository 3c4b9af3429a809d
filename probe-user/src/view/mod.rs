//! What a person reads: at most 72 columns of ASCII, so that it can be pasted
//! into a mail. The one room that names tabled.

mod bars;
mod check;
mod report;
mod rounds;
mod terminal;
mod time;
mod totals;
mod watch;

pub(crate) use bars::histogram;
pub(crate) use check::check_table;
pub(crate) use report::{report_mail, report_markdown, report_tsv};
pub(crate) use rounds::{Rounds, counted_rounds_table, rounds_table};
pub(crate) use terminal::{Screen, size};
pub(crate) use time::time;
pub(crate) use totals::totals_table;
pub(crate) use watch::{Moment, times_table, watch_head, watch_table};

use tabled::{
    builder::Builder,
    settings::{Alignment, Padding, Style, object::Columns, object::Object as _, object::Rows},
};

/// The widest line that a view prints.
pub(crate) const WIDTH: usize = 72;

/// How a count is written.
type Number = fn(u64) -> String;

/// Lays rows out in columns: the first and, if asked for, all others to the left,
/// else to the right, without lines.
fn lay_out(rows: Vec<Vec<String>>, others: Alignment) -> String {
    let mut builder = Builder::default();
    for row in rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table
        .with(Style::empty())
        .with(Padding::new(0, 2, 0, 0))
        .modify(Columns::new(1..), others)
        .modify(Columns::last().intersect(Rows::new(0..)), Padding::zero());
    let text = table.to_string();
    text.lines().fold(String::new(), |mut all, line| {
        all.push_str(line.trim_end());
        all.push('\n');
        all
    })
}

/// The same with names on lines of their own: each row that has one begins without
/// it.
fn with_names_above(mut rows: Vec<Vec<String>>, names: &[Option<String>]) -> String {
    for (place, (row, name)) in rows.iter_mut().zip(names).enumerate() {
        if place == 0 || name.is_some() {
            row[0].clear();
        }
    }
    let text = lay_out(rows, Alignment::right());
    let lines = text.lines().zip(names);
    let lines = lines.map(|(line, name)| match name {
        Some(name) => format!("{name}\n{line}\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// A count with separators between thousands: 1234567 is "1,234,567".
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Compares with a golden file in `tests/golden`; `UPDATE=1` writes it anew.
#[cfg(test)]
fn assert_golden(name: &str, text: &str) {
    assert_golden_within(name, text, WIDTH);
}

/// The same for a text of another width.
#[cfg(test)]
fn assert_golden_within(name: &str, text: &str, width: usize) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).expect("writes the golden file");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{name} differs; UPDATE=1 accepts it");
    for line in text.lines() {
        assert!(line.len() <= width, "{name} is too wide: {line}");
        assert!(line.is_ascii() && !line.contains('\t'), "{name}: {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (123_456, "123,456"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(n), text);
        }
    }
}
