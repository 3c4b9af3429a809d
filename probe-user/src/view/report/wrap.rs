//! Text in lines of at most [`WIDTH`] columns of ASCII.

use crate::{model::Fact, view::WIDTH};

/// The widest name that has its value beside it.
const NAME: usize = 18;

/// What is not printable ASCII as a string of Rust has it, such as `\u{e9}` or `\t`.
pub(super) fn ascii(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        if c == ' ' || c.is_ascii_graphic() {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
        out
    })
}

/// Names and values in two columns; a value that has no room there is below its name.
pub(super) fn facts(all: &[Fact]) -> String {
    let names = all.iter().map(|fact| ascii(&fact.name).len());
    let column = names.filter(|n| *n <= NAME).max().unwrap_or(0) + 4;
    all.iter().map(|fact| one(fact, column)).collect()
}

fn one(fact: &Fact, column: usize) -> String {
    let (name, value) = (ascii(&fact.name), ascii(&fact.value));
    let longest = value.split(' ').map(str::len).max().unwrap_or(0);
    if 2 + name.len() < column && column + longest <= WIDTH {
        let name = format!("  {name}");
        return lines(&format!("{name:column$}"), &" ".repeat(column), &value);
    }
    lines("  ", "  ", &name) + &lines("    ", "    ", &value)
}

/// Text behind a mark, and indented as far below it.
pub(super) fn paragraph(mark: &str, text: &str) -> String {
    let mark = if mark == "  " {
        mark.to_owned()
    } else {
        format!("  {mark}")
    };
    lines(&mark, &" ".repeat(mark.len()), &ascii(text))
}

/// Breaks between words; inside of one only if it is wider than a line.
fn lines(first: &str, others: &str, text: &str) -> String {
    let mut all = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && line.len() + 1 + word.len() > WIDTH {
            end(&mut all, &line);
            others.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        let mut rest = word;
        while line.len() + rest.len() > WIDTH {
            let (here, more) = rest.split_at(WIDTH - line.len());
            end(&mut all, &(line + here));
            line = String::from(others);
            rest = more;
        }
        line.push_str(rest);
        empty = false;
    }
    end(&mut all, &line);
    all
}

fn end(all: &mut String, line: &str) {
    all.push_str(line.trim_end());
    all.push('\n');
}
