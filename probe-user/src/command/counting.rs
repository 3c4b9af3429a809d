//! The windows of a run: opened and closed one after the other, kept apart and
//! summed.

use std::{borrow::Cow, io};

use anyhow::bail;

use super::{footing::Footing, scope::Scoping, survey::Plan};
use crate::{
    kernel::{Probes, Workload, give_up_privileges, monotonic_ns, mounts},
    model::{Brief, Mount, Presence, Scope, Snapshot, Target, Window},
    wording::causes,
};

/// Probes that count in windows.
#[derive(Debug)]
pub(super) struct Counting {
    probes: Probes,
    names: Vec<String>,
    presence: Vec<Presence>,
    /// When the probes were attached.
    footing: Footing,
    scoping: Option<Scoping>,
    open: Option<Snapshot>,
    counted: Counted,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    /// All windows together, as far as they are in scope; `None` if there was none.
    pub(super) total: Option<Window>,
    /// What is meant, unless all is.
    pub(super) scope: Option<Scope>,
    /// Each, in order.
    pub(super) windows: Vec<Brief>,
    /// What took counts away.
    pub(super) causes: Vec<String>,
    /// What could not be looked at.
    pub(super) warnings: Vec<String>,
    /// Each btrfs that was mounted when the first window was closed.
    pub(super) mounted: Vec<Mount>,
    /// How long detaching took; `None` where nothing was attached.
    pub(super) detach_ns: Option<u64>,
}

impl Counting {
    /// Attaches, and gives up the privileges that this took. No window is open yet.
    pub(super) fn attach(
        plan: &mut Plan,
        workload: Workload<'_>,
        mut scoping: Option<Scoping>,
    ) -> anyhow::Result<Self> {
        // Before: a module that is loaded again meanwhile has no probes.
        let footing = Footing::read(&plan.presence);
        if let Some(refusal) = footing.refusal() {
            bail!(refusal);
        }
        let probes = plan.attach(workload, scoping.as_mut())?;
        let mut counted = Counted::default();
        if let Err(why) = give_up_privileges() {
            let warning = format!("privileges that are not needed any more are kept: {why}");
            counted.warnings.push(warning);
        }
        Ok(Self {
            probes,
            names: plan.targets.iter().map(Target::name).collect(),
            presence: plan.presence.clone(),
            footing,
            scoping,
            open: None,
            counted,
        })
    }

    /// Returns when what is meant may have changed.
    pub(super) async fn rescoped(&mut self) -> io::Result<()> {
        match &mut self.scoping {
            Some(scoping) => scoping.changed().await,
            None => std::future::pending().await,
        }
    }

    /// What is meant, unless all is.
    pub(super) fn scope(&self) -> Option<&Scope> {
        self.scoping.as_ref().map(Scoping::scope)
    }

