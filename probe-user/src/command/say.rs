//! Words to the user on standard error. A reader that went away, or a full disk
//! behind it, must not cost the record or the exit status.

use std::{
    fmt::Display,
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::view::{WIDTH, time};

/// What nobody waits for without wondering.
const LONG_NS: u64 = 1_000_000_000;

/// Whether something could not be said for want of room.
static LOST: AtomicBool = AtomicBool::new(false);

/// Says a thing as it is.
pub(crate) fn print(text: &str) {
    let said = io::stderr().lock().write_all(text.as_bytes());
    if said.is_err_and(|e| e.kind() == io::ErrorKind::StorageFull) {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether a full disk took something that was said.
pub(super) fn was_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Says in one line, in our name, what went wrong.
pub(crate) fn say(text: impl Display) {
    print(&format!("cowprobe: {text}\n"));
}

/// Says what belongs to the numbers and is pasted with them: a line that is too
/// wide for that goes on, indented, after a colon.
pub(super) fn remark(text: impl Display) {
    print(&folded(&format!("cowprobe: {text}")));
}

/// Says how long detaching took, if it was long: the kernel waits for every CPU, and
/// the user for the kernel.
pub(super) fn remark_detaching(detach_ns: Option<u64>) {
    if let Some(ns) = detach_ns.filter(|ns| *ns > LONG_NS) {
        remark(format_args!("detaching took {}", time(ns)));
    }
}

fn folded(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while rest.len() > WIDTH
        && let Some(at) = rest[..WIDTH].rfind(": ")
        // A short word before a colon stays with what it introduces.
        && at > WIDTH / 3
    {
        text.push_str(&rest[..=at]);
        text.push_str("\n  ");
        rest = &rest[at + 2..];
    }
    text + rest + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_line_goes_on_after_a_colon() {
        assert_eq!(folded("cowprobe: short"), "cowprobe: short\n");
        assert_eq!(
            folded(
                "cowprobe: warning: btrfs_uninhibit_all_eb_writeback: 3 calls or more were missed"
            ),
            "cowprobe: warning: btrfs_uninhibit_all_eb_writeback:\n  3 calls or more were missed\n"
        );
        let unbreakable = format!("cowprobe: {}", "x".repeat(80));
        assert_eq!(folded(&unbreakable), format!("{unbreakable}\n"));
    }
}
