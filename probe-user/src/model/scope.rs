//! A part of what was counted: that on some filesystems.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use probe_ebpf::Filesystem;

use super::{BlockDevice, Counts, Need, Target, Window};

/// A btrfs that is, or was, mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) filesystem: Filesystem,
    pub(crate) point: PathBuf,
    /// As `8-4-4-4-12` hexadecimal digits; `None` if the mount could not be asked.
    pub(crate) fsid: Option<String>,
    /// What was mounted, such as `/dev/ram0`.
    pub(crate) source: String,
    /// As mountinfo has them: of the mount, and of the super block.
    pub(crate) options: [String; 2],
    /// The first of its devices.
    pub(crate) block: Option<BlockDevice>,
}

/// What was asked for, and what was found of it until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// As it was written, such as `--mount /mnt`.
    pub(crate) asked: Vec<String>,
    /// What of it was never found.
    pub(crate) missing: Vec<String>,
    /// Why filesystems are not told apart, if they are not.
    pub(crate) refused: Option<String>,
    /// Those that are meant.
    pub(crate) found: BTreeSet<Filesystem>,
    /// Each btrfs that was mounted at some time.
    pub(crate) seen: BTreeMap<Filesystem, Mount>,
}

impl Scope {
    /// A filesystem as a reader knows it, such as `0:45 (/mnt)`.
    pub(crate) fn label(&self, filesystem: Filesystem) -> String {
        let name = filesystem_name(filesystem);
        match self.seen.get(&filesystem) {
            Some(mount) => format!("{name} ({})", mount.point.display()),
            None => name,
        }
    }

    /// What is counted, in a few words.
    pub(crate) fn words(&self) -> String {
        if self.refused.is_some() {
            return "every call on this machine".to_owned();
        }
        let each: Vec<String> = self.found.iter().map(|of| self.label(*of)).collect();
        match &each[..] {
            [] => format!("nothing yet: {} is not mounted", self.asked.join(", ")),
            each => format!("calls on {}", each.join(", ")),
        }
    }

    /// What is wrong with it, and with a window in the light of it.
    pub(crate) fn causes(&self, targets: &[Target], window: &Window) -> Vec<String> {
        let asked = self.asked.join(", ");
        if let Some(why) = &self.refused {
            return vec![format!(
                "{asked}: refused, the calls on all filesystems are counted: {why}"
            )];
        }
        let missing = self.missing.iter();
        let mut causes: Vec<String> = missing
            .map(|asked| format!("{asked}: no such btrfs was mounted"))
            .collect();
        for (target, counts) in targets.iter().zip(&window.counts) {
            let Some(counts) = counts else { continue };
            let Some(elsewhere) = &counts.elsewhere else {
                continue;
            };
            if target.need == Need::Required && counts.calls == 0 {
                let seen = elsewhere
                    .iter()
                    .filter(|(_, calls)| **calls > 0)
                    .map(|(of, calls)| format!("{calls} on {}", self.label(*of)));
                let seen: Vec<String> = seen.collect();
                let instead = if seen.is_empty() {
                    "nor anywhere else".to_owned()
                } else {
                    format!("but {}", seen.join(", "))
                };
                let name = target.name();
                causes.push(format!(
                    "{name} was not called in scope ({asked}), {instead}"
                ));
            }
        }
        causes
    }
}

/// By its numbers, as mountinfo shows them.
pub(crate) fn filesystem_name(filesystem: Filesystem) -> String {
    match filesystem.numbers() {
        Some((major, minor)) => format!("{major}:{minor}"),
        None if filesystem == Filesystem::REST => "more filesystems than are told apart".to_owned(),
        None => "an unknown filesystem".to_owned(),
    }
}

impl Window {
    /// The counts in scope; the calls on other filesystems stand beside them. A target
    /// whose calls are not told apart keeps them all.
    pub(crate) fn scoped(&self, scope: &BTreeSet<Filesystem>) -> Self {
        let each = self.counts.iter().map(|counts| {
            let counts = counts.as_ref()?;
            Some(counts.scoped(scope))
        });
        Self {
            counts: each.collect(),
            classes: self.classes.clone(),
            ..*self
        }
    }
}

