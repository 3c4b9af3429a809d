//! The attached probes: opens and closes windows, and hands out snapshots.
//!
//! Refuses to know what a count means.

use std::{collections::BTreeMap, io, os::fd::BorrowedFd};

use probe_ebpf::{EPOCHS, Filesystem, STARTS, Tally};

use super::{
    attach::{Attached, Tallies, attach},
    error::AttachError,
    follow::Following,
    grace::Grace,
    load::Loader,
    monotonic_ns, others,
    processes::with_descendants,
    reach::Reach,
    seen::Seen,
};
use crate::{
    model::{Classes, Losses, Part, Presence, Reading, Snapshot, Target},
    wording::{causes, plain},
};

/// How often a closing window is read until no call returns meanwhile.
const CLOSING_READS: u32 = 1000;

/// Whose calls are the workload's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Workload<'a> {
    Nobody,
    /// Those of the tasks in it, and in what is below it.
    Cgroup(BorrowedFd<'a>),
    /// Those of these processes, their descendants that still have their parents, and
    /// all that they fork.
    Processes(&'a [u32]),
}

/// What is asked for beside the targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) workload: Workload<'a>,
    /// So many calls of a target can be under way at once.
    pub(crate) max_in_flight: u32,
    /// The way to the filesystem of each target's calls; none if they are not told apart.
    pub(crate) reaches: &'a [Option<Reach>],
}

/// The attached probes. Dropping them detaches everything: nothing is pinned, so
/// that the kernel cleans up even after a kill.
#[derive(Debug)]
pub(crate) struct Probes {
    /// In the order of the targets; `None` for one that was not asked for.
    attached: Vec<Option<Attached>>,
    grace: Grace,
    /// Of the open window, or of the last one.
    epoch: u64,
    /// As it was opened.
    opened: Each<Tallies>,
    classes: Classes,
    following: Option<Following>,
    /// Why processes are not followed that should be.
    not_followed: Option<String>,
}

impl Probes {
    /// Attaches to each target that is `Some` and that this kernel has. No window is
    /// open yet.
    pub(crate) fn attach(
        targets: &[Option<&Target>],
        wanted: Wanted<'_>,
    ) -> Result<Self, AttachError> {
        let mut loader = Loader::new(wanted.max_in_flight)?;
        let (mut following, mut not_followed) = (None, None);
        if let Workload::Processes(processes) = wanted.workload {
            match follow(&mut loader, processes) {
                Ok(all) => following = Some(all),
                Err(error) => not_followed = Some(causes(&error)),
            }
        }
        let cgroup = match wanted.workload {
            Workload::Cgroup(cgroup) => Some(cgroup),
            Workload::Nobody | Workload::Processes(_) => None,
        };
        let attached = attach(&loader, targets, cgroup, wanted.reaches)?;
        let classes = match loader.layout() {
            Err(why) => Classes::Untold(why.to_owned()),
            Ok(layout) => Classes::Told {
                workload: cgroup.is_some() || following.is_some(),
                interrupt: layout.count.is_some(),
            },
        };
        let grace = Grace::new().map_err(|e| AttachError::Denied(plain(&e)))?;
        Ok(Self {
            attached,
            grace,
            epoch: 0,
            opened: Vec::new(),
            classes,
            following,
            not_followed,
        })
    }

    /// Attaches each target that is `Some` by itself, detaches it, and says what the
    /// kernel told of its losses, or why it could not be attached.
    pub(crate) fn try_each(
        targets: &[Option<&Target>],
    ) -> Result<Each<Result<Losses, AttachError>>, AttachError> {
        let loader = Loader::new(STARTS)?;
        let one = |target: &Target| -> Result<Losses, AttachError> {
            let attached = attach(&loader, &[Some(target)], None, &[])?;
            let losses = attached.iter().flatten().map(Attached::losses).next();
            match losses {
                Some(losses) => losses.map_err(|error| AttachError::of(target, &error)),
                None => Err(AttachError::not_found(target)),
            }
        };
        Ok(targets.iter().map(|target| target.map(one)).collect())
    }

    /// The workload's cgroup is empty after all.
    pub(crate) fn forget_workload(&mut self) {
        if let Classes::Told { workload, .. } = &mut self.classes {
            *workload = false;
        }
    }

