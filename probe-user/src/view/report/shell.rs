//! A command as a shell takes it back.

use crate::view::WIDTH;

/// A word is cut into pieces of so many bytes if it is longer than a line.
const PIECE: usize = 16;

/// The command in lines of at most [`WIDTH`] columns, which a POSIX shell reads as the
/// same words.
pub(super) fn command_lines(words: &[String]) -> String {
    let mut lines = Lines {
        text: String::new(),
        line: String::from(" "),
    };
    for word in words {
        let whole = quoted(word.as_bytes());
        if !lines.has_room(1 + whole.len()) {
            lines.go_on(" ", "   ");
        }
        if lines.has_room(1 + whole.len()) {
            lines.line.push(' ');
            lines.line.push_str(&whole);
            continue;
        }
        lines.line.push(' ');
        for piece in word.as_bytes().chunks(PIECE) {
            let piece = quoted(piece);
            if !lines.has_room(piece.len()) {
                // Nothing may stand between the pieces of a word.
                lines.go_on("", "");
            }
            lines.line.push_str(&piece);
        }
    }
    lines.text + &lines.line + "\n"
}

/// Lines of a command that go on behind a backslash.
struct Lines {
    text: String,
    line: String,
}

impl Lines {
    /// For so many columns, and the backslash.
    fn has_room(&self, columns: usize) -> bool {
        self.line.len() + columns + " \\".len() <= WIDTH
    }

    fn go_on(&mut self, before: &str, indent: &str) {
        self.text.push_str(&self.line);
        self.text.push_str(before);
        self.text.push_str("\\\n");
        indent.clone_into(&mut self.line);
    }
}

/// The command in one line.
pub(super) fn command_line(words: &[String]) -> String {
    let words = words.iter().map(|word| quoted(word.as_bytes()));
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(b);
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    if word.iter().all(|b| *b == b' ' || b.is_ascii_graphic()) {
        let text = String::from_utf8_lossy(word);
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut text = String::from("$'");
    for byte in word {
        match byte {
            b'\'' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' ' => text.push(' '),
            b if b.is_ascii_graphic() => text.push(char::from(*b)),
            b => text.extend([format!("\\{b:03o}")]),
        }
    }
    text + "'"
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// What a shell makes of it: each word, and a zero byte after it.
    fn read_back(command: &str) -> String {
        let out = Command::new("bash")
            .args(["-c", &format!("printf '%s\\0' {command}")])
            .output()
            .expect("bash");
        String::from_utf8(out.stdout).expect("UTF-8")
    }

    fn check(words: &[String]) {
        let lines = command_lines(words);
        for line in lines.lines() {
            assert!(line.len() <= WIDTH && line.is_ascii(), "{line}");
        }
        let all = words.join("\0") + "\0";
        assert_eq!(read_back(lines.trim_end_matches('\n')), all, "{lines}");
        assert_eq!(read_back(&command_line(words)), all);
    }

    #[test]
    fn a_long_word_goes_on_at_the_left() {
        let long = "/a/very/long/path".repeat(8);
        check(&["cowprobe".to_owned(), long, "it's \t\u{e9}".repeat(20)]);
        check(&[String::new(), "a\nb".to_owned()]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_shell_reads_the_same_words(words in prop::collection::vec("[ -~\u{a0}-\u{17f}\n\t]{0,90}", 1..6)) {
            check(&words);
        }
    }
}
