//! The mode of preemption that is live, which a kernel's command line does not prove.

use anyhow::{Context as _, ensure};

/// All modes that the kernel has, the live one in parentheses (`sched_dynamic_show` in
/// kernel/sched/debug.c of Linux 7.2).
const MODES: &str = "/sys/kernel/debug/sched/preempt";

/// Fails unless this mode is live.
pub(crate) fn check(mode: &str) -> anyhow::Result<String> {
    let modes = std::fs::read_to_string(MODES).with_context(|| format!("cannot read {MODES}"))?;
    let live = live(&modes).with_context(|| format!("no mode is live: {modes}"))?;
    ensure!(live == mode, "{live} is live instead of {mode}");
    Ok(live.to_owned())
}

fn live(modes: &str) -> Option<&str> {
    modes
        .split_whitespace()
        .find_map(|mode| mode.strip_prefix('(')?.strip_suffix(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_mode_is_in_parentheses() {
        assert_eq!(live("none voluntary full (lazy)\n"), Some("lazy"));
        assert_eq!(live("(full) lazy\n"), Some("full"));
        assert_eq!(live("none voluntary full lazy\n"), None);
        assert_eq!(live(""), None);
    }
}
