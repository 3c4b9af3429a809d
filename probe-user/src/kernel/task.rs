//! Where a task keeps what tells who it is: the layout that every program needs.

use super::{
    blob::Blob,
    btf::{guessed_member_offsets_bytes, member_offsets_bytes, sections},
};

const STRUCTURE: &str = "task_struct";
const MEMBERS: [&str; 2] = ["flags", "tgid"];

/// Offsets in `struct task_struct`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskLayout {
    pub(super) flags: u32,
    pub(super) tgid: u32,
}

impl TaskLayout {
    /// Quickly; an error says why it is not known. [`Self::is_right`] looks again when
    /// there is time.
    pub(super) fn guess() -> Result<Self, String> {
        let blob = Blob::of("vmlinux")?;
        let (types, strings) = sections(&blob).map_err(|e| format!("the kernel's BTF: {e}"))?;
        let offsets = guessed_member_offsets_bytes(types, strings, STRUCTURE, MEMBERS);
        let layout = offsets.and_then(Self::from_offsets);
        layout.ok_or_else(|| format!("no {STRUCTURE} as it is known in the kernel's BTF"))
    }

    /// Whether it is also that of a walk over all types.
    pub(crate) fn is_right(self) -> bool {
        let walk = || -> Option<Self> {
            let blob = Blob::of("vmlinux").ok()?;
            let (types, strings) = sections(&blob).ok()?;
            Self::from_offsets(member_offsets_bytes(types, strings, STRUCTURE, MEMBERS)?)
        };
        walk() == Some(self)
    }

    fn from_offsets([flags, tgid]: [Option<usize>; 2]) -> Option<Self> {
        let offset = |of: Option<usize>| of.and_then(|offset| u32::try_from(offset).ok());
        Some(Self {
            flags: offset(flags)?,
            tgid: offset(tgid)?,
        })
    }
}
