//! The terminal: its size, and a screen that is drawn over in place.

use std::io::{self, Write as _};

use terminal_size::{Height, Width, terminal_size_of};

/// Where the table is drawn. The alternate screen is left when it is dropped, and
/// what was on the terminal before is there again.
#[derive(Debug)]
pub(crate) struct Screen;

impl Screen {
    /// What leaves the screen; harmless where none was taken.
    pub(crate) const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

    /// Takes the screen; standard output must be a terminal.
    pub(crate) fn take() -> io::Result<Self> {
        // The alternate screen, without a cursor.
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(Self)
    }

    /// Draws over what is there: lines that are too long for the terminal, or one
    /// too many, would scroll it.
    #[expect(
        clippy::unused_self,
        reason = "only who has taken the screen may draw on it"
    )]
    pub(crate) fn draw(&self, text: &str) -> io::Result<()> {
        let (width, height) = size();
        let lines = text.lines().take(height.saturating_sub(1));
        let lines: Vec<&str> = lines
            .map(|line| line.get(..width).unwrap_or(line))
            .collect();
        // Home, each line and the rest of it blank, then the rest of the screen blank.
        write(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write(Self::LEAVE);
    }
}

/// Columns and rows of standard output; 72 and plenty if it is no terminal.
pub(crate) fn size() -> (usize, usize) {
    match terminal_size_of(io::stdout()) {
        Some((Width(columns), Height(rows))) => (columns.into(), rows.into()),
        None => (super::WIDTH, usize::MAX),
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
