//! Why a probe could not be had, in one line that says what to do.

use std::{error::Error, fmt, io};

use aya::{EbpfError, programs::ProgramError};

use super::{is_blacklisted, lockdown, missing_capabilities, perf_event_paranoid};
use crate::{
    model::Target,
    wording::{causes, plain},
};

/// Why a probe could not be had.
#[derive(Debug)]
pub(crate) enum AttachError {
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
                    _ if !missing.is_empty() => write!(
                        f,
                        "not permitted to probe the kernel: {missing} missing; run as root"
                    ),
                    Some("confidentiality") => write!(
                        f,
                        "not permitted to probe the kernel: lockdown is confidentiality; boot without it"
                    ),
                    // Debian's own level; the kernel's end at 2.
                    _ if perf_event_paranoid().is_some_and(|n| n > 2) => write!(
                        f,
                        "not permitted to probe the kernel: kernel.perf_event_paranoid is above 2, which takes CAP_SYS_ADMIN; set it to 2 or run as root"
                    ),
                    _ => write!(
                        f,
                        "not permitted to probe the kernel: {why}; look for a security module that forbids it"
                    ),
                }
            }
            Self::Refused { name, why } => write!(f, "failed to attach kprobe to {name}: {why}"),
        }
    }
}

impl Error for AttachError {}

impl AttachError {
    /// The object lacks a program or a map.
    pub(super) fn lacks(name: &str) -> Self {
        Self::BadObject(format!("it lacks {name}"))
    }

    /// The object could not be read, or its maps not be made.
    pub(super) fn of_object(target: &Target, error: EbpfError) -> Self {
        match error {
            EbpfError::ParseError(_) | EbpfError::RelocationError(_) => {
                Self::BadObject(one_line(&error.into()))
            }
            error => Self::of(target, &error.into()),
        }
    }

    /// A program could not be loaded or attached.
    pub(super) fn of(target: &Target, source: &anyhow::Error) -> Self {
        let denied = source.chain().any(|cause| {
            let error = cause.downcast_ref::<io::Error>();
            error.is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
        });
        if denied {
            return Self::Denied(one_line(source));
        }
        let why = match source.downcast_ref::<ProgramError>() {
            _ if is_blacklisted(&target.symbol) => {
                "it is on this kernel's kprobe blacklist; probe one of its callers".to_owned()
            }
            Some(ProgramError::LoadError {
                io_error,
                verifier_log,
            }) => {
                let log = verifier_log.to_string();
                let last = log.lines().rfind(|line| !line.trim().is_empty());
                format!(
                    "the verifier refuses the program: {}: {}",
                    plain(io_error),
                    last.unwrap_or("it does not say why")
                )
            }
            Some(ProgramError::KProbeError(_)) => {
                "this kernel has none; one with CONFIG_KPROBE_EVENTS is needed".to_owned()
            }
            _ => one_line(source),
        };
        Self::Refused {
            name: target.name(),
            why,
        }
    }
}

fn one_line(error: &anyhow::Error) -> String {
    causes(error)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
