//! Makes maps and programs of the BPF object, one copy for each target.
//!
//! aya's own loader parses the whole BTF of the kernel at every start, which
//! nothing in our object needs: a third of the time until the probes stand. So its
//! parser and its maps are used, and the programs are loaded here.

use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use aya::maps::{Array, Map, MapData, MapError, PerCpuArray};
use aya_obj::{EbpfSectionKind, Object};
use probe_ebpf::{
    DECODER_GLOBAL, ENTRY_PROGRAM, GATE_MAP, RETURN_PROGRAM, STARTS_MAP, TALLY_MAP, Tally,
};

use super::{bpf, error::AttachError, object};
use crate::model::Target;

/// A tally as its map holds it.
pub(super) type TallyMap = PerCpuArray<MapData, [u64; Tally::WORDS]>;

/// One target's copy of the object, in the kernel and not attached.
pub(super) struct Copy {
    pub(super) tally: TallyMap,
    pub(super) starts: MapData,
    pub(super) gate: Array<MapData, u64>,
    pub(super) entry: OwnedFd,
    pub(super) ret: OwnedFd,
}

/// The object, read once.
#[derive(Debug)]
pub(super) struct Loader {
    object: Object,
}

impl Loader {
    pub(super) fn new() -> Result<Self, AttachError> {
        Self::of(object::bytes().map_err(AttachError::NoObject)?)
    }

    fn of(bytes: &[u8]) -> Result<Self, AttachError> {
        let object = Object::parse(bytes).map_err(|e| AttachError::damaged(&e.into()))?;
        for name in [TALLY_MAP, STARTS_MAP, GATE_MAP] {
            if !object.maps.contains_key(name) {
                return Err(AttachError::lacks(name));
            }
        }
        for name in [ENTRY_PROGRAM, RETURN_PROGRAM] {
            if !object.programs.contains_key(name) {
                return Err(AttachError::lacks(name));
            }
        }
        Ok(Self { object })
    }

    /// Makes the maps of one copy, and has the kernel verify its programs.
    pub(super) fn load(&self, target: &Target) -> Result<Copy, AttachError> {
        let failed = |error: anyhow::Error| AttachError::of(target, &error);
        let mut object = self.object.clone();
        let decoder = target.decoder().to_ne_bytes();
        object
            .patch_map_data(HashMap::from([(DECODER_GLOBAL, (&decoder[..], true))]))
            .map_err(|e| AttachError::damaged(&e.into()))?;
        let maps = object.maps.iter();
        let maps = maps.map(|(name, map)| Ok((name.clone(), create(name, map)?)));
        let mut maps = maps
            .collect::<anyhow::Result<HashMap<_, _>>>()
            .map_err(failed)?;
        relocate(&mut object, &maps).map_err(|e| AttachError::damaged(&e))?;
        let program = |name| load_program(&object, name).map_err(|e| failed(e.into()));
        let (ret, entry) = (program(RETURN_PROGRAM)?, program(ENTRY_PROGRAM)?);
        let mut take = |name| maps.remove(name).expect("looked for at the start");
        let typed = |map| Map::from_map_data(map).map_err(|e| failed(e.into()));
        let (tally, gate) = (typed(take(TALLY_MAP))?, typed(take(GATE_MAP))?);
        let other_type = |e: MapError| AttachError::damaged(&e.into());
        Ok(Copy {
            tally: tally.try_into().map_err(other_type)?,
            starts: take(STARTS_MAP),
            gate: gate.try_into().map_err(other_type)?,
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

    #[test]
    fn a_damaged_object_is_refused_in_one_line() {
        let whole = object::bytes().unwrap_or_default();
        let half = &whole[..whole.len() / 2];
        for object in [&b"\x7fELF"[..], b"no object at all", half, b""] {
            let error = Loader::of(object).expect_err("damaged");
            let text = error.to_string();
            assert!(
                text.starts_with("the BPF object in this program is damaged"),
                "{text}"
            );
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}
