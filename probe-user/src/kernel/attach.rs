//! Loads the BPF object once for each target and attaches it.

use std::os::fd::{AsFd as _, OwnedFd};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, Map, PerCpuArray},
    programs::{KProbe, links::FdLink},
};
use probe_ebpf::{
    DECODER_GLOBAL, ENTRY_PROGRAM, GATE_MAP, RETURN_PROGRAM, STARTS_MAP, TALLY_MAP, Tally,
};

use super::{bpf, error::AttachError, object};
use crate::model::{Losses, Target};

/// One target's copy of the object, attached.
#[derive(Debug)]
pub(super) struct Attached {
    /// Owns the maps and the programs.
    ebpf: Ebpf,
    /// The links. Nothing else holds them: dropped, the probes are gone.
    entry: OwnedFd,
    ret: OwnedFd,
}

impl Attached {
    /// The tally summed over all possible CPUs, offline ones included.
    pub(super) fn tally(&self) -> anyhow::Result<Tally> {
        let map = self.ebpf.map(TALLY_MAP).expect("the object has the map");
        let map: PerCpuArray<_, [u64; Tally::WORDS]> = map.try_into()?;
        let mut sum = Tally::default();
        for cpu in map.get(&0, 0)?.iter() {
            sum.merge(&Tally::from_words(*cpu));
        }
        Ok(sum)
    }

    /// How many calls of a window are under way.
    pub(super) fn in_flight(&self, epoch: u64) -> anyhow::Result<u64> {
        let map = self.ebpf.map(STARTS_MAP).expect("the object has the map");
        let Map::HashMap(map) = map else {
            unreachable!("the contract says that it is a hash");
        };
        let starts = bpf::starts(map.fd().as_fd())?;
        let of_window = starts.iter().filter(|start| start.epoch == epoch);
        Ok(of_window.count() as u64)
    }

    /// The kernel's own counters of what these probes did not get.
    pub(super) fn losses(&self) -> anyhow::Result<Losses> {
        let of = |link: &OwnedFd, name: &str| -> anyhow::Result<(Option<u64>, Option<u64>)> {
            let program = self.ebpf.program(name).expect("the object has the program");
            let missed = bpf::link_missed(link.as_fd())?;
            let recursion_misses = bpf::recursion_misses(program.fd()?.as_fd())?;
            // Kernels without the first have the second, but do not count kprobes in it: both
            // came with "bpf: Count missed stats in trace_call_bpf" (Linux 6.7).
            Ok((missed, missed.and(recursion_misses)))
        };
        let (entry_missed, entry_recursion_misses) = of(&self.entry, ENTRY_PROGRAM)?;
        let (return_missed, return_recursion_misses) = of(&self.ret, RETURN_PROGRAM)?;
        Ok(Losses {
            entry_missed,
            entry_recursion_misses,
            return_missed,
            return_recursion_misses,
        })
    }

    /// Opens the gate for a window, or closes it with epoch 0.
    pub(super) fn set_gate(&mut self, epoch: u64) -> anyhow::Result<()> {
        let map = self.ebpf.map_mut(GATE_MAP).expect("the object has the map");
        let mut map: Array<_, u64> = map.try_into()?;
        Ok(map.set(0, epoch, 0)?)
    }
}

/// Every value that a decoder can have: the loader keeps references to what it
/// fixes in the object.
static DECODERS: [u32; 4] = [0, 1, 2, 3];

/// Loads copies of the object. Making a loader costs the most of all (aya reads
/// the kernel's BTF), so there is one for all targets.
pub(super) struct Loader {
    object: &'static [u8],
    inner: EbpfLoader<'static>,
}

impl Loader {
    pub(super) fn new() -> Result<Self, AttachError> {
        Ok(Self::of(object::bytes().map_err(AttachError::NoObject)?))
    }

    fn of(object: &'static [u8]) -> Self {
        let mut inner = EbpfLoader::new();
        // Nothing in the object is relocated against the kernel's types.
        inner.btf(None);
        Self { object, inner }
    }

    /// Attaches a kretprobe, then a kprobe, to each target that is `Some`. All
    /// return programs come before all entry programs, so that no call is counted
    /// whose return could not be.
    pub(super) fn attach(
        &mut self,
        targets: &[Option<&Target>],
    ) -> Result<Vec<Option<Attached>>, AttachError> {
        let mut copies = Vec::with_capacity(targets.len());
        for target in targets {
            copies.push(match target {
                Some(target) => Some((*target, self.load(target)?)),
                None => None,
            });
        }
        let mut returns = Vec::with_capacity(targets.len());
        for copy in &mut copies {
            returns.push(match copy {
                Some((target, ebpf)) => Some(attach(ebpf, RETURN_PROGRAM, target)?),
                None => None,
            });
        }
        let mut attached = Vec::with_capacity(targets.len());
        for (copy, ret) in copies.into_iter().zip(returns) {
            attached.push(match (copy, ret) {
                (Some((target, mut ebpf)), Some(ret)) => {
                    let entry = attach(&mut ebpf, ENTRY_PROGRAM, target)?;
                    Some(Attached { ebpf, entry, ret })
                }
                _ => None,
            });
        }
        Ok(attached)
    }

    /// Loads one copy of the object, its programs included, for `target`.
    fn load(&mut self, target: &Target) -> Result<Ebpf, AttachError> {
        let decoder = &DECODERS[target.decoder() as usize];
        let loader = self.inner.override_global(DECODER_GLOBAL, decoder, true);
        let copy = loader.load(self.object);
        let mut ebpf = copy.map_err(|error| AttachError::of_object(target, error))?;
        for name in [TALLY_MAP, STARTS_MAP, GATE_MAP] {
            if ebpf.map(name).is_none() {
                return Err(AttachError::lacks(name));
            }
        }
        for name in [RETURN_PROGRAM, ENTRY_PROGRAM] {
            if ebpf.program(name).is_none() {
                return Err(AttachError::lacks(name));
            }
            let program = kprobe(&mut ebpf, name);
            let verified = program.load();
            verified.map_err(|error| AttachError::of(target, &error.into()))?;
        }
        Ok(ebpf)
    }
}

/// Attaches one program and returns an fd of its link, by which it stays attached.
fn attach(ebpf: &mut Ebpf, name: &str, target: &Target) -> Result<OwnedFd, AttachError> {
    let program = kprobe(ebpf, name);
    let mut attach = || -> anyhow::Result<OwnedFd> {
        let id = program.attach(target.kprobe_name(), 0)?;
        let link: FdLink = program.take_link(id)?.try_into()?;
        Ok(bpf::own_link_fd(link.info()?.id())?)
    };
    attach().map_err(|error| AttachError::of(target, &error))
}

fn kprobe<'a>(ebpf: &'a mut Ebpf, name: &str) -> &'a mut KProbe {
    let program = ebpf.program_mut(name).expect("the object has the program");
    program.try_into().expect("the program is a kprobe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_object_is_refused_in_one_line() {
        let [target, ..] = Target::three();
        let whole = object::bytes().unwrap_or_default();
        let half = &whole[..whole.len() / 2];
        for object in [&b"\x7fELF"[..], b"no object at all", half] {
            let error = Loader::of(object).load(&target).expect_err("damaged");
            let text = error.to_string();
            assert!(
                text.starts_with("the BPF object in this program is damaged"),
                "{text}"
            );
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}