    /// The part of a window that is in scope.
    pub(super) fn scoped<'a>(&self, window: &'a Window) -> Cow<'a, Window> {
        match self.scope() {
            Some(scope) if scope.refused.is_none() => Cow::Owned(window.scoped(&scope.found)),
            _ => Cow::Borrowed(window),
        }
    }

    /// Nobody is in the cgroup of the workload: it is not told from other tasks. To be
    /// said before the first window.
    pub(super) fn forget_workload(&mut self) {
        self.probes.forget_workload();
    }

    /// Opens a window, unless one is open.
    pub(super) fn enable(&mut self) -> anyhow::Result<()> {
        if self.open.is_none() {
            self.open = Some(self.probes.open()?);
        }
        Ok(())
    }

    /// Closes the window, if one is open. A window that cannot be closed has no
    /// counts, which is a cause of failure and no reason to end.
    pub(super) fn disable(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        let counted = &mut self.counted;
        let window = match self.probes.close() {
            Ok(close) => {
                let mut window = Window::whole(&open, &close);
                counted.look_at(&self.footing, &self.presence, &mut window);
                window
            }
            Err(error) => {
                note(&mut counted.causes, [causes(&error)]);
                Window {
                    start_ns: open.at_ns,
                    end_ns: open.at_ns,
                    classes: open.classes.clone(),
                    counts: vec![None; self.presence.len()],
                }
            }
        };
        if let Some(scoping) = &mut self.scoping {
            scoping.look();
        }
        // A command may unmount before it ends.
        if self.counted.windows.is_empty() {
            self.counted.mounted = mounts().unwrap_or_default();
        }
        let brief = self.scoped(&window).brief();
        self.counted.add(brief, window);
    }

    /// A reading of the window that is open, with the one that opened it.
    pub(super) fn now(&self) -> anyhow::Result<Option<(&Snapshot, Snapshot)>> {
        match &self.open {
            Some(open) => Ok(Some((open, self.probes.snapshot()?))),
            None => Ok(None),
        }
    }

    /// What could not be looked at until now.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.counted.warnings.clone();
        note(&mut warnings, self.probes.following_fault());
        warnings
    }

    /// All windows until now, the one that is open as far as it goes. It costs no hit; what
    /// is in flight is not counted but follows from the rest.
    pub(super) fn until_now(&mut self) -> anyhow::Result<Counted> {
        if let Some(scoping) = &mut self.scoping {
            scoping.look();
        }
        let mut counted = self.counted.clone();
        counted.warnings = self.warnings();
        if let Some((open, now)) = self.now()? {
            let mut window = Window::whole(open, &now);
            counted.look_at(&self.footing, &self.presence, &mut window);
            let mut brief = self.scoped(&window).brief();
            brief.open = true;
            counted.add(brief, window);
        }
        counted.scope = self.scope().cloned();
        let total = counted.total.take();
        counted.total = total.map(|total| self.scoped(&total).into_owned());
        Ok(counted)
    }

    /// Each target that is attached, and its calls in all windows until now.
    pub(super) fn calls_until_now(&self) -> Vec<(String, u64)> {
        let now = self.now().ok().flatten();
        let open = now.map(|(open, now)| Window::whole(open, &now));
        let open = open.as_ref().map(|open| self.scoped(open));
        let total = self.counted.total.as_ref();
        let total = total.map(|total| self.scoped(total));
        let calls = |window: Option<&Window>, place: usize| {
            let counts = window.and_then(|window| window.counts[place].as_ref());
            counts.map_or(0, |counts| counts.calls)
        };
        let here = self.names.iter().zip(&self.presence).enumerate();
        here.filter(|(_, (_, presence))| **presence != Presence::Absent)
            .map(|(place, (name, _))| {
                let closed = calls(total.as_deref(), place);
                (name.clone(), closed + calls(open.as_deref(), place))
            })
            .collect()
    }

    /// Closes the window and detaches.
    pub(super) fn end(mut self) -> Counted {
        self.disable();
        self.counted.warnings = self.warnings();
        if let Some(total) = self.counted.total.take() {
            self.counted.total = Some(self.scoped(&total).into_owned());
        }
        self.detach()
    }

    /// Detaches; a window that is open is not counted.
    pub(super) fn detach(self) -> Counted {
        let scope = self.scope().cloned();
        let Self {
            probes,
            mut counted,
            ..
        } = self;
        counted.scope = scope;
        let some = probes.attached().any(|attached| attached);
        let begin_ns = monotonic_ns();
        drop(probes);
        counted.detach_ns = some.then(|| monotonic_ns() - begin_ns);
        counted
    }
}

impl Counted {
    /// Takes away what a window counted on a footing that is gone.
    fn look_at(&mut self, before: &Footing, presence: &[Presence], window: &mut Window) {
        let judged = Footing::judge(before, &Footing::read(presence), presence, window);
        note(&mut self.causes, judged);
        note(&mut self.warnings, before.warning());
    }

    /// Takes in a window of all calls, and its part in scope.
    fn add(&mut self, brief: Brief, window: Window) {
        self.windows.push(brief);
        match &mut self.total {
            Some(total) => total.add(&window),
            None => self.total = Some(window),
        }
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
