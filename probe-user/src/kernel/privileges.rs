//! What this process may do beyond others: given up as soon as the probes stand, for
//! a run may last hours and reads what others wrote.

use caps::{CapSet, Capability, errors::CapsError};

/// What is still needed then: the record is written where this user may write, and
/// signals are passed on to a command that may have become another user. All else
/// takes descriptors that are open: a link's and a program's losses, the maps (a
/// map in a map is updated for a grace period), the gate. Names of functions, BTF
/// and the cgroup's files are anybody's or their owner's.
const KEPT: [Capability; 5] = [
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_FOWNER,
    Capability::CAP_KILL,
];

/// Gives up every capability but [`KEPT`], in every set of this thread: they are a
/// thread's own, and it must be the only one that goes on. What was forked before has
/// its own still.
pub(crate) fn give_up() -> Result<(), String> {
    give_up_all().map_err(|error| error.to_string())
}

fn give_up_all() -> Result<(), CapsError> {
    // First, while we may: what is not in it does not come back by an exec.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for capability in caps::read(None, CapSet::Bounding)? {
            if !KEPT.contains(&capability) {
                caps::drop(None, CapSet::Bounding, capability)?;
            }
        }
    }
    // We exec nothing that should inherit one.
    caps::clear(None, CapSet::Ambient)?;
    caps::clear(None, CapSet::Inheritable)?;
    let mut kept = caps::read(None, CapSet::Effective)?;
    kept.retain(|capability| KEPT.contains(capability));
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// In a thread of its own, whose capabilities are nobody else's.
    #[test]
    fn what_is_given_up_is_in_no_set() {
        let given_up = || {
            let before = caps::read(None, CapSet::Effective).expect("reads");
            give_up().expect("anybody may");
            for set in [CapSet::Inheritable, CapSet::Ambient] {
                assert!(caps::read(None, set).expect("reads").is_empty(), "{set:?}");
            }
            for set in [CapSet::Effective, CapSet::Permitted] {
                let left = caps::read(None, set).expect("reads");
                let kept = KEPT.into_iter().filter(|c| before.contains(c));
                assert_eq!(left, kept.collect(), "{set:?}");
            }
            before
        };
        let before = thread::spawn(given_up).join().expect("passes");
        assert_eq!(caps::read(None, CapSet::Effective).expect("reads"), before);
    }
}
