//! Makes maps and programs of the BPF object, one copy for each target.
//!
//! aya's own loader makes its own copy of the kernel's whole BTF at every start, which
//! was a third of the time until the probes stood, and knows no variables of the kernel.
//! So its parser and its maps are used, and the programs are loaded here.

use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
};

use aya::maps::MapData;
use aya_obj::{
    EbpfSectionKind, Object,
    generated::{
        BPF_DW, BPF_F_MMAPABLE, BPF_IMM, BPF_LD, BPF_PSEUDO_BTF_ID, bpf_insn, bpf_prog_type,
    },
};
use probe_ebpf::{
    ARGUMENT_GLOBAL, CGROUP_MAP, COUNT_GLOBAL, COUNT_OFFSET_GLOBAL, COUNT_UNKNOWN, DECODER_GLOBAL,
    DEVICE_OFFSET_GLOBAL, ENTRY_PROGRAM, FLAGS_OFFSET_GLOBAL, FOLLOWED_MAP, FOLLOWING_GLOBAL,
    FORK_PROGRAM, HOP_GLOBALS, NO_SLOT, PLACES, PLACES_GLOBAL, PREEMPT_COUNT_MARK, RETURN_PROGRAM,
    SHARED_MAP, SLOT_MASK_GLOBAL, SLOTS, SLOTS_MAP, STARTS_MAP, Slot, TALLY_MAP,
    TGID_OFFSET_GLOBAL, Tally, slot_mask,
};

use super::{
    bpf,
    error::AttachError,
    object,
    reach::Reach,
    shared::{Access, Shared},
    system::possible_cpus,
    task::{InterruptCount, TaskLayout},
};
use crate::{model::Target, wording::plain};

/// The instruction that takes two words and loads 64 bits.
const LOAD_WIDE: u32 = BPF_LD | BPF_IMM | BPF_DW;

/// One target's copy of the object, in the kernel and not attached.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The tallies of each possible CPU.
    pub(super) tallies: Shared,
    /// The gate.
    pub(super) shared: Shared,
    pub(super) starts: MapData,
    pub(super) slots: Shared,
    pub(super) entry: OwnedFd,
    pub(super) ret: OwnedFd,
}

/// The copy that follows processes, in the kernel and not attached.
#[derive(Debug)]
pub(super) struct LoadedFollower {
    /// In the second word, for how many processes there was no room.
    pub(super) shared: Shared,
    pub(super) program: OwnedFd,
}

