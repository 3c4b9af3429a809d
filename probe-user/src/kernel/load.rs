//! Makes maps and programs of the BPF object, one copy for each target.
//!
//! aya's own loader parses the whole BTF of the kernel at every start, which
//! nothing in our object needs: a third of the time until the probes stand. So its
//! parser and its maps are used, and the programs are loaded here.

use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
};

use aya::maps::MapData;
use aya_obj::{EbpfSectionKind, Object, generated::BPF_F_MMAPABLE};
use probe_ebpf::{
    CGROUP_MAP, DECODER_GLOBAL, ENTRY_PROGRAM, FLAGS_OFFSET_GLOBAL, GATE_MAP, RETURN_PROGRAM,
    STARTS_MAP, TALLY_MAP, Tally,
};

use super::{
    bpf,
    error::AttachError,
    object,
    shared::{Access, Shared},
    system::possible_cpus,
    task::flags_offset,
};
use crate::{model::Target, wording::plain};

/// One target's copy of the object, in the kernel and not attached.
#[derive(Debug)]
pub(super) struct Loaded {
    /// A tally for each possible CPU.
    pub(super) tallies: Shared,
    /// One word.
    pub(super) gate: Shared,
    pub(super) starts: MapData,
    pub(super) entry: OwnedFd,
    pub(super) ret: OwnedFd,
}

/// The object, read once.
#[derive(Debug)]
pub(super) struct Loader {
    object: Object,
    /// How many CPUs the kernel can have, those that are not there included.
    cpus: u32,
    /// Of a task; an error says why it is not known.
    flags_offset: Result<u32, String>,
}

impl Loader {
    /// So many calls of a target can be under way at once.
    pub(super) fn new(max_in_flight: u32) -> Result<Self, AttachError> {
        let cpus = possible_cpus().map_err(|e| {
            AttachError::Unreadable(format!(
                "cannot tell how many CPUs there can be: {}",
                plain(&e)
            ))
        })?;
        let mut loader = Self::of(object::bytes()?, cpus)?;
        let starts = loader.object.maps.get_mut(STARTS_MAP);
        starts.expect("looked for").set_max_entries(max_in_flight);
        Ok(loader)
    }

    /// Of a task, if it is known.
    pub(super) fn flags_offset(&self) -> Option<u32> {
        self.flags_offset.as_ref().ok().copied()
    }

    /// Why it cannot be told who executes a call, if it cannot.
    pub(super) fn classes_untold(&self) -> Option<&str> {
        self.flags_offset.as_ref().err().map(String::as_str)
    }

    fn of(bytes: &[u8], cpus: u32) -> Result<Self, AttachError> {
        let mut object = Object::parse(bytes).map_err(|e| AttachError::damaged(&e.into()))?;
        for name in [TALLY_MAP, STARTS_MAP, GATE_MAP, CGROUP_MAP] {
            let map = object.maps.get_mut(name);
            let map = map.ok_or_else(|| AttachError::lacks(name))?;
            match (name, map) {
                (TALLY_MAP, map) => map.set_max_entries(cpus),
                (GATE_MAP, aya_obj::Map::Legacy(gate)) => gate.def.map_flags |= BPF_F_MMAPABLE,
                _ => {}
            }
        }
        for name in [ENTRY_PROGRAM, RETURN_PROGRAM] {
            if !object.programs.contains_key(name) {
                return Err(AttachError::lacks(name));
            }
        }
        Ok(Self {
            object,
            cpus,
            flags_offset: flags_offset(),
        })
    }

