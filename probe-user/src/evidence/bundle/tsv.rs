//! Tables of tab-separated values, read strictly: what a table holds is what somebody
//! quotes, so nothing is guessed.
//!
//! A table is read row by row, in bounded memory.

use std::{
    fmt::{self, Display},
    io::{self, BufRead, Read as _},
    str::FromStr,
};

use crate::stats::Thousandths;

/// Stands where there is no number.
pub(crate) const NONE: &str = "-";

/// No line of a table is longer.
const LONGEST: usize = 64 << 10;

/// What a row of a table is.
pub(crate) trait Row: Sized {
    /// The file's name.
    const FILE: &'static str;
    const COLUMNS: &'static [&'static str];

    /// Reads the fields in the order of the columns.
    fn read(fields: &mut Fields<'_>) -> Result<Self, Fault>;

    /// The fields as they are written.
    fn fields(&self) -> Vec<String>;
}

/// A whole table as a text.
pub(crate) fn text<R: Row>(rows: &[R]) -> String {
    let mut text = R::COLUMNS.join("\t") + "\n";
    for row in rows {
        text.push_str(&row.fields().join("\t"));
        text.push('\n');
    }
    text
}

/// What keeps a table from being read: one line, with file, line and field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    file: &'static str,
    line: u64,
    field: Option<&'static str>,
    why: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file, self.line)?;
        if let Some(field) = self.field {
            write!(f, ", {field}")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for Fault {}

/// The fields of one row, taken one after the other.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    file: &'static str,
    line: u64,
    columns: &'static [&'static str],
    values: Vec<&'a str>,
    taken: usize,
}

impl<'a> Fields<'a> {
    /// A word: not empty.
    pub(crate) fn word(&mut self) -> Result<String, Fault> {
        match self.next() {
            "" => Err(self.fault("it is empty")),
            word => Ok(word.to_owned()),
        }
    }

    /// Any text, nothing included.
    pub(crate) fn any(&mut self) -> String {
        self.next().to_owned()
    }

    /// A whole number, written without a sign or zeros before it.
    pub(crate) fn whole<T: FromStr>(&mut self) -> Result<T, Fault> {
        let text = self.next();
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let plain = digits && (text == "0" || !text.starts_with('0'));
        let number = plain.then(|| text.parse().ok()).flatten();
        number.ok_or_else(|| self.fault(&format!("{text:?} is no whole number")))
    }

    /// A number of at most three digits after the point that is not negative.
    pub(crate) fn positive(&mut self) -> Result<Thousandths, Fault> {
        let number = self.decimal()?;
        if number.is_negative() {
            return Err(self.fault("it is negative"));
        }
        Ok(number)
    }

    /// The same, or that there is none.
    pub(crate) fn unless_none(&mut self) -> Result<Option<Thousandths>, Fault> {
        if self.values[self.taken] == NONE {
            self.taken += 1;
            return Ok(None);
        }
        self.positive().map(Some)
    }

    /// Such a number, negative or not.
    pub(crate) fn decimal(&mut self) -> Result<Thousandths, Fault> {
        let text = self.next();
        Thousandths::parse(text).map_err(|why| self.fault(&format!("{text:?}: {why}")))
    }

    /// 0 or 1.
    pub(crate) fn flag(&mut self) -> Result<bool, Fault> {
        match self.next() {
            "0" => Ok(false),
            "1" => Ok(true),
            other => Err(self.fault(&format!("{other:?} is neither 0 nor 1"))),
        }
    }

    /// A fault of the field that was taken last.
    pub(crate) fn fault(&self, why: &str) -> Fault {
        Fault {
            file: self.file,
            line: self.line,
            field: self.taken.checked_sub(1).map(|taken| self.columns[taken]),
            why: why.to_owned(),
        }
    }

    fn next(&mut self) -> &'a str {
        let value = self.values[self.taken];
        self.taken += 1;
        value
    }
}

/// Reads a table and hands out its rows with their lines; the head is line 1.
pub(crate) fn each<R: Row>(
    mut table: impl BufRead,
    mut row: impl FnMut(u64, R) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut bytes = Vec::new();
    let mut line = 0;
    while let Some(text) = next_line::<R>(&mut table, &mut bytes, line + 1)? {
        line += 1;
        let values: Vec<_> = text.split('\t').collect();
        if line == 1 {
            head::<R>(&values)?;
            continue;
        }
        let (wanted, there) = (R::COLUMNS.len(), values.len());
        if there != wanted {
            let field = R::COLUMNS.get(there).copied();
            let why = format!("{there} fields instead of {wanted}");
            return Err(fault::<R>(line, field, why));
        }
        let mut fields = Fields {
            file: R::FILE,
            line,
            columns: R::COLUMNS,
            values,
            taken: 0,
        };
        let read = R::read(&mut fields)?;
        row(line, read)?;
    }
    if line == 0 {
        return Err(fault::<R>(1, None, "the file is empty".to_owned()));
    }
    Ok(())
}

/// The same into memory, for tables of a known few rows.
pub(crate) fn all<R: Row>(table: impl BufRead) -> Result<Vec<R>, Fault> {
    const MOST: usize = 100_000;
    let mut rows = Vec::new();
    each(table, |line, row| {
        if rows.len() == MOST {
            return Err(fault::<R>(line, None, format!("more than {MOST} rows")));
        }
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// A fault of a whole line, or of a field.
pub(crate) fn fault<R: Row>(line: u64, field: Option<&'static str>, why: String) -> Fault {
    let file = R::FILE;
    Fault {
        file,
        line,
        field,
        why,
    }
}

fn head<R: Row>(values: &[&str]) -> Result<(), Fault> {
    let wrong = |field, why: String| Err(fault::<R>(1, field, why));
    for (place, column) in R::COLUMNS.iter().enumerate() {
        match values.get(place) {
            Some(value) if value == column => {}
            _ if !values.contains(column) => {
                return wrong(Some(*column), "the column is missing".to_owned());
            }
            Some(other) => {
                return wrong(Some(*column), format!("{other:?} is in its place"));
            }
            None => return wrong(Some(*column), "the column is missing".to_owned()),
        }
    }
    match values.get(R::COLUMNS.len()) {
        Some(more) => wrong(None, format!("there is no column {more:?}")),
        None => Ok(()),
    }
}

/// The next line without its end; `None` after the last.
fn next_line<'b, R: Row>(
    table: &mut impl BufRead,
    bytes: &'b mut Vec<u8>,
    line: u64,
) -> Result<Option<&'b str>, Fault> {
    let wrong = |why: &str| Err(fault::<R>(line, None, why.to_owned()));
    bytes.clear();
    let limit = LONGEST as u64 + 1;
    let read = table.by_ref().take(limit).read_until(b'\n', bytes);
    if let Err(error) = read {
        return wrong(&reading(&error));
    }
    match bytes.pop() {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) if bytes.len() >= LONGEST => return wrong("the line is too long"),
        Some(_) => return wrong("the last line has no end; it is cut off"),
    }
    if line == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
        return wrong("it begins with a byte order mark; save it without");
    }
    if bytes.contains(&b'\r') {
        return wrong("it has a carriage return; save it with LF alone at the ends of lines");
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => wrong("it is not UTF-8"),
    }
}

fn reading(error: &io::Error) -> String {
    format!("cannot read it: {}", crate::wording::plain(error))
}
