//! The terminal: its size, and a screen that is drawn over in place.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use terminal_size::{Height, Width, terminal_size_of};

/// Shows the cursor, and what was there before.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Whether there is a screen.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Where the table is drawn. The alternate screen is left when it is dropped, and
/// what was on the terminal before is there again.
#[derive(Debug)]
pub(crate) struct Screen;

impl Screen {
    /// Whether standard output is a terminal.
    pub(crate) fn is_possible() -> bool {
        io::stdout().is_terminal()
    }

    /// What leaves the screen, if one is taken now; for a signal handler, too.
    pub(crate) fn farewell() -> &'static str {
        if TAKEN.load(Ordering::Relaxed) {
            LEAVE
        } else {
            ""
        }
    }

    /// Takes the screen; standard output must be a terminal.
    pub(crate) fn take() -> io::Result<Self> {
        // The alternate screen, without a cursor.
        write("\x1b[?1049h\x1b[?25l")?;
        TAKEN.store(true, Ordering::Relaxed);
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
        let room = height.saturating_sub(1);
        let all = text.lines().count();
        let lines = text.lines().map(|line| line.get(..width).unwrap_or(line));
        let mut lines: Vec<&str> = lines.take(room).collect();
        let more = format!(
            "... {} lines more in a higher terminal",
            all + 1 - lines.len().max(1)
        );
        if all > room
            && let Some(last) = lines.last_mut()
        {
            *last = more.get(..width).unwrap_or(&more);
        }
        // Home, each line and the rest of it blank, then the rest of the screen blank.
        write(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write(LEAVE);
        TAKEN.store(false, Ordering::Relaxed);
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