    /// Makes the maps of one copy, and has the kernel verify its programs.
    /// Calls of the tasks in `cgroup` are the workload's.
    pub(super) fn load(
        &self,
        target: &Target,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<Loaded, AttachError> {
        let failed = |error: anyhow::Error| AttachError::of(target, &error);
        let mut object = self.object.clone();
        let decoder = target.decoder().to_ne_bytes();
        let flags_offset = self.flags_offset.as_ref().map_or(0, |n| *n).to_ne_bytes();
        object
            .patch_map_data(HashMap::from([
                (DECODER_GLOBAL, (&decoder[..], true)),
                (FLAGS_OFFSET_GLOBAL, (&flags_offset[..], true)),
            ]))
            .map_err(|e| AttachError::damaged(&e.into()))?;
        let maps = object.maps.iter();
        let maps = maps.map(|(name, map)| Ok((name.clone(), create(name, map)?)));
        let mut maps = maps
            .collect::<anyhow::Result<HashMap<_, _>>>()
            .map_err(failed)?;
        relocate(&mut object, &maps).map_err(|e| AttachError::damaged(&e))?;
        if let Some(cgroup) = cgroup {
            let fd = cgroup.as_raw_fd().to_ne_bytes();
            let put = bpf::update_first(maps[CGROUP_MAP].fd().as_fd(), &fd);
            put.map_err(|e| failed(e.into()))?;
        }
        let program = |name| load_program(&object, name).map_err(|e| failed(e.into()));
        let (ret, entry) = (program(RETURN_PROGRAM)?, program(ENTRY_PROGRAM)?);
        let share = |name: &str, words, access| {
            let map = maps[name].fd().as_fd();
            Shared::new(map, words, access).map_err(|e| failed(e.into()))
        };
        Ok(Loaded {
            tallies: share(TALLY_MAP, self.cpus as usize * Tally::STRIDE, Access::Read)?,
            gate: share(GATE_MAP, 1, Access::Write)?,
            starts: maps.remove(STARTS_MAP).expect("looked for at the start"),
            entry,
            ret,
        })
    }
}

/// A map with the object's data in it; read-only data is frozen, so that the
/// verifier may take it for constant.
fn create(name: &str, defined: &aya_obj::Map) -> anyhow::Result<MapData> {
    let map = MapData::create(defined.clone(), name, None)?;
    if !defined.data().is_empty() {
        bpf::update_first(map.fd().as_fd(), defined.data())?;
    }
    if defined.section_kind() == EbpfSectionKind::Rodata {
        bpf::freeze(map.fd().as_fd())?;
    }
    Ok(map)
}

/// Puts the maps' fds into the instructions, and functions that are called into
/// their callers.
fn relocate(object: &mut Object, maps: &HashMap<String, MapData>) -> anyhow::Result<()> {
    let sections: HashSet<usize> = object
        .functions
        .keys()
        .map(|(section, _)| *section)
        .collect();
    let defined = object.maps.clone();
    let by_name = defined.iter().map(|(name, defined)| {
        let fd = maps[name].fd().as_fd().as_raw_fd();
        (name.as_str(), fd, defined)
    });
    object.relocate_maps(by_name, &sections)?;
    object.relocate_calls(&sections)?;
    Ok(())
}

fn load_program(object: &Object, name: &str) -> Result<OwnedFd, bpf::LoadError> {
    let program = &object.programs[name];
    let function = &object.functions[&program.function_key()];
    let name = CString::new(name).expect("a name without NUL");
    bpf::load_kprobe_program(&name, &object.license, &function.instructions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(object: &[u8]) -> String {
        let error = Loader::of(object, 1).expect_err("damaged");
        let text = error.to_string();
        assert!(
            text.starts_with("the BPF object in this program is damaged"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    }

    #[test]
    fn a_damaged_object_is_refused_in_one_line() {
        let whole = object::bytes().unwrap_or_default();
        let half = &whole[..whole.len() / 2];
        for object in [&b"\x7fELF"[..], b"no object at all", half, b""] {
            refused(object);
        }
    }

    /// As `strip` leaves it: without its symbols nothing in it has a name.
    #[test]
    fn a_stripped_object_is_refused() {
        const SYMTAB: u32 = 2;
        let Ok(whole) = object::bytes() else {
            return println!("not covered: this build has no object");
        };
        let mut stripped = whole.to_vec();
        let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u16::from_le_bytes(whole[at..at + 2].try_into().expect("2 bytes"));
        // e_shoff, e_shentsize and e_shnum of an ELF64 header; sh_type of a section's.
        let headers = usize::try_from(word(0x28)).expect("small");
        for section in 0..usize::from(half(0x3c)) {
            let kind = headers + section * usize::from(half(0x3a)) + 4;
            if stripped[kind..kind + 4] == SYMTAB.to_le_bytes() {
                stripped[kind..kind + 4].fill(0);
            }
        }
        assert_ne!(stripped, whole);
        refused(&stripped);
    }
}
