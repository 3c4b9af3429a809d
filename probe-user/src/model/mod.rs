//! What was seen, as plain values: targets, snapshots and the windows between
//! them. No I/O, and nothing of how a number was read or is shown.

mod snapshot;
mod target;
mod window;

pub(crate) use snapshot::{Losses, Reading, Snapshot};
pub(crate) use target::{Kinds, Need, TARGETS, Target};
pub(crate) use window::{Counts, Window};
