//! What is here: the kernel, its variant, and where each target is.
//!
//! What must be known before probes are attached is a [`Plan`]; it is quick to
//! make, for a command is held meanwhile. The rest is a [`Survey`]: reading all
//! symbols and types of a kernel takes longer than attaching.

use std::{thread, time::Duration};

use anyhow::{Context as _, bail};

use super::{
    counting::Counted,
    scope::Scoping,
    targets::{absence, place, refuse_twice, targets},
};
use crate::{
    cli::TargetArgs,
    evidence::{Findings, Gate, findings, other_programs},
    kernel::{
        AttachError, OthersSeen, Probes, Symbols, Wanted, Workload, btrfs_is_there, btrfs_presence,
        identity, is_in_btf, mounts, reaches, variant,
    },
    model::{Classes, Found, Identity, Mount, Need, Others, Presence, Target, Variant, Window},
    wording::causes,
};

/// What to do where btrfs is a module and not loaded.
const NOT_LOADED: &str =
    "btrfs is not loaded; run 'modprobe btrfs' first, or use --wait-for-module";

/// Why nothing is known of others.
const NOT_ATTACHED: &str = "nothing is attached";

/// What is to be attached.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) targets: Vec<Target>,
    /// In the order of the targets. Of the three it is presumed until they are
    /// attached; [`Survey::of`] looks each of them up.
    pub(super) presence: Vec<Presence>,
    /// Whether each was looked up by name; else that remains to be done.
    looked_up: bool,
    max_in_flight: u32,
    /// The targets that are counted on all filesystems, though a scope was asked for.
    pub(super) unscoped: Vec<String>,
    /// Once it is attached.
    others: Result<OthersSeen, String>,
}

impl Plan {
    /// If asked to, waits until btrfs is there. Without btrfs, or without a function
    /// that `--probe` names, there is nothing to measure.
    pub(super) fn make(args: &TargetArgs, wait_for_module: bool) -> anyhow::Result<Self> {
        let targets = targets(args)?;
        let max_in_flight = args.max_in_flight;
        btrfs_is_there().context("cannot read /proc/filesystems; is /proc mounted?")?;
        while wait_for_module && !btrfs_is_there()? {
            thread::sleep(Duration::from_millis(100));
        }
        if !btrfs_is_there()? {
            bail!(NOT_LOADED);
        }
        let three = Target::three().len();
        if targets.len() == three {
            let presence = vec![btrfs_presence(); three];
            return Ok(Self {
                targets,
                presence,
                looked_up: false,
                max_in_flight,
                unscoped: Vec::new(),
                others: Err(NOT_ATTACHED.to_owned()),
            });
        }
        // A name that a user typed may be wrong in many ways.
        let presence = places(&targets)?;
        for (target, presence) in targets.iter().zip(&presence).skip(three) {
            if *presence == Presence::Absent && target.need == Need::Required {
                bail!(absence(target, is_in_btf(&target.symbol)));
            }
        }
        Ok(Self {
            targets,
            presence,
            looked_up: true,
            max_in_flight,
            unscoped: Vec::new(),
            others: Err(NOT_ATTACHED.to_owned()),
        })
    }

    /// Attaches what is here, and notes what is not. An error if the kernel does not
    /// find what was looked up.
    pub(super) fn attach(
        &mut self,
        workload: Workload<'_>,
        scoping: Option<&mut Scoping>,
    ) -> anyhow::Result<Probes> {
        let mut ways = Vec::new();
        if let Some(scoping) = scoping {
            match reaches(&self.targets) {
                Ok(found) => ways = found,
                Err(why) => scoping.refuse(why),
            }
        }
        let without = self
            .targets
            .iter()
            .zip(&ways)
            .filter(|(_, way)| way.is_none());
        self.unscoped = without.map(|(target, _)| target.name()).collect();
        let wanted = Wanted {
            workload,
            max_in_flight: self.max_in_flight,
            reaches: &ways,
        };
        let probes = Probes::attach(&available(&self.targets, &self.presence), wanted)?;
        let each = self.targets.iter().zip(&mut self.presence);
        for ((target, presence), attached) in each.zip(probes.attached()) {
            if attached || *presence == Presence::Absent {
                continue;
            }
            if self.looked_up {
                bail!(AttachError::not_found(target));
            }
            *presence = Presence::Absent;
        }
        self.others = probes.others(&self.targets, &self.presence);
        Ok(probes)
    }
}

