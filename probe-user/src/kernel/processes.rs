//! Processes and their descendants, by /proc.

use std::{collections::BTreeSet, fs};

/// These processes and all that descend from them, as far as their parents live.
pub(super) fn with_descendants(processes: &[u32]) -> BTreeSet<u32> {
    let parents = all_parents();
    let mut found: BTreeSet<u32> = processes.iter().copied().collect();
    loop {
        let children = parents
            .iter()
            .filter(|(_, parent)| found.contains(parent))
            .map(|(process, _)| *process);
        let before = found.len();
        let children: Vec<u32> = children.collect();
        found.extend(children);
        if found.len() == before {
            return found;
        }
    }
}

/// Each process with its parent.
fn all_parents() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes
        .filter_map(|process: u32| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            Some((process, parent_in(&stat)?))
        })
        .collect()
}

/// The fourth field; the second is a name in parentheses, with anything in it.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_rest() {
        assert_eq!(parent_in("12 (a) S 7 (b) R 34 12 12 0"), Some(34));
        assert_eq!(parent_in("12 (sh) S 1 12 12 0"), Some(1));
        assert_eq!(parent_in("garbage"), None);
    }

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("spawns");
        let found = with_descendants(&[std::process::id()]);
        child.kill().expect("kills");
        child.wait().expect("waits");
        assert!(found.contains(&child.id()) && found.contains(&std::process::id()));
    }
}