/// The object, read once.
#[derive(Debug)]
pub(super) struct Loader {
    object: Object,
    /// How many CPUs the kernel can have, those that are not there included.
    cpus: u32,
    /// Which slots calls under way have.
    slots: u32,
    /// Of a task; an error says why it is not known.
    layout: Result<TaskLayout, String>,
    /// The processes of the workload, if these are followed.
    followed: Option<MapData>,
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
        loader.slots = slot_mask(max_in_flight);
        Ok(loader)
    }

    /// By which it is told who executes a call; an error says why it is not.
    pub(super) fn layout(&self) -> Result<TaskLayout, &str> {
        self.layout.as_ref().copied().map_err(String::as_str)
    }

    fn of(bytes: &[u8], cpus: u32) -> Result<Self, AttachError> {
        let mut object = Object::parse(bytes).map_err(|e| AttachError::damaged(&e.into()))?;
        for name in [
            TALLY_MAP,
            SLOTS_MAP,
            STARTS_MAP,
            SHARED_MAP,
            CGROUP_MAP,
            FOLLOWED_MAP,
        ] {
            let map = object.maps.get_mut(name);
            let map = map.ok_or_else(|| AttachError::lacks(name))?;
            if let (SHARED_MAP | SLOTS_MAP, aya_obj::Map::Legacy(shared)) = (name, map) {
                shared.def.map_flags |= BPF_F_MMAPABLE;
            }
        }
        for name in [ENTRY_PROGRAM, RETURN_PROGRAM, FORK_PROGRAM] {
            if !object.programs.contains_key(name) {
                return Err(AttachError::lacks(name));
            }
        }
        Ok(Self {
            object,
            cpus,
            slots: NO_SLOT,
            layout: TaskLayout::read(),
            followed: None,
        })
    }

    /// From now on the workload is told by its processes, for which this returns the map.
    pub(super) fn follow(&mut self) -> anyhow::Result<&MapData> {
        let map = create(FOLLOWED_MAP, &self.object.maps[FOLLOWED_MAP])?;
        Ok(self.followed.insert(map))
    }

    /// Makes the maps of one copy, and has the kernel verify its programs.
    /// Calls of the tasks in `cgroup` are the workload's. Filesystems are told apart if
    /// there is a way to them.
    pub(super) fn load(
        &self,
        target: &Target,
        cgroup: Option<BorrowedFd<'_>>,
        reach: Option<Reach>,
    ) -> Result<Loaded, AttachError> {
        let failed = |error: anyhow::Error| AttachError::of(target, &error);
        let places = if reach.is_some() { PLACES } else { 1 };
        let tallies = self.cpus * places;
        let mut copy = self
            .copy(target.decoder(), reach, tallies)
            .map_err(failed)?;
        if let Some(cgroup) = cgroup {
            let fd = cgroup.as_raw_fd().to_ne_bytes();
            let put = bpf::update_first(copy.maps[CGROUP_MAP].fd().as_fd(), &fd);
            put.map_err(|e| failed(e.into()))?;
        }
        let kind = bpf_prog_type::BPF_PROG_TYPE_KPROBE;
        let program = |name| load_program(&copy.object, kind, name).map_err(|e| failed(e.into()));
        let (ret, entry) = (program(RETURN_PROGRAM)?, program(ENTRY_PROGRAM)?);
        let words = tallies as usize * Tally::STRIDE;
        Ok(Loaded {
            tallies: copy.share(TALLY_MAP, words, Access::Read).map_err(failed)?,
            shared: copy.share(SHARED_MAP, 2, Access::Write).map_err(failed)?,
            slots: copy
                .share(SLOTS_MAP, SLOTS * Slot::WORDS, Access::Read)
                .map_err(failed)?,
            starts: copy.maps.remove(STARTS_MAP).expect("looked for"),
            entry,
            ret,
        })
    }

    /// The same of the program that follows processes; [`Self::follow`] comes before.
    pub(super) fn load_follower(&self) -> anyhow::Result<LoadedFollower> {
        let copy = self.copy(0, None, 1)?;
        let kind = bpf_prog_type::BPF_PROG_TYPE_RAW_TRACEPOINT;
        Ok(LoadedFollower {
            shared: copy.share(SHARED_MAP, 2, Access::Read)?,
            program: load_program(&copy.object, kind, FORK_PROGRAM)?,
        })
    }

    /// A copy of the object with its settings and its maps.
    fn copy(&self, decoder: u32, reach: Option<Reach>, tallies: u32) -> anyhow::Result<Copy> {
        let mut object = self.object.clone();
        let layout = self.layout().ok();
        let of_task = |of: fn(&TaskLayout) -> u32| layout.as_ref().map_or(0, of);
        let count = layout.and_then(|l| l.count);
        let of_count = |of: fn(&InterruptCount) -> u32| count.as_ref().map_or(COUNT_UNKNOWN, of);
        let mut settings = vec![
            (DECODER_GLOBAL, decoder),
            (FLAGS_OFFSET_GLOBAL, of_task(|l| l.flags)),
            (TGID_OFFSET_GLOBAL, of_task(|l| l.tgid)),
            (COUNT_GLOBAL, of_count(|c| c.form)),
            (COUNT_OFFSET_GLOBAL, of_count(|c| c.offset)),
            (SLOT_MASK_GLOBAL, self.slots),
            (FOLLOWING_GLOBAL, u32::from(self.followed.is_some())),
        ];
        if let Some(reach) = reach {
            settings.extend(HOP_GLOBALS.into_iter().zip(reach.hops));
            settings.extend([
                (PLACES_GLOBAL, PLACES),
                (ARGUMENT_GLOBAL, reach.argument),
                (DEVICE_OFFSET_GLOBAL, reach.device_offset),
            ]);
        }
        let settings: Vec<_> = settings
            .into_iter()
            .map(|(name, value)| (name, value.to_ne_bytes()))
            .collect();
        let patches = settings
            .iter()
            .map(|(name, value)| (*name, (&value[..], true)));
        object.patch_map_data(patches.collect())?;
        // What nobody looks into takes no memory.
        for (name, entries) in [(TALLY_MAP, tallies), (FOLLOWED_MAP, 1)] {
            let map = object.maps.get_mut(name).expect("looked for");
            map.set_max_entries(entries);
        }
        let maps = object.maps.iter();
        let maps = maps.map(|(name, map)| Ok((name.clone(), create(name, map)?)));
        let maps = maps.collect::<anyhow::Result<HashMap<_, _>>>()?;
        let fd = |name: &str| match &self.followed {
            Some(followed) if name == FOLLOWED_MAP => followed.fd().as_fd().as_raw_fd(),
            _ => maps[name].fd().as_fd().as_raw_fd(),
        };
        relocate(&mut object, fd).map_err(|e| AttachError::damaged(&e))?;
        if let Some(count) = count {
            put_variable(&mut object, count.variable)?;
        }
        Ok(Copy { object, maps })
    }
}

