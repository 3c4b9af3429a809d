//! Loads the BPF object once for each target, attaches it, and reads it.
//!
//! Refuses to know what a count means: it hands out snapshots.

use std::{
    error::Error,
    fmt, io,
    os::fd::{AsFd as _, OwnedFd},
};

use aya::{
    Ebpf, EbpfLoader,
    maps::PerCpuArray,
    programs::{KProbe, links::FdLink},
};
use probe_ebpf::{DECODER_GLOBAL, ENTRY_PROGRAM, RETURN_PROGRAM, TALLY_MAP, Tally};

use super::{bpf, monotonic_ns, object};
use crate::{
    model::{Losses, Reading, Snapshot, Target},
    wording::causes,
};

/// Why a probe could not be had.
#[derive(Debug)]
pub(crate) enum AttachError {
    /// This build has no BPF object.
    NoObject(&'static str),
    /// The kernel does not let this user load or attach BPF programs.
    Denied(anyhow::Error),
    /// The kernel does not take this probe.
    Refused {
        symbol: &'static str,
        source: anyhow::Error,
    },
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoObject(reason) => write!(f, "there is no BPF object in this program: {reason}"),
            Self::Denied(source) => write!(
                f,
                "not permitted to probe the kernel: {}; run as root, or with CAP_BPF and CAP_PERFMON",
                causes(source)
            ),
            Self::Refused { symbol, source } => {
                write!(f, "failed to attach kprobe to {symbol}: {}", causes(source))
            }
        }
    }
}

impl Error for AttachError {}

/// Which side of a window a snapshot stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Losses are read before tallies.
    Open,
    /// Losses are read after tallies.
    Close,
}

/// The attached probes. Dropping them detaches everything: nothing is pinned, so
/// that the kernel cleans up even after a kill.
#[derive(Debug)]
pub(crate) struct Probes {
    /// In the order of the targets; `None` for one that was not asked for.
    attached: Vec<Option<Attached>>,
}

#[derive(Debug)]
struct Attached {
    /// Owns the map, the programs and, through them, the links.
    ebpf: Ebpf,
    entry: OwnedFd,
    ret: OwnedFd,
}

impl Probes {
    /// Attaches a kretprobe, then a kprobe, to each target that is `Some`. All
    /// return programs come before all entry programs, so that no call is counted
    /// whose return could not be.
    pub(crate) fn attach(targets: &[Option<&Target>]) -> Result<Self, AttachError> {
        let mut loader = Loader::new()?;
        attach_all(&mut loader, targets)
    }

    /// Attaches each target that is `Some` by itself, detaches it, and says how it
    /// went.
    pub(crate) fn try_each(
        targets: &[Option<&Target>],
    ) -> Result<Vec<Option<Result<(), AttachError>>>, AttachError> {
        let mut loader = Loader::new()?;
        let each = targets.iter().map(|target| {
            let probes = attach_all(&mut loader, &[Some((*target)?)]);
            Some(probes.map(drop))
        });
        Ok(each.collect())
    }

    /// Reads all tallies and losses. At a window's opening the losses are read
    /// first, at its closing last: so the stretch in which losses are looked for
    /// covers the stretch that is counted.
    pub(crate) fn snapshot(&self, edge: Edge) -> anyhow::Result<Snapshot> {
        let (losses, tallies);
        let at_ns;
        match edge {
            Edge::Open => {
                losses = self.read_each(Attached::losses)?;
                at_ns = monotonic_ns();
                tallies = self.read_each(Attached::tally)?;
            }
            Edge::Close => {
                tallies = self.read_each(Attached::tally)?;
                at_ns = monotonic_ns();
                losses = self.read_each(Attached::losses)?;
            }
        }
        let both = tallies.into_iter().zip(losses);
        Ok(Snapshot {
            at_ns,
            readings: both
                .map(|(tally, losses)| {
                    Some(Reading {
                        tally: tally?,
                        losses: losses?,
                    })
                })
                .collect(),
        })
    }

