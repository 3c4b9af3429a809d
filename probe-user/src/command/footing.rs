//! What counts stand on beside the kernel's own loss counters: that the module
//! under the probes stays, and that kprobes are not switched off. Neither leaves
//! a trace in any counter.

use crate::{
    kernel::{kprobes_armed, module_instance},
    model::{Presence, Window},
};

/// Read before probes are attached, and at the end of each window.
#[derive(Clone, Debug)]
pub(super) struct Footing {
    armed: Result<bool, String>,
    /// In the order of the targets.
    modules: Vec<Option<u64>>,
}

impl Footing {
    /// As it is now.
    pub(super) fn read(presence: &[Presence]) -> Self {
        let instance = |presence: &Presence| match presence {
            Presence::Module(name) => module_instance(name),
            Presence::BuiltIn | Presence::Absent => None,
        };
        Self {
            armed: kprobes_armed(),
            modules: presence.iter().map(instance).collect(),
        }
    }

    /// Why nothing can be counted now, if so.
    pub(super) fn refusal(&self) -> Option<String> {
        self.armed.as_ref().err().map(|switch| switched_off(switch))
    }

    /// Takes the counts out of a window that its footing did not outlast, and says
    /// why.
    pub(super) fn judge(
        open: &Self,
        close: &Self,
        presence: &[Presence],
        window: &mut Window,
    ) -> Vec<String> {
        let mut causes = Vec::new();
        if let Err(switch) = &close.armed {
            causes.push(format!("kprobes were switched off in the window: {switch}"));
            window.counts.fill(None);
        }
        let modules = open.modules.iter().zip(&close.modules).zip(presence);
        for (((before, after), presence), counts) in modules.zip(&mut window.counts) {
            // What turned out to be absent was looked for before it was known.
            if before != after && *presence != Presence::Absent {
                let cause = format!("{} was unloaded in the window", presence.place());
                if !causes.contains(&cause) {
                    causes.push(cause);
                }
                *counts = None;
            }
        }
        causes
    }

    /// What could not be looked at.
    pub(super) fn warning(&self) -> Option<String> {
        (self.armed == Ok(false))
            .then(|| "cannot read whether kprobes are switched on; as root it can be".to_owned())
    }
}

/// What to do where a switch is off.
pub(super) fn switched_off(switch: &str) -> String {
    format!("kprobes are switched off: {switch}; set it to 1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Snapshot, Window};

    fn footing(armed: Result<bool, String>, instance: Option<u64>) -> Footing {
        Footing {
            armed,
            modules: vec![instance],
        }
    }

    fn judge(open: &Footing, close: &Footing) -> (Vec<String>, bool) {
        let reading = crate::model::Reading {
            tally: probe_ebpf::Tally::default(),
            in_flight: 0,
            parts: None,
            losses: crate::model::Losses::default(),
        };
        let snapshot = Snapshot {
            at_ns: 0,
            epoch: 1,
            classes: crate::model::Classes::of_threads(),
            readings: vec![Some(reading)],
        };
        let mut window = Window::whole(&snapshot, &snapshot);
        let presence = [Presence::Module("btrfs".to_owned())];
        let causes = Footing::judge(open, close, &presence, &mut window);
        (causes, window.counts[0].is_some())
    }

    #[test]
    fn a_module_that_came_back_is_another_one() {
        let open = footing(Ok(true), Some(7));
        assert_eq!(judge(&open, &footing(Ok(true), Some(7))), (vec![], true));
        for instance in [Some(8), None] {
            let (causes, valid) = judge(&open, &footing(Ok(true), instance));
            assert_eq!(causes, ["btrfs was unloaded in the window"]);
            assert!(!valid);
        }
    }

    #[test]
    fn what_is_absent_is_not_unloaded() {
        let (open, close) = (footing(Ok(true), Some(7)), footing(Ok(true), None));
        let mut window = Window {
            start_ns: 0,
            end_ns: 1,
            classes: crate::model::Classes::of_threads(),
            counts: vec![None],
        };
        let causes = Footing::judge(&open, &close, &[Presence::Absent], &mut window);
        assert_eq!(causes, [""; 0]);
    }

    #[test]
    fn disarmed_probes_count_nothing() {
        let off = footing(Err("x is 0".to_owned()), Some(7));
        assert!(off.refusal().is_some());
        let (causes, valid) = judge(&footing(Ok(true), Some(7)), &off);
        assert_eq!(causes, ["kprobes were switched off in the window: x is 0"]);
        assert!(!valid);
        let unknown = footing(Ok(false), Some(7));
        assert!(unknown.refusal().is_none() && unknown.warning().is_some());
        assert!(judge(&unknown, &unknown).1);
    }
}
