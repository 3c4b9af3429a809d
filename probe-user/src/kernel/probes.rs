//! The attached probes: opens and closes windows, and hands out snapshots.
//!
//! Refuses to know what a count means.

use std::{io, os::fd::BorrowedFd};

use probe_ebpf::{EPOCHS, STARTS, Tally};

use super::{
    attach::{Attached, attach},
    error::AttachError,
    grace::Grace,
    load::Loader,
    monotonic_ns, others,
    seen::Seen,
};
use crate::{
    model::{Classes, Losses, Presence, Reading, Snapshot, Target},
    wording::plain,
};

/// How often a closing window is read until no call returns meanwhile.
const CLOSING_READS: u32 = 1000;

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
    opened: Each<Tally>,
    classes: Classes,
    flags_offset: Option<u32>,
}

impl Probes {
    /// Attaches to each target that is `Some` and that this kernel has. No window is
    /// open yet.
    /// Calls of the tasks in `cgroup`, if there is one, are the workload's.
    pub(crate) fn attach(
        targets: &[Option<&Target>],
        cgroup: Option<BorrowedFd<'_>>,
        max_in_flight: u32,
    ) -> Result<Self, AttachError> {
        let loader = Loader::new(max_in_flight)?;
        let attached = attach(&loader, targets, cgroup)?;
        let classes = match (loader.classes_untold(), cgroup) {
            (Some(why), _) => Classes::Untold(why.to_owned()),
            (None, None) => Classes::Threads,
            (None, Some(_)) => Classes::All,
        };
        let grace = Grace::new().map_err(|e| AttachError::Denied(plain(&e)))?;
        Ok(Self {
            attached,
            grace,
            epoch: 0,
            opened: Vec::new(),
            classes,
            flags_offset: loader.flags_offset(),
        })
    }

    /// Attaches each target that is `Some` by itself, detaches it, and says what the
    /// kernel told of its losses, or why it could not be attached.
    pub(crate) fn try_each(
        targets: &[Option<&Target>],
    ) -> Result<Each<Result<Losses, AttachError>>, AttachError> {
        let loader = Loader::new(STARTS)?;
        let one = |target: &Target| -> Result<Losses, AttachError> {
            let attached = attach(&loader, &[Some(target)], None)?;
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
        if self.classes == Classes::All {
            self.classes = Classes::Threads;
        }
    }

    /// The offset of a task's flags by which classes are told, if they are.
    pub(crate) const fn flags_offset(&self) -> Option<u32> {
        self.flags_offset
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
    fn in_flight(&self) -> anyhow::Result<Each<u64>> {
        let mut before = self.late();
        for _ in 1..CLOSING_READS {
            self.grace.wait()?;
            let each = self.attached.iter().map(Option::as_ref);
            let starts = each.map(|a| a.map(|a| a.in_flight(self.epoch)).transpose());
            let starts = starts.collect::<anyhow::Result<Each<u64>>>()?;
            let after = self.late();
            if after == before {
                let both = starts.iter().zip(&after);
                return Ok(both.map(|(a, b)| Some((*a)? + (*b)?)).collect());
            }
            before = after;
        }
        anyhow::bail!("calls kept returning while the window was closed; run it again")
    }

    /// How many calls of this window returned after it.
    fn late(&self) -> Each<u64> {
        let place = usize::try_from(self.epoch % EPOCHS as u64).expect("small");
        let late = |tally: Tally| {
            let of = tally.epochs[place];
            if of.epoch == self.epoch { of.late } else { 0 }
        };
        self.tallies().into_iter().map(|t| t.map(late)).collect()
    }

    /// Calls in flight as far as they follow from the tallies, of a moment at which
    /// counting them would cost hits.
    fn under_way(&self, tallies: &Each<Tally>) -> Each<u64> {
        let done = |t: &Tally| t.returns + t.unstored + t.abandoned;
        // Read one after the other while calls go on: a return may be seen without its call.
        let since = |before: &Tally, now: &Tally| -> Option<u64> {
            let calls = now.total_calls().checked_sub(before.total_calls())?;
            Some(calls.saturating_sub(done(now).checked_sub(done(before))?))
        };
        let both = self.opened.iter().zip(tallies);
        both.map(|(before, now)| since(before.as_ref()?, now.as_ref()?))
            .collect()
    }

    fn set_gates(&self, epoch: u64) {
        self.attached
            .iter()
            .flatten()
            .for_each(|a| a.set_gate(epoch));
    }

    fn tallies(&self) -> Each<Tally> {
        let each = self.attached.iter();
        each.map(|a| a.as_ref().map(Attached::tally)).collect()
    }

    fn losses(&self) -> anyhow::Result<Each<Losses>> {
        let each = self.attached.iter();
        each.map(|a| a.as_ref().map(Attached::losses).transpose())
            .collect()
    }

    fn put_together(
        &self,
        at_ns: u64,
        tallies: Each<Tally>,
        in_flight: Each<u64>,
        losses: Each<Losses>,
    ) -> Snapshot {
        let all = tallies.into_iter().zip(in_flight).zip(losses);
        Snapshot {
            at_ns,
            epoch: self.epoch,
            classes: self.classes.clone(),
            readings: all
                .map(|((tally, in_flight), losses)| {
                    Some(Reading {
                        tally: tally?,
                        in_flight: in_flight?,
                        losses: losses?,
                    })
                })
                .collect(),
        }
    }
}

/// A value of each target.
type Each<T> = Vec<Option<T>>;
