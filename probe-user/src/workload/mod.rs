//! Workloads of known size. They share nothing with the probe, so that the two
//! cannot agree by sharing a bug.

mod device;
mod ioctl;
mod remap;

pub(crate) use device::{Device, Filesystem};
pub(crate) use remap::{Files, Kind, Outcome, SECTOR_BYTES, Size};
