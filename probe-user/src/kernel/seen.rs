//! BPF programs of others as they were seen, and the functions that some of them name
//! by a number alone.
//!
//! A program that traces one function (fentry) was loaded for a type in a BTF. Reading
//! that takes longer than all the rest and needs no privilege, so it is done when there
//! is time.

use super::{blob::Blob, btf::Btf};
use crate::model::{OtherProgram, Others, Presence, Target};

/// The BTF of the kernel's image, by its name.
const VMLINUX: &str = "vmlinux";

/// What was seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// On each target, in the order of the targets.
    pub(super) on: Vec<Vec<OtherProgram>>,
    pub(super) traced: Vec<Traced>,
}

/// A program that traces one function of an object that has one of ours.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    pub(super) object: String,
    /// The id of its type.
    pub(super) function: u32,
    pub(super) by: OtherProgram,
}

impl Seen {
    /// With the names of what is traced.
    pub(crate) fn named(self, targets: &[Target], presence: &[Presence]) -> Others {
        let Self { mut on, traced } = self;
        if traced.is_empty() {
            return Ok(on);
        }
        let broken = |e| format!("the kernel's BTF: {e}");
        let vmlinux = Blob::of(VMLINUX)?;
        let base = Btf::parse(&vmlinux, None).map_err(broken)?;
        for Traced {
            object,
            function,
            by,
        } in traced
        {
            let id = function as usize;
            let name = if object == VMLINUX {
                base.name(id).map(<[u8]>::to_vec)
            } else {
                let module = Blob::of(&object)?;
                let split = Btf::parse(&module, Some(&base)).map_err(broken)?;
                split.name(id).map(<[u8]>::to_vec)
            };
            for ((target, presence), on) in targets.iter().zip(presence).zip(&mut on) {
                let is = Some(target.symbol.as_bytes()) == name.as_deref();
                if is && presence.place() == object {
                    on.push(by.clone());
                }
            }
        }
        Ok(on)
    }
}