/// A copy of the object whose maps are in the kernel.
#[derive(Debug)]
struct Copy {
    object: Object,
    maps: HashMap<String, MapData>,
}

impl Copy {
    fn share(&self, map: &str, words: usize, access: Access) -> anyhow::Result<Shared> {
        Ok(Shared::new(self.maps[map].fd().as_fd(), words, access)?)
    }
}

/// A map with the object's data in it; read-only data is frozen, so that the
/// verifier may take it for constant.
fn create(name: &str, defined: &aya_obj::Map) -> anyhow::Result<MapData> {
    let map = MapData::create(defined.clone(), name, None)?;
    // What is zero is so already.
    if defined.section_kind() != EbpfSectionKind::Bss && !defined.data().is_empty() {
        bpf::update_first(map.fd().as_fd(), defined.data())?;
    }
    if defined.section_kind() == EbpfSectionKind::Rodata {
        bpf::freeze(map.fd().as_fd())?;
    }
    Ok(map)
}

/// Puts the maps' fds into the instructions, and functions that are called into
/// their callers.
fn relocate(object: &mut Object, fd: impl Fn(&str) -> i32) -> anyhow::Result<()> {
    let sections: HashSet<usize> = object
        .functions
        .keys()
        .map(|(section, _)| *section)
        .collect();
    let defined = object.maps.clone();
    let by_name = defined
        .iter()
        .map(|(name, defined)| (name.as_str(), fd(name), defined));
    object.relocate_maps(by_name, &sections)?;
    object.relocate_calls(&sections)?;
    Ok(())
}

/// Puts the address of a per-CPU variable of the kernel in its place, by the id of its
/// type (`BPF_PSEUDO_BTF_ID`, `include/uapi/linux/bpf.h`). aya knows no such symbols.
fn put_variable(object: &mut Object, variable: u32) -> Result<(), AttachError> {
    let words = |instructions: &[bpf_insn]| {
        let [first, second] = instructions else {
            return false;
        };
        let [low, high] = [first, second].map(|i| u64::from(i.imm.cast_unsigned()));
        u32::from(first.code) == LOAD_WIDE && low | high << 32 == PREEMPT_COUNT_MARK
    };
    let mut places = 0;
    for function in object.functions.values_mut() {
        let instructions = &mut function.instructions;
        for at in 1..instructions.len() {
            if words(&instructions[at - 1..=at]) {
                instructions[at - 1].set_src_reg(BPF_PSEUDO_BTF_ID.to_le_bytes()[0]);
                instructions[at - 1].imm = variable.cast_signed();
                instructions[at].imm = 0;
                places += 1;
            }
        }
    }
    if places == 0 {
        return Err(AttachError::lacks("the count of interrupts"));
    }
    Ok(())
}

fn load_program(
    object: &Object,
    kind: bpf_prog_type,
    name: &str,
) -> Result<OwnedFd, bpf::LoadError> {
    let program = &object.programs[name];
    let function = &object.functions[&program.function_key()];
    let name = CString::new(name).expect("a name without NUL");
    bpf::load_program(kind, &name, &object.license, &function.instructions)
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
