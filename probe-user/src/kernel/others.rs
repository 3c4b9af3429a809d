//! Which BPF programs of others are on the functions that we probe: they cost time in
//! what is measured, and while one of them runs ours may be skipped.
//!
//! Links are asked for their functions, and programs for kprobes that no link holds are
//! looked for among the perf events of all tasks (`PERF_EVENT_IOC_SET_BPF`).

use std::{collections::HashSet, fs, io, os::fd::AsFd as _, path::Path};

use super::{
    listed::{self, Hook, Kind, Probed, Program, btf_name},
    seen::{Seen, Traced},
};
use crate::{model::OtherProgram, wording::plain};

/// A function that we probe.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) symbol: &'a str,
    /// As its BTF is called, the image's `vmlinux`.
    pub(super) object: &'a str,
    /// Of our own kprobe; 0 if it is hidden.
    pub(super) address: u64,
}

impl Place<'_> {
    /// Whether these are of this function. A kprobe at its beginning is 4 bytes behind it
    /// where that is an `endbr64` (`arch_adjust_kprobe_addr`, x86 since Linux 5.18).
    fn has(&self, address: u64) -> bool {
        self.address.abs_diff(address) <= 4
    }

    fn is_probed(&self, probed: &Probed) -> bool {
        let base = probed.address.wrapping_sub(probed.offset);
        match (self.address, probed.address, &probed.function) {
            (1.., 1.., _) => self.has(base),
            (_, _, Some(function)) => function.rsplit(':').next() == Some(self.symbol),
            _ => false,
        }
    }
}

/// Looks for them; those programs of ours are no others.
pub(super) fn look(places: &[Option<Place<'_>>], ours: &[u32]) -> Result<Seen, String> {
    let mut search = Search {
        places,
        seen: Seen {
            on: vec![Vec::new(); places.len()],
            traced: Vec::new(),
        },
    };
    match search.all(ours) {
        Ok(()) => Ok(search.seen),
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
            Err("listing them takes CAP_SYS_ADMIN".to_owned())
        }
        Err(e) => Err(plain(&e)),
    }
}

struct Search<'a> {
    places: &'a [Option<Place<'a>>],
    seen: Seen,
}