/// What was found of a kernel.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) identity: Identity,
    pub(super) variant: Variant,
    pub(super) targets: Vec<Target>,
    /// In the order of the targets.
    pub(super) presence: Vec<Presence>,
    /// Why a count would be of something else than its target says.
    doubts: Vec<Option<String>>,
    /// When the probes were attached.
    pub(super) others: Others,
    /// The targets that are counted on all filesystems, though a scope was asked for.
    unscoped: Vec<String>,
    /// Each btrfs that is mounted.
    pub(super) filesystems: Vec<Mount>,
}

impl Survey {
    /// Looks at the running kernel as it is.
    pub(super) fn look(targets: Vec<Target>) -> anyhow::Result<Self> {
        let presence = places(&targets)?;
        let doubts = targets.iter().map(|_| None).collect();
        Self::with(targets, presence, doubts)
    }

    /// Looks at the kernel to which a plan was attached.
    pub(super) fn of(plan: &Plan) -> anyhow::Result<Self> {
        let (targets, mut presence) = (plan.targets.clone(), plan.presence.clone());
        let doubts = if plan.looked_up {
            vec![None; targets.len()]
        } else {
            match look_up(&targets) {
                Ok(symbols) => {
                    let both = targets.iter().zip(&mut presence);
                    both.map(|(target, presence)| {
                        confirm(target, presence, &symbols.found(&target.symbol))
                    })
                    .collect()
                }
                Err(error) => vec![Some(causes(&error)); targets.len()],
            }
        };
        let seen = plan.others.clone();
        let others = seen.and_then(|seen| seen.named(&targets, &presence));
        Ok(Self {
            others,
            unscoped: plan.unscoped.clone(),
            ..Self::with(targets, presence, doubts)?
        })
    }