    /// What is wrong with the following of processes.
    pub(crate) fn following_fault(&self) -> Option<String> {
        if let Some(why) = &self.not_followed {
            return Some(format!("the workload is not told from other tasks: {why}"));
        }
        match self.following.as_ref()?.lost() {
            Ok(0) => None,
            Ok(lost) => Some(format!(
                "{lost} processes of the workload or more were lost sight of: they are among other tasks"
            )),
            Err(error) => Some(format!(
                "whether all processes of the workload were followed is not known: {}",
                causes(&error)
            )),
        }
    }

    /// Which targets are attached.
    pub(crate) fn attached(&self) -> impl Iterator<Item = bool> {
        self.attached.iter().map(Option::is_some)
    }

    /// The BPF programs of others on the same functions.
    pub(crate) fn others(&self, targets: &[Target], presence: &[Presence]) -> Result<Seen, String> {
        let each = self.attached.iter().zip(targets).zip(presence);
        let places = each.map(|((attached, target), presence)| {
            let attached = attached.as_ref();
            attached.map(|a| a.place(target, presence)).transpose()
        });
        let places = places.collect::<io::Result<Vec<_>>>();
        let ours = self.attached.iter().flatten().map(Attached::programs);
        let ours = ours.collect::<io::Result<Vec<_>>>();
        match (places, ours) {
            (Ok(places), Ok(ours)) => others::look(&places, &ours.concat()),
            (Err(e), _) | (_, Err(e)) => Err(plain(&e)),
        }
    }

    /// Opens a window. Losses are read first, so that the stretch in which they are
    /// looked for covers the stretch that is counted; nothing is counted before the
    /// gate opens.
    pub(crate) fn open(&mut self) -> anyhow::Result<Snapshot> {
        self.epoch += 1;
        let losses = self.losses()?;
        self.opened = self.tallies();
        let at_ns = monotonic_ns();
        self.set_gates(self.epoch);
        let tallies = self.opened.clone();
        let in_flight = self.under_way(&tallies);
        Ok(self.put_together(at_ns, tallies, in_flight, losses))
    }