impl Search<'_> {
    fn all(&mut self, ours: &[u32]) -> io::Result<()> {
        // Of programs that run by what was told.
        let mut known: HashSet<u32> = ours.iter().copied().collect();
        for id in listed::ids(Kind::Link)? {
            let Some(link) = still_there(listed::open(Kind::Link, id))? else {
                continue;
            };
            // One that cannot be described is as one that no link holds.
            let Ok((program, hook)) = listed::link(link.as_fd()) else {
                continue;
            };
            if ours.contains(&program) || hook == Hook::Untold {
                continue;
            }
            known.insert(program);
            self.note(program, &hook)?;
        }
        for id in listed::ids(Kind::Program)? {
            if !known.contains(&id) && self::program(id)?.is_some_and(|p| p.is_kprobe) {
                return self.events_of_all_tasks(&known);
            }
        }
        Ok(())
    }

    /// Every perf event of every task, which takes long where there are many tasks. Those
    /// of tasks that `/proc` does not show, outside of a container, are not found.
    fn events_of_all_tasks(&mut self, known: &HashSet<u32>) -> io::Result<()> {
        let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
        for task in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = number(&task.path()) else {
                continue;
            };
            let fds = match fs::read_dir(task.path().join("fd")) {
                Ok(fds) => fds,
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    let why = "events of other users are hidden; it takes CAP_SYS_PTRACE";
                    return Err(io::Error::other(why));
                }
                // It has ended.
                Err(_) => continue,
            };
            for fd in fds.flatten() {
                let is_event = fs::read_link(fd.path())
                    .is_ok_and(|to| to.as_os_str() == "anon_inode:[perf_event]");
                let Some(fd) = number(&fd.path()).filter(|_| is_event) else {
                    continue;
                };
                match listed::event(pid, fd) {
                    Ok((program, hook)) if !known.contains(&program) => {
                        self.note(program, &hook)?;
                    }
                    // One without a program is an error.
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Notes a program on each place that its hook is on.
    fn note(&mut self, id: u32, hook: &Hook) -> io::Result<()> {
        let (kind, on) = match hook {
            Hook::Kprobe(probed) => ("kprobe", self.places_that(|p| p.is_probed(probed))),
            Hook::Kretprobe(probed) => ("kretprobe", self.places_that(|p| p.is_probed(probed))),
            Hook::Multi {
                of_return,
                addresses,
            } => {
                let kind = if *of_return {
                    "kretprobe.multi"
                } else {
                    "kprobe.multi"
                };
                (kind, self.at(addresses)?)
            }
            Hook::Tracing(kind) => return self.note_traced(id, kind),
            Hook::Other | Hook::Untold => return Ok(()),
        };
        if on.is_empty() {
            return Ok(());
        }
        let Some(program) = program(id)? else {
            return Ok(());
        };
        for place in on {
            let by = program.hooked(kind);
            let on = &mut self.seen.on[place];
            // An event for each CPU is one program.
            if !on.contains(&by) {
                on.push(by);
            }
        }
        Ok(())
    }

    /// The places at these addresses.
    fn at(&self, addresses: &[u64]) -> io::Result<Vec<usize>> {
        let is_hidden = |address: u64| address == 0;
        let mut ours = self.places.iter().flatten().map(|place| place.address);
        if addresses.iter().copied().all(is_hidden) || ours.any(is_hidden) {
            let why = "addresses are hidden; it takes CAP_SYSLOG, and kernel.kptr_restrict below 2";
            return Err(io::Error::other(why));
        }
        Ok(self.places_that(|place| addresses.iter().any(|address| place.has(*address))))
    }

    fn places_that(&self, is: impl Fn(&Place<'_>) -> bool) -> Vec<usize> {
        let each = self.places.iter().enumerate();
        each.filter(|(_, place)| place.as_ref().is_some_and(&is))
            .map(|(i, _)| i)
            .collect()
    }

    /// Notes a program that was loaded for one function, if that may be one of ours.
    fn note_traced(&mut self, id: u32, kind: &'static str) -> io::Result<()> {
        let Some(program) = program(id)? else {
            return Ok(());
        };
        let (object, function) = program.traces;
        let object = still_there(btf_name(object))?.flatten();
        let ours = |object: &String| self.places.iter().flatten().any(|p| p.object == object);
        if let Some(object) = object.filter(ours) {
            self.seen.traced.push(Traced {
                object,
                function,
                by: program.hooked(kind),
            });
        }
        Ok(())
    }
}

impl Program {
    fn hooked(&self, kind: &'static str) -> OtherProgram {
        OtherProgram {
            kind,
            name: self.name.clone(),
            id: self.id,
        }
    }
}

fn program(id: u32) -> io::Result<Option<Program>> {
    let fd = still_there(listed::open(Kind::Program, id))?;
    fd.map(|fd| listed::program(fd.as_fd())).transpose()
}

/// What has an id may go away at any time.
fn still_there<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(there) => Ok(Some(there)),
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_by_address_or_else_by_name() {
        let check = |address, function: Option<&str>, offset, theirs, is| {
            let place = Place {
                symbol: "f",
                object: "btrfs",
                address,
            };
            let probed = Probed {
                function: function.map(str::to_owned),
                offset,
                address: theirs,
            };
            assert_eq!(place.is_probed(&probed), is, "{address:x} {probed:?}");
        };
        check(0x1004, Some("f"), 0, 0x1004, true);
        // By address, and that is behind an endbr64 or not.
        check(0x1004, None, 0, 0x1000, true);
        check(0x1000, None, 0, 0x1004, true);
        check(0x1004, None, 0, 0x1010, false);
        // In its midst.
        check(0x1004, Some("f"), 0x10, 0x1010, true);
        // Another function of this name.
        check(0x1004, Some("xfs:f"), 0, 0x2004, false);
        // Hidden addresses.
        check(0, Some("btrfs:f"), 0, 0, true);
        check(0, Some("f"), 0x10, 0, true);
        check(0x1004, Some("g"), 0, 0, false);
        check(0, None, 0, 0, false);
    }
}
