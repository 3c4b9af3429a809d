//! The attached probes: opens and closes windows, and hands out snapshots.
//!
//! Refuses to know what a count means.

use probe_ebpf::Tally;

use super::{
    attach::{Attached, attach},
    error::AttachError,
    grace::Grace,
    load::Loader,
    monotonic_ns,
};
use crate::{
    model::{Losses, Reading, Snapshot, Target},
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
}

impl Probes {
    /// Attaches to each target that is `Some` and that this kernel has. No window is
    /// open yet.
    pub(crate) fn attach(targets: &[Option<&Target>]) -> Result<Self, AttachError> {
        let attached = attach(&Loader::new()?, targets)?;
        let grace = Grace::new().map_err(|e| AttachError::Denied(plain(&e)))?;
        Ok(Self {
            attached,
            grace,
            epoch: 0,
            opened: Vec::new(),
        })
    }

    /// Attaches each target that is `Some` by itself, detaches it, and says what the
    /// kernel told of its losses, or why it could not be attached.
    pub(crate) fn try_each(
        targets: &[Option<&Target>],
    ) -> Result<Each<Result<Losses, AttachError>>, AttachError> {
        let loader = Loader::new()?;
        let one = |target: &Target| -> Result<Losses, AttachError> {
            let attached = attach(&loader, &[Some(target)])?;
            let losses = attached.iter().flatten().map(Attached::losses).next();
            match losses {
                Some(losses) => losses.map_err(|error| AttachError::of(target, &error)),
                None => Err(AttachError::refused(target, &"it went away")),
            }
        };
        Ok(targets.iter().map(|target| target.map(one)).collect())
    }

    /// Which targets are attached.
    pub(crate) fn attached(&self) -> impl Iterator<Item = bool> {
        self.attached.iter().map(Option::is_some)
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
        // A program that saw the gate open has counted its call when this returns.
        self.grace.wait()?;
        let (tallies, in_flight) = self.settled()?;
        let losses = self.losses()?;
        Ok(self.put_together(at_ns, tallies, in_flight, losses))
    }

    /// Tallies and calls in flight of one instant. A return is counted before its
    /// start is removed. If no return is counted between two readings, then those
    /// counted before the first have removed their starts after a grace period, and
    /// none after the second has: what is left then is what has not returned.
    fn settled(&self) -> anyhow::Result<(Each<Tally>, Each<u64>)> {
        let mut before = self.tallies();
        for _ in 1..CLOSING_READS {
            self.grace.wait()?;
            let each = self.attached.iter().map(Option::as_ref);
            let in_flight = each.map(|a| a.map(|a| a.in_flight(self.epoch)).transpose());
            let in_flight = in_flight.collect::<anyhow::Result<_>>()?;
            let after = self.tallies();
            if after == before {
                return Ok((after, in_flight));
            }
            before = after;
        }
        anyhow::bail!("calls kept returning while the window was closed; run it again")
    }

    /// Calls in flight as far as they follow from the tallies, of a moment at which
    /// counting them would cost hits.
    fn under_way(&self, tallies: &Each<Tally>) -> Each<u64> {
        let done = |t: &Tally| t.returns + t.unstored + t.abandoned;
        let since = |before: &Tally, now: &Tally| {
            let calls = now.total_calls() - before.total_calls();
            calls.saturating_sub(done(now) - done(before))
        };
        let both = self.opened.iter().zip(tallies);
        both.map(|(before, now)| Some(since(before.as_ref()?, now.as_ref()?)))
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
