//! Attaches the copies of the object to their targets, and reads them.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    mem::offset_of,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use probe_ebpf::{Filesystem, Slot, Start, Tally};

use super::{
    bpf,
    error::AttachError,
    listed::{self, Hook},
    load::{Loaded, Loader},
    others::Place,
    perf::{Kprobes, Side},
    reach::Reach,
};
use crate::model::{Losses, Presence, Target};

/// One target's copy of the object, attached.
#[derive(Debug)]
pub(super) struct Attached {
    /// The links. Nothing else holds them: dropped, the probes are gone.
    entry: OwnedFd,
    ret: OwnedFd,
    copy: Loaded,
    by_filesystem: bool,
}

/// Of each filesystem.
pub(super) type Tallies = BTreeMap<Filesystem, Tally>;

impl Attached {
    /// The tallies summed over all possible CPUs, offline ones included: of each
    /// filesystem, or of [`Filesystem::ALL`] if they are not told apart.
    pub(super) fn tallies(&self) -> Tallies {
        let mut sums = Tallies::new();
        for tally in self.copy.tallies.words().chunks_exact(Tally::STRIDE) {
            let word = |i: usize| tally[i].load(Ordering::Relaxed);
            if self.by_filesystem && word(0) == Filesystem::ALL.0 {
                continue;
            }
            let tally = Tally::from_words(std::array::from_fn(word));
            match sums.entry(tally.filesystem) {
                Entry::Vacant(place) => drop(place.insert(tally)),
                Entry::Occupied(mut sum) => sum.get_mut().merge(&tally),
            }
        }
        sums
    }

    /// Whether its calls are told apart by filesystem.
    pub(super) const fn by_filesystem(&self) -> bool {
        self.by_filesystem
    }

    /// How many calls of a window are under way: counted, which costs hits while the
    /// gate is open.
    pub(super) fn in_flight(&self, epoch: u64) -> anyhow::Result<BTreeMap<Filesystem, u64>> {
        let slots = self.copy.slots.words().chunks_exact(Slot::WORDS);
        let in_slots = slots.filter_map(|words| taken(words, epoch));
        let starts = bpf::starts(self.copy.starts.fd().as_fd())?;
        let in_hash = starts.iter().filter(|start| start.epoch == epoch);
        let mut counts = BTreeMap::new();
        for filesystem in in_slots.chain(in_hash.map(|start| start.filesystem)) {
            *counts.entry(filesystem).or_default() += 1;
        }
        Ok(counts)
    }

    /// The kernel's own counters of what these probes did not get.
    pub(super) fn losses(&self) -> anyhow::Result<Losses> {
        let of = |link: &OwnedFd, program: &OwnedFd| -> io::Result<(Option<u64>, Option<u64>)> {
            let missed = bpf::link_missed(link.as_fd())?;
            let recursion_misses = bpf::recursion_misses(program.as_fd())?;
            // Kernels without the first have the second, but do not count kprobes in it: both
            // came with "bpf: Count missed stats in trace_call_bpf" (Linux 6.7).
            Ok((missed, missed.and(recursion_misses)))
        };
        let (entry_missed, entry_recursion_misses) = of(&self.entry, &self.copy.entry)?;
        let (return_missed, return_recursion_misses) = of(&self.ret, &self.copy.ret)?;
        Ok(Losses {
            entry_missed,
            entry_recursion_misses,
            return_missed,
            return_recursion_misses,
        })
    }

    /// The ids of its programs.
    pub(super) fn programs(&self) -> io::Result<[u32; 2]> {
        let [entry, ret] = [&self.copy.entry, &self.copy.ret].map(|p| listed::program(p.as_fd()));
        Ok([entry?.id, ret?.id])
    }

    /// Where it is, as others on it are looked for.
    pub(super) fn place<'a>(
        &self,
        target: &'a Target,
        presence: &'a Presence,
    ) -> io::Result<Place<'a>> {
        let address = match listed::link(self.entry.as_fd())? {
            (_, Hook::Kprobe(probed)) => probed.address,
            _ => 0,
        };
        Ok(Place {
            symbol: &target.symbol,
            object: presence.place(),
            address,
        })
    }

    /// Opens the gate for a window, or closes it with epoch 0.
    pub(super) fn set_gate(&self, epoch: u64) {
        self.copy.shared.words()[0].store(epoch, Ordering::Relaxed);
    }
}

/// Where the call was made that has a slot, if it has one and is of this window. A slot
/// that is taken meanwhile has no epoch yet.
fn taken(slot: &[AtomicU64], epoch: u64) -> Option<Filesystem> {
    let word = |offset: usize| slot[offset / size_of::<u64>()].load(Ordering::Relaxed);
    let of_start = |offset: usize| word(offset_of!(Slot, start) + offset);
    let is = word(offset_of!(Slot, frame)) != 0 && of_start(offset_of!(Start, epoch)) == epoch;
    is.then(|| Filesystem(of_start(offset_of!(Start, filesystem))))
}

/// Attaches a kretprobe, then a kprobe, to each target that is `Some`; one that
/// this kernel does not have becomes `None`. Filesystems are told apart where there is a
/// way to them. All return programs come before all
/// entry programs, so that no call is counted whose return could not be.
pub(super) fn attach(
    loader: &Loader,
    targets: &[Option<&Target>],
    cgroup: Option<BorrowedFd<'_>>,
    reaches: &[Option<Reach>],
) -> Result<Vec<Option<Attached>>, AttachError> {
    // First: a kernel without them takes no program for them either.
    let kprobes = Kprobes::find();
    if let (Some(target), Err(error)) = (targets.iter().flatten().next(), &kprobes) {
        return Err(AttachError::refused(target, error));
    }
    let mut ready = Vec::with_capacity(targets.len());
    for (place, target) in targets.iter().enumerate() {
        let reach = reaches.get(place).copied().flatten();
        ready.push(match target {
            Some(target) => Some((
                *target,
                (loader.load(target, cgroup, reach)?, reach.is_some()),
            )),
            None => None,
        });
    }
    let link = |target: &Target, side, program: &OwnedFd| {
        let kprobes = kprobes
            .as_ref()
            .map_err(|e| AttachError::refused(target, e))?;
        link(kprobes, target, side, program.as_fd())
    };
    let mut returns = Vec::with_capacity(targets.len());
    for copy in ready {
        returns.push(match copy {
            Some((target, copy)) => {
                let ret = link(target, Side::Return, &copy.0.ret)?;
                ret.map(|ret| (target, copy, ret))
            }
            None => None,
        });
    }
    let mut attached = Vec::with_capacity(targets.len());
    for copy in returns {
        attached.push(match copy {
            Some((target, (copy, by_filesystem), ret)) => {
                let entry = link(target, Side::Entry, &copy.entry)?;
                entry.map(|entry| Attached {
                    entry,
                    ret,
                    copy,
                    by_filesystem,
                })
            }
            None => None,
        });
    }
    Ok(attached)
}

/// Attaches one program and returns its link, by which it stays attached; `None`
/// if there is no such function.
fn link(
    kprobes: &Kprobes,
    target: &Target,
    side: Side,
    program: BorrowedFd<'_>,
) -> Result<Option<OwnedFd>, AttachError> {
    let event = match kprobes.open(&target.kprobe_name(), side) {
        Ok(event) => event,
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        Err(e) => return Err(AttachError::of(target, &e.into())),
    };
    let link = bpf::link_to_event(program, event.as_fd());
    // The link keeps the event.
    link.map(Some)
        .map_err(|e| AttachError::of(target, &e.into()))
}