    /// A reading in the midst of a window. Calls go on while it is made, so its
    /// numbers are of slightly different instants; it costs no hit.
    pub(crate) fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let at_ns = monotonic_ns();
        let tallies = self.tallies();
        let in_flight = self.under_way(&tallies);
        let losses = self.losses()?;
        Ok(self.put_together(at_ns, tallies, in_flight, losses))
    }

    /// Closes the window: no call is counted that enters after this, and each one
    /// that was is either returned or in flight in the snapshot.
    pub(crate) fn close(&mut self) -> anyhow::Result<Snapshot> {
        self.set_gates(0);
        let at_ns = monotonic_ns();
        // What is missed from here on is missed by no window; what follows costs hits.
        let losses = self.losses()?;
        // A program that saw the gate open has counted its call or return when this
        // returns; from then on the tallies of this window stay as they are.
        self.grace.wait()?;
        let tallies = self.tallies();
        let in_flight = self.in_flight()?;
        Ok(self.put_together(at_ns, tallies, in_flight, losses))
    }

    /// The calls that were in flight when the window closed: those whose start is
    /// still there, and those that returned since. Such a return is counted before its
    /// start is removed. If none is between two readings, then those counted before the
    /// first have removed their starts after a grace period, and none after the second
    /// has: no call is in both or in neither.
    fn in_flight(&self) -> anyhow::Result<Each<InFlight>> {
        let mut before = self.late();
        for _ in 1..CLOSING_READS {
            self.grace.wait()?;
            let each = self.attached.iter().map(Option::as_ref);
            let starts = each.map(|a| a.map(|a| a.in_flight(self.epoch)).transpose());
            let starts = starts.collect::<anyhow::Result<Each<InFlight>>>()?;
            let after = self.late();
            if after == before {
                let both = starts.into_iter().zip(after);
                return Ok(both.map(|(a, b)| Some(sum(a?, b?))).collect());
            }
            before = after;
        }
        anyhow::bail!("calls kept returning while the window was closed; run it again")
    }

    /// How many calls of this window returned after it.
    fn late(&self) -> Each<InFlight> {
        let place = usize::try_from(self.epoch % EPOCHS as u64).expect("small");
        let late = |(filesystem, tally): (Filesystem, Tally)| {
            let of = tally.epochs[place];
            let late = if of.epoch == self.epoch { of.late } else { 0 };
            (late > 0).then_some((filesystem, late))
        };
        let each = self.tallies().into_iter();
        each.map(|t| Some(t?.into_iter().filter_map(late).collect()))
            .collect()
    }

    /// Calls in flight as far as they follow from the tallies, of a moment at which
    /// counting them would cost hits.
    fn under_way(&self, tallies: &Each<Tallies>) -> Each<InFlight> {
        let done = |t: &Tally| t.returns + t.unstored + t.abandoned;
        // Read one after the other while calls go on: a return may be seen without its call.
        let since = |before: &Tally, now: &Tally| -> Option<u64> {
            let calls = now.total_calls().checked_sub(before.total_calls())?;
            Some(calls.saturating_sub(done(now).checked_sub(done(before))?))
        };
        let of_target = |before: &Tallies, now: &Tallies| -> Option<InFlight> {
            let nothing = Tally::default();
            let each = now.iter().map(|(filesystem, now)| {
                let before = before.get(filesystem).unwrap_or(&nothing);
                Some((*filesystem, since(before, now)?))
            });
            each.collect()
        };
        let both = self.opened.iter().zip(tallies);
        both.map(|(before, now)| of_target(before.as_ref()?, now.as_ref()?))
            .collect()
    }

    fn set_gates(&self, epoch: u64) {
        self.attached
            .iter()
            .flatten()
            .for_each(|a| a.set_gate(epoch));
    }

    fn tallies(&self) -> Each<Tallies> {
        let each = self.attached.iter();
        each.map(|a| a.as_ref().map(Attached::tallies)).collect()
    }

    fn losses(&self) -> anyhow::Result<Each<Losses>> {
        let each = self.attached.iter();
        each.map(|a| a.as_ref().map(Attached::losses).transpose())
            .collect()
    }

    fn put_together(
        &self,
        at_ns: u64,
        tallies: Each<Tallies>,
        in_flight: Each<InFlight>,
        losses: Each<Losses>,
    ) -> Snapshot {
        let all = self.attached.iter().zip(tallies).zip(in_flight).zip(losses);
        Snapshot {
            at_ns,
            epoch: self.epoch,
            classes: self.classes.clone(),
            readings: all
                .map(|(((attached, tallies), in_flight), losses)| {
                    let by_filesystem = attached.as_ref()?.by_filesystem();
                    Some(reading(by_filesystem, &tallies?, &in_flight?, losses?))
                })
                .collect(),
        }
    }
}

/// A value of each target.
type Each<T> = Vec<Option<T>>;

/// Calls in flight, of each filesystem.
type InFlight = BTreeMap<Filesystem, u64>;

fn follow(loader: &mut Loader, processes: &[u32]) -> anyhow::Result<Following> {
    let following = Following::begin(loader)?;
    // What is forked meanwhile is found in the next round, or was seen to be forked.
    let mut known = Vec::new();
    loop {
        let all = with_descendants(processes);
        let new: Vec<u32> = all.into_iter().filter(|p| !known.contains(p)).collect();
        for process in &new {
            following.add(*process)?;
        }
        if new.is_empty() {
            return Ok(following);
        }
        known.extend(new);
    }
}

fn sum(mut a: InFlight, b: InFlight) -> InFlight {
    for (filesystem, count) in b {
        *a.entry(filesystem).or_default() += count;
    }
    a
}

fn reading(
    by_filesystem: bool,
    tallies: &Tallies,
    in_flight: &InFlight,
    losses: Losses,
) -> Reading {
    let mut tally = Tally::default();
    for each in tallies.values() {
        tally.merge(each);
    }
    let parts = || {
        // A call in flight has a start; its tally is there, too.
        let each = tallies.iter().map(|(filesystem, tally)| {
            let in_flight = in_flight.get(filesystem).copied().unwrap_or(0);
            let tally = *tally;
            (*filesystem, Part { tally, in_flight })
        });
        each.collect()
    };
    Reading {
        tally,
        in_flight: in_flight.values().sum(),
        parts: by_filesystem.then(parts),
        losses,
    }
}