impl Counts {
    fn scoped(&self, scope: &BTreeSet<Filesystem>) -> Self {
        let Some(parts) = &self.parts else {
            return self.clone();
        };
        let mut sum = Self {
            losses: self.losses,
            ..Self::nothing()
        };
        let (inside, outside): (BTreeMap<_, _>, BTreeMap<_, _>) = parts
            .iter()
            .map(|(of, counts)| (*of, counts.clone()))
            .partition(|(of, _)| scope.contains(of));
        for counts in inside.values() {
            sum.add_parallel(counts);
        }
        let outside = outside.into_iter().map(|(of, counts)| (of, counts.calls));
        Self {
            elsewhere: Some(outside.collect()),
            parts: Some(inside),
            // Of a return without a start it is not known where it was called.
            unmatched: self.unmatched,
            ..sum
        }
    }

    /// Calls that are out of scope; `None` without a scope.
    pub(crate) fn calls_elsewhere(&self) -> Option<u64> {
        self.elsewhere.as_ref().map(|each| each.values().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Losses;

    fn part(calls: u64) -> Counts {
        Counts {
            calls,
            plain: calls,
            returns: calls,
            ..Counts::nothing()
        }
    }

    #[test]
    fn what_is_elsewhere_stands_beside() {
        let [a, b, c] = [1, 2, 3].map(|minor| Filesystem::of_numbers(0, minor));
        let losses = Losses {
            entry_missed: Some(1),
            entry_recursion_misses: Some(2),
            return_missed: Some(0),
            return_recursion_misses: Some(0),
        };
        let all = Counts {
            losses,
            unmatched: 4,
            parts: Some(BTreeMap::from([
                (a, part(100)),
                (b, part(20)),
                (c, part(3)),
            ])),
            ..part(123)
        };
        let window = Window {
            start_ns: 1,
            end_ns: 9,
            classes: crate::model::Classes::all(),
            counts: vec![Some(all), None, Some(part(7))],
        };
        for (scope, calls) in [(vec![], 0), (vec![a], 100), (vec![a, c], 103)] {
            let scope: BTreeSet<_> = scope.into_iter().collect();
            let scoped = window.scoped(&scope);
            let first = scoped.counts[0].as_ref().expect("counted");
            assert_eq!((first.calls, first.returns), (calls, calls));
            assert_eq!(first.calls_elsewhere(), Some(123 - calls));
            assert_eq!((first.losses, first.unmatched), (losses, 4));
            // Not counted, and not told apart.
            assert_eq!(scoped.counts[1], None);
            assert_eq!(scoped.counts[2], window.counts[2]);
        }
    }

    #[test]
    fn a_scope_without_a_call_says_what_was_seen() {
        let [a, b] = [1, 2].map(|minor| Filesystem::of_numbers(0, minor));
        let mount = |of: Filesystem, point: &str| Mount {
            filesystem: of,
            point: point.into(),
            fsid: None,
            source: String::new(),
            options: [String::new(), String::new()],
            block: None,
        };
        let mut scope = Scope {
            asked: vec!["--mount /a".to_owned()],
            missing: Vec::new(),
            refused: None,
            found: BTreeSet::from([a]),
            seen: BTreeMap::from([(a, mount(a, "/a")), (b, mount(b, "/b"))]),
        };
        let counts = Counts {
            parts: Some(BTreeMap::from([
                (b, part(20)),
                (Filesystem::UNTOLD, part(1)),
            ])),
            ..part(21)
        };
        let window = Window {
            start_ns: 1,
            end_ns: 9,
            classes: crate::model::Classes::all(),
            counts: vec![Some(counts), None, None],
        };
        let causes = |scope: &Scope| scope.causes(&Target::three(), &window.scoped(&scope.found));
        assert_eq!(
            causes(&scope),
            [
                "btrfs_remap_file_range was not called in scope (--mount /a), but 20 on 0:2 (/b), 1 on an unknown filesystem"
            ]
        );
        assert_eq!(scope.words(), "calls on 0:1 (/a)");
        scope.found = BTreeSet::from([b]);
        assert_eq!(causes(&scope), [""; 0]);
        scope.refused = Some("no BTF".to_owned());
        assert_eq!(
            causes(&scope),
            ["--mount /a: refused, the calls on all filesystems are counted: no BTF"]
        );
    }
}
