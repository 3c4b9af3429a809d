//! What is here: the kernel, its variant, and where each target is.

use std::{thread, time::Duration};

use anyhow::{Context as _, bail};

use super::{
    footing::Footing,
    targets::{absence, place, refuse_twice},
};
use crate::{
    evidence::{Findings, findings},
    kernel::{Symbols, btrfs_is_there, identity, is_in_btf, variant},
    model::{Identity, Need, Presence, Snapshot, Target, Variant, Window},
};

/// What to do where btrfs is a module and not loaded.
const NOT_LOADED: &str =
    "btrfs is not loaded; run 'modprobe btrfs' first, or use --wait-for-module";

/// What was found before anything is attached.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) identity: Identity,
    pub(super) variant: Variant,
    pub(super) targets: Vec<Target>,
    /// In the order of the targets.
    pub(super) presence: Vec<Presence>,
}

impl Survey {
    /// Looks at the running kernel, if asked to after btrfs is there. Without btrfs,
    /// or without a function that `--probe` names, there is nothing to measure.
    pub(super) fn take(targets: Vec<Target>, wait_for_module: bool) -> anyhow::Result<Self> {
        while wait_for_module && !btrfs_is_there() {
            thread::sleep(Duration::from_millis(100));
        }
        let survey = Self::look(targets)?;
        if !btrfs_is_there() {
            bail!(NOT_LOADED);
        }
        let others = survey
            .targets
            .iter()
            .zip(&survey.presence)
            .skip(Target::three().len());
        for (target, presence) in others {
            if *presence == Presence::Absent && target.need == Need::Required {
                bail!(absence(target, is_in_btf(&target.symbol)));
            }
        }
        Ok(survey)
    }

    /// Looks at the running kernel as it is.
    pub(super) fn look(targets: Vec<Target>) -> anyhow::Result<Self> {
        let names: Vec<&str> = targets.iter().map(|t| &*t.symbol).collect();
        let symbols = Symbols::look_up(&names).context(
            "cannot read /proc/kallsyms; is /proc mounted, has the kernel CONFIG_KALLSYMS?",
        )?;
        let each = targets.iter().map(|t| place(t, &symbols.found(&t.symbol)));
        let presence = each.collect::<anyhow::Result<Vec<_>>>()?;
        refuse_twice(&targets, &presence)?;
        Ok(Self {
            identity: identity().context("cannot ask for the kernel's release")?,
            variant: variant(),
            presence,
            targets,
        })
    }

    /// Why the three cannot be there, if they cannot.
    pub(super) fn problem() -> Option<&'static str> {
        (!btrfs_is_there()).then_some(NOT_LOADED)
    }

    /// The targets that are here, each in its place.
    pub(super) fn available(&self) -> Vec<Option<&Target>> {
        let both = self.targets.iter().zip(&self.presence);
        both.map(|(target, p)| (*p != Presence::Absent).then_some(target))
            .collect()
    }

    /// The whole of a closed window, and all that is wrong with it.
    pub(super) fn judged(
        &self,
        footing: &Footing,
        open: &Snapshot,
        close: &Snapshot,
    ) -> (Window, Findings) {
        let mut window = Window::whole(open, close);
        let later = Footing::read(&self.presence);
        let mut causes = Footing::judge(footing, &later, &self.presence, &mut window);
        causes.extend(self.failed_gates(&window));
        let mut found = findings(&self.targets, &window);
        found.causes.splice(0..0, causes);
        found.warnings.extend(footing.warning());
        (window, found)
    }

    /// The required targets without a count in a window.
    fn failed_gates(&self, window: &Window) -> Vec<String> {
        let here = self.targets.iter().zip(&self.presence).zip(&window.counts);
        here.filter(|((target, _), counts)| target.need == Need::Required && counts.is_none())
            .map(|((target, presence), _)| {
                let name = target.name();
                match presence {
                    Presence::Absent => {
                        format!("required target {name} is absent from this kernel")
                    }
                    _ => format!("required target {name} has no valid count"),
                }
            })
            .collect()
    }
}