    fn read_each<T>(
        &self,
        read: impl Fn(&Attached) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<Option<T>>> {
        let each = self.attached.iter();
        each.map(|a| a.as_ref().map(&read).transpose()).collect()
    }
}

fn attach_all(loader: &mut Loader, targets: &[Option<&Target>]) -> Result<Probes, AttachError> {
    let mut copies = Vec::with_capacity(targets.len());
    for target in targets {
        copies.push(match target {
            Some(target) => Some((*target, loader.load(target)?)),
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
    Ok(Probes { attached })
}

impl Attached {
    /// The tally summed over all possible CPUs, offline ones included.
    fn tally(&self) -> anyhow::Result<Tally> {
        let map = self.ebpf.map(TALLY_MAP).expect("the object has the map");
        let map: PerCpuArray<_, [u64; Tally::WORDS]> = map.try_into()?;
        let mut sum = [0; Tally::WORDS];
        for cpu in map.get(&0, 0)?.iter() {
            for (total, word) in sum.iter_mut().zip(cpu) {
                *total += word;
            }
        }
        Ok(Tally::from_words(sum))
    }

    fn losses(&self) -> anyhow::Result<Losses> {
        let misses = |name: &str| -> anyhow::Result<Option<u64>> {
            let program = self.ebpf.program(name).expect("the object has the program");
            Ok(bpf::recursion_misses(program.fd()?.as_fd())?)
        };
        Ok(Losses {
            entry_missed: bpf::link_missed(self.entry.as_fd())?,
            entry_recursion_misses: misses(ENTRY_PROGRAM)?,
            return_missed: bpf::link_missed(self.ret.as_fd())?,
            return_recursion_misses: misses(RETURN_PROGRAM)?,
        })
    }
}

/// Every value that a decoder can have: the loader keeps references to what it
/// fixes in the object.
static DECODERS: [u32; 4] = [0, 1, 2, 3];

/// Loads copies of the object. Making one costs the most of all (aya reads the
/// kernel's BTF), so there is one for all targets.
struct Loader {
    object: &'static [u8],
    inner: EbpfLoader<'static>,
}

impl Loader {
    fn new() -> Result<Self, AttachError> {
        let object = object::bytes().map_err(AttachError::NoObject)?;
        let mut inner = EbpfLoader::new();
        // Nothing in the object is relocated against the kernel's types.
        inner.btf(None);
        Ok(Self { object, inner })
    }

    /// Loads one copy of the object, its programs included, for `target`.
    fn load(&mut self, target: &Target) -> Result<Ebpf, AttachError> {
        let decoder = &DECODERS[target.decoder() as usize];
        let loader = self.inner.override_global(DECODER_GLOBAL, decoder, true);
        let mut load = || -> anyhow::Result<Ebpf> {
            let mut ebpf = loader.load(self.object)?;
            for name in [RETURN_PROGRAM, ENTRY_PROGRAM] {
                kprobe(&mut ebpf, name).load()?;
            }
            Ok(ebpf)
        };
        load().map_err(|error| classify(target, error))
    }
}

/// Attaches one program and returns an fd of its link, by which it stays attached.
fn attach(ebpf: &mut Ebpf, name: &str, target: &Target) -> Result<OwnedFd, AttachError> {
    let program = kprobe(ebpf, name);
    let mut attach = || -> anyhow::Result<OwnedFd> {
        let id = program.attach(target.symbol, 0)?;
        let link: FdLink = program.take_link(id)?.try_into()?;
        Ok(bpf::own_link_fd(link.info()?.id())?)
    };
    attach().map_err(|error| classify(target, error))
}

fn kprobe<'a>(ebpf: &'a mut Ebpf, name: &str) -> &'a mut KProbe {
    let program = ebpf.program_mut(name).expect("the object has the program");
    program.try_into().expect("the program is a kprobe")
}

fn classify(target: &Target, source: anyhow::Error) -> AttachError {
    let denied = source.chain().any(|cause| {
        let error = cause.downcast_ref::<io::Error>();
        error.is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
    });
    if denied {
        AttachError::Denied(source)
    } else {
        AttachError::Refused {
            symbol: target.symbol,
            source,
        }
    }
}
