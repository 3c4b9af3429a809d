//! A capture without what differs from run to run, and whether it is drawn well.

use anyhow::ensure;

/// Numbers, with their units and separators, become `N`; several spaces become two.
pub(super) fn mask(screen: &str) -> String {
    let mut masked = String::new();
    // Who executed the calls differs: a worker of the kernel may have come in between.
    for line in screen.lines().filter(|line| !line.starts_with("  by ")) {
        let words = line.split(' ').map(mask_word);
        let mut spaces = 0;
        for word in words {
            if word.is_empty() {
                spaces += 1;
                continue;
            }
            match spaces {
                _ if masked.is_empty() || masked.ends_with('\n') => {}
                0 => masked.push(' '),
                _ => masked.push_str("  "),
            }
            spaces = 0;
            masked.push_str(&word);
        }
        masked.push('\n');
    }
    masked
}

/// What is the same in every run: nothing, the load, and the slots of the buffer.
const KNOWN: [&str; 4] = ["0", "1,000", "500", "8"];

/// A word that is a number with a unit, or a kernel's release, is `N`.
fn mask_word(word: &str) -> String {
    if word.starts_with(|c: char| c.is_ascii_digit()) && !KNOWN.contains(&word) {
        "N".to_owned()
    } else {
        word.to_owned()
    }
}

/// Every line ends within the columns, and what stands in a table ends where a
/// word of its head does.
pub(super) fn fits(screen: &str, columns: usize) -> anyhow::Result<()> {
    let mut heads = Vec::new();
    for line in screen.lines() {
        ensure!(line.is_ascii(), "not ASCII: {line}");
        ensure!(line.len() <= columns, "longer than {columns}: {line}");
        let ends = ends(line);
        if ["calls", "mean"]
            .iter()
            .any(|head| ends.iter().any(|(word, _)| word == head))
        {
            heads = ends;
        } else if heads.is_empty() || line.is_empty() {
            heads.clear();
        } else {
            for (word, end) in ends.iter().filter(|(word, _)| is_cell(word)) {
                ensure!(
                    heads.iter().any(|(_, head)| head == end),
                    "{word} does not stand below its head: {line}"
                );
            }
        }
    }
    Ok(())
}

/// The words of a line, and where each ends.
fn ends(line: &str) -> Vec<(&str, usize)> {
    let mut end = 0;
    let words = line.split(' ').map(|word| {
        end += word.len() + 1;
        (word, end)
    });
    words.filter(|(word, _)| !word.is_empty()).collect()
}

/// Names, and a prompt, stand on the left.
fn is_cell(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) || ["-", "kprobe", "EXACT"].contains(&word)
}

/// The first number after a name, on its line or the next.
pub(super) fn first_number<'a>(screen: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = screen.split_once(name)?;
    rest.split_whitespace().next()
}
