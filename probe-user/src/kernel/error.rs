//! Why a probe could not be had, in one line that says what to do.

use std::{error::Error, fmt, io};

use super::{bpf::LoadError, is_blacklisted, lockdown, missing_capabilities, object::NoObject};
use crate::{model::Target, wording::causes};

/// Why a probe could not be had.
#[derive(Debug)]
pub(crate) enum AttachError {
    /// The machine does not say what it is.
    Unreadable(String),
    /// This build has no BPF object.
    NoObject(&'static str),
    /// The object is not what the contract says.
    BadObject(String),
    /// The kernel does not let this user load or attach BPF programs.
    Denied(String),
    /// The kernel does not take this probe.
    Refused { name: String, why: String },
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoObject(reason) => write!(f, "there is no BPF object in this program: {reason}"),
            Self::BadObject(why) => write!(
                f,
                "the BPF object in this program is damaged: {why}; build it again"
            ),
            Self::Denied(why) => {
                let missing = missing_capabilities().join(" and ");
                match lockdown().as_deref() {
                    // Debian's own level; the kernel's end at 2.
                    _ if missing == "CAP_SYS_ADMIN" => write!(
                        f,
                        "not permitted to probe the kernel: {missing} missing, which kernel.perf_event_paranoid above 2 takes; run as root, or set it to 2 and have CAP_BPF and CAP_PERFMON"
                    ),
                    _ if !missing.is_empty() => write!(
                        f,
                        "not permitted to probe the kernel: {missing} missing; run as root"
                    ),
                    Some("confidentiality") => write!(
                        f,
                        "not permitted to probe the kernel: lockdown is confidentiality; boot without it"
                    ),
                    _ => write!(
                        f,
                        "not permitted to probe the kernel: {why}; look for a security module that forbids it"
                    ),
                }
            }
            Self::Unreadable(what) => write!(f, "{what}; is /sys mounted?"),
            Self::Refused { name, why } => write!(f, "failed to attach kprobe to {name}: {why}"),
        }
    }
}

impl Error for AttachError {}

/// Whether this process may probe, as far as that follows from its capabilities.
pub(crate) fn permitted() -> Result<(), AttachError> {
    if missing_capabilities().is_empty() {
        return Ok(());
    }
    Err(AttachError::Denied(String::new()))
}

impl From<NoObject> for AttachError {
    fn from(error: NoObject) -> Self {
        match error {
            NoObject::Absent(reason) => Self::NoObject(reason),
            NoObject::Damaged => Self::BadObject("it is not what was built".to_owned()),
        }
    }
}

impl AttachError {
    /// The object lacks a program or a map.
    pub(super) fn lacks(name: &str) -> Self {
        Self::BadObject(format!("it lacks {name}"))
    }

    /// The object could not be read.
    pub(super) fn damaged(error: &anyhow::Error) -> Self {
        Self::BadObject(one_line(error))
    }

    /// The kernel does not take the probe, and it is known why.
    pub(super) fn refused(target: &Target, why: &impl fmt::Display) -> Self {
        Self::Refused {
            name: target.name(),
            why: why.to_string(),
        }
    }

    /// The kernel does not find by name what its list of symbols has: some kernels up to
    /// Linux 6.11 find nothing by `MODULE:SYMBOL`.
    pub(crate) fn not_found(target: &Target) -> Self {
        let why = "the kernel does not find it by this name; write it without its module, or look whether the module is still loaded";
        Self::refused(target, &why)
    }

    /// A program could not be loaded or attached.
    pub(super) fn of(target: &Target, source: &anyhow::Error) -> Self {
        let mut errors = source.chain().filter_map(|e| e.downcast_ref::<io::Error>());
        let error = errors.next();
        // The verifier's errno is often that of missing rights.
        if source.chain().any(|e| {
            e.downcast_ref::<LoadError>()
                .is_some_and(LoadError::has_reason)
        }) {
            return Self::refused(target, &one_line(source));
        }
        if error.is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied) {
            return Self::Denied(one_line(source));
        }
        if is_blacklisted(&target.symbol) {
            let why = "it is on this kernel's kprobe blacklist; probe one of its callers";
            return Self::refused(target, &why);
        }
        // What is marked noinstr or notrace, and what is data.
        if error.and_then(io::Error::raw_os_error) == Some(libc::EINVAL) {
            let why =
                "the kernel lets nobody probe it, or it is no function; probe one of its callers";
            return Self::refused(target, &why);
        }
        if error.and_then(io::Error::raw_os_error) == Some(libc::EADDRNOTAVAIL) {
            let why = match target.module {
                None => "there are several functions of this name; write MODULE:SYMBOL",
                Some(_) => {
                    "there are several functions of this name, and this kernel cannot be told which; leave it out"
                }
            };
            return Self::refused(target, &why);
        }
        Self::refused(target, &one_line(source))
    }
}

fn one_line(error: &anyhow::Error) -> String {
    causes(error)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