    fn with(
        targets: Vec<Target>,
        presence: Vec<Presence>,
        doubts: Vec<Option<String>>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            identity: identity().context("cannot ask for the kernel's release")?,
            variant: variant(),
            targets,
            presence,
            doubts,
            others: Err(NOT_ATTACHED.to_owned()),
            unscoped: Vec::new(),
            filesystems: mounts().unwrap_or_default(),
        })
    }

    /// Why the count of a required target would be of something else than it says.
    pub(super) fn refusal(&self) -> Option<&str> {
        let both = self.targets.iter().zip(&self.doubts);
        let mut required = both.filter(|(target, _)| target.need == Need::Required);
        required.find_map(|(_, doubt)| doubt.as_deref())
    }

    /// Why the three cannot be there, if they cannot.
    pub(super) fn problem() -> Option<&'static str> {
        btrfs_is_there()
            .is_ok_and(|there| !there)
            .then_some(NOT_LOADED)
    }

    /// The targets that are here, each in its place.
    pub(super) fn available(&self) -> Vec<Option<&Target>> {
        available(&self.targets, &self.presence)
    }

    /// What was counted in all windows, and all that is wrong with it.
    pub(super) fn judged(&self, counted: Counted, gate: Gate) -> (Option<Window>, Findings) {
        let Counted {
            total,
            mut causes,
            mut warnings,
            scope,
            ..
        } = counted;
        let Some(mut total) = total else {
            return (None, Findings { causes, warnings });
        };
        let each = self.targets.iter().zip(&self.doubts);
        for ((target, doubt), counts) in each.zip(&mut total.counts) {
            let Some(doubt) = doubt else { continue };
            *counts = None;
            let lines = match target.need {
                Need::Required => &mut causes,
                Need::Diagnostic => &mut warnings,
            };
            if !lines.contains(doubt) {
                lines.push(doubt.clone());
            }
        }
        causes.extend(self.failed_gates(&total));
        if let Some(scope) = scope {
            causes.extend(scope.causes(&self.targets, &total));
            let here = self.targets.iter().zip(&total.counts);
            let names = here
                .filter(|(_, counts)| counts.is_some())
                .map(|(t, _)| t.name());
            let unscoped = names.filter(|name| self.unscoped.contains(name));
            warnings.extend(unscoped.map(|name| {
                format!("{name}: calls on all filesystems, for none of its arguments leads to one")
            }));
        }
        let found = findings(&self.targets, &total, gate);
        causes.extend(found.causes);
        warnings.splice(0..0, found.warnings);
        warnings.extend(self.identity.preemption_not_as_asked());
        match &total.classes {
            Classes::Untold(why) => {
                warnings.push(format!("it is not told who executed the calls: {why}"));
            }
            Classes::Told { interrupt, .. } if !interrupt => warnings.push(
                "calls in interrupts count as of the tasks that these found: no count of \
                 interrupts in the kernel's BTF"
                    .to_owned(),
            ),
            Classes::Told { .. } => {}
        }
        warnings.extend(other_programs(&self.targets, &self.others));
        (Some(total), Findings { causes, warnings })
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

fn look_up(targets: &[Target]) -> anyhow::Result<Symbols> {
    let names: Vec<&str> = targets.iter().map(|t| &*t.symbol).collect();
    Symbols::look_up(&names)
        .context("cannot read /proc/kallsyms; is /proc mounted, has the kernel CONFIG_KALLSYMS?")
}

/// Puts in where a target is, as far as it is still there; a doubt if its count
/// cannot be of this function alone.
fn confirm(target: &Target, presence: &mut Presence, found: &Found) -> Option<String> {
    match place(target, found) {
        // It was not attached, or went away since: a window's footing says so.
        Ok(found) => {
            if *presence != Presence::Absent && found != Presence::Absent {
                *presence = found;
            }
            None
        }
        Err(error) => Some(causes(&error)),
    }
}

/// Where each target is. An error if one could be counted wrong.
fn places(targets: &[Target]) -> anyhow::Result<Vec<Presence>> {
    let symbols = look_up(targets)?;
    let each = targets.iter().map(|t| place(t, &symbols.found(&t.symbol)));
    let presence = each.collect::<anyhow::Result<Vec<_>>>()?;
    refuse_twice(targets, &presence)?;
    Ok(presence)
}

fn available<'a>(targets: &'a [Target], presence: &[Presence]) -> Vec<Option<&'a Target>> {
    let both = targets.iter().zip(presence);
    both.map(|(target, p)| (*p != Presence::Absent).then_some(target))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_attached_by_name_is_confirmed() {
        let module = || Presence::Module("btrfs".to_owned());
        let [target, ..] = Target::three();
        let found = |places: &[Presence], twins: &[&str]| Found {
            places: places.to_vec(),
            twins: twins.iter().map(|&twin| twin.to_owned()).collect(),
        };
        let check = |presumed: Presence, found: Found, confirmed: Presence, doubt: Option<&str>| {
            let mut presence = presumed;
            let said = confirm(&target, &mut presence, &found);
            assert_eq!(presence, confirmed);
            match (&said, doubt) {
                (None, None) => {}
                (Some(said), Some(words)) => assert!(said.contains(words), "{said}"),
                _ => panic!("{said:?}, not {doubt:?}"),
            }
        };
        check(module(), found(&[module()], &[]), module(), None);
        check(
            module(),
            found(&[Presence::BuiltIn], &[]),
            Presence::BuiltIn,
            None,
        );
        // It went away meanwhile.
        check(module(), found(&[], &[]), module(), None);
        check(Presence::Absent, found(&[], &[]), Presence::Absent, None);
        let twin = "btrfs_remap_file_range.constprop.0";
        let whole = Some("would not be whole");
        check(module(), found(&[module()], &[twin]), module(), whole);
        check(
            Presence::Absent,
            found(&[], &[twin]),
            Presence::Absent,
            whole,
        );
        let xfs = Presence::Module("xfs".to_owned());
        check(
            module(),
            found(&[module(), xfs], &[]),
            module(),
            Some("several functions"),
        );
    }

    #[test]
    fn a_doubt_takes_the_count_away() {
        let survey = |need: Need| {
            let mut targets = Vec::from(Target::three());
            targets.truncate(1);
            targets[0].need = need;
            Survey {
                identity: Identity::default(),
                variant: Variant::None,
                targets,
                presence: vec![Presence::BuiltIn],
                doubts: vec![Some("a doubt".to_owned())],
                others: Ok(vec![Vec::new()]),
                unscoped: Vec::new(),
                filesystems: Vec::new(),
            }
        };
        let counted = || Counted {
            total: Some(Window {
                start_ns: 0,
                end_ns: 1,
                classes: Classes::all(),
                counts: vec![None],
            }),
            ..Counted::default()
        };
        let required = survey(Need::Required);
        let (window, found) = required.judged(counted(), Gate::default());
        assert_eq!(window.expect("counted").counts, [None]);
        assert_eq!(found.causes[0], "a doubt");
        assert_eq!(required.refusal(), Some("a doubt"));
        let diagnostic = survey(Need::Diagnostic);
        let (_, found) = diagnostic.judged(counted(), Gate::default());
        assert_eq!(found.causes, [""; 0]);
        assert_eq!(found.warnings, ["a doubt"]);
        assert_eq!(diagnostic.refusal(), None);
    }
}
