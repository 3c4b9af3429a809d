//! The windows of a run: opened and closed one after the other, kept apart and
//! summed.

use anyhow::bail;

use super::{footing::Footing, survey::Plan};
use crate::{
    kernel::Probes,
    model::{Brief, Presence, Snapshot, Target, Window},
    wording::causes,
};

/// Probes that count in windows.
#[derive(Debug)]
pub(super) struct Counting {
    probes: Probes,
    names: Vec<String>,
    presence: Vec<Presence>,
    open: Option<(Snapshot, Footing)>,
    counted: Counted,
}

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// All windows together; `None` if there was none.
    pub(super) total: Option<Window>,
    /// Each, in order.
    pub(super) windows: Vec<Brief>,
    /// What took counts away.
    pub(super) causes: Vec<String>,
    /// What could not be looked at.
    pub(super) warnings: Vec<String>,
}

impl Counting {
    /// Attaches. No window is open yet.
    pub(super) fn attach(plan: &mut Plan) -> anyhow::Result<Self> {
        let probes = plan.attach()?;
        if let Some(refusal) = Footing::read(&plan.presence).refusal() {
            bail!(refusal);
        }
        Ok(Self {
            probes,
            names: plan.targets.iter().map(Target::name).collect(),
            presence: plan.presence.clone(),
            open: None,
            counted: Counted::default(),
        })
    }

    /// Opens a window, unless one is open.
    pub(super) fn enable(&mut self) -> anyhow::Result<()> {
        if self.open.is_none() {
            let footing = Footing::read(&self.presence);
            self.open = Some((self.probes.open()?, footing));
        }
        Ok(())
    }

    /// Closes the window, if one is open. A window that cannot be closed has no
    /// counts, which is a cause of failure and no reason to end.
    pub(super) fn disable(&mut self) {
        let Some((open, footing)) = self.open.take() else {
            return;
        };
        let counted = &mut self.counted;
        let window = match self.probes.close() {
            Ok(close) => {
                let mut window = Window::whole(&open, &close);
                let later = Footing::read(&self.presence);
                let judged = Footing::judge(&footing, &later, &self.presence, &mut window);
                note(&mut counted.causes, judged);
                note(&mut counted.warnings, footing.warning());
                window
            }
            Err(error) => {
                note(&mut counted.causes, [causes(&error)]);
                Window {
                    start_ns: open.at_ns,
                    end_ns: open.at_ns,
                    counts: vec![None; self.presence.len()],
                }
            }
        };
        counted.windows.push(window.brief());
        match &mut counted.total {
            Some(total) => total.add(&window),
            None => counted.total = Some(window),
        }
    }

    /// A reading of the window that is open, with the one that opened it.
    pub(super) fn now(&self) -> anyhow::Result<Option<(&Snapshot, Snapshot)>> {
        match &self.open {
            Some((open, _)) => Ok(Some((open, self.probes.snapshot()?))),
            None => Ok(None),
        }
    }

    /// Each target that is attached, and its calls in all windows until now.
    pub(super) fn calls_until_now(&self) -> Vec<(String, u64)> {
        let now = self.now().ok().flatten();
        let open = now.map(|(open, now)| Window::whole(open, &now));
        let calls = |window: Option<&Window>, place: usize| {
            let counts = window.and_then(|window| window.counts[place].as_ref());
            counts.map_or(0, |counts| counts.calls)
        };
        let here = self.names.iter().zip(&self.presence).enumerate();
        here.filter(|(_, (_, presence))| **presence != Presence::Absent)
            .map(|(place, (name, _))| {
                let closed = calls(self.counted.total.as_ref(), place);
                (name.clone(), closed + calls(open.as_ref(), place))
            })
            .collect()
    }

    /// Closes the window and detaches.
    pub(super) fn end(mut self) -> Counted {
        self.disable();
        self.counted
    }
}

/// Each line once.
fn note(lines: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for line in more {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
}
