//! Turns what was surveyed and measured into the record.

use std::{ffi::OsString, os::unix::process::ExitStatusExt as _};

use super::{run::End, survey::Survey};
use crate::{
    evidence::{
        CommandRecord, Exit, IdentityRecord, Record, TargetRecord, Tool, VariantRecord,
        WindowRecord,
    },
    kernel::{Presence, Variant, object_sha256},
    model::{Counts, Kinds, Need, TARGETS, Target, Window},
};

/// What `run` knows when it is done.
pub(super) struct Run<'a> {
    pub(super) argv: &'a [OsString],
    pub(super) end: &'a End,
    pub(super) wall_ns: u64,
    pub(super) window: Option<&'a Window>,
    pub(super) code: u8,
    pub(super) causes: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// The record of a run.
pub(super) fn record(survey: &Survey, run: Run<'_>) -> Record {
    let counts = |i: usize| run.window.and_then(|w| w.counts[i]);
    let here = TARGETS.iter().zip(&survey.presence).enumerate();
    Record {
        schema: Record::SCHEMA,
        tool: Tool {
            name: "cowprobe",
            version: env!("CARGO_PKG_VERSION"),
            ebpf_sha256: object_sha256(),
        },
        identity: identity(survey),
        command: command(&run),
        exit: Exit {
            code: run.code,
            causes: run.causes,
        },
        windows: run.window.map(window).into_iter().collect(),
        targets: here
            .map(|(i, (t, presence))| target(t, presence, counts(i)))
            .collect(),
        warnings: run.warnings,
    }
}

fn identity(survey: &Survey) -> IdentityRecord {
    let kernel = survey.identity.clone();
    let (variant, slots) = match survey.variant {
        Variant::Xarray => ("xarray", None),
        Variant::InlineBuffer { slots } => ("inline-buffer", Some(slots)),
        Variant::None => ("none", None),
        Variant::Unknown(_) => ("unknown", None),
    };
    IdentityRecord {
        release: kernel.release,
        version: kernel.version,
        machine: kernel.machine,
        boot_id: kernel.boot_id,
        command_line: kernel.command_line,
        inhibition: VariantRecord { variant, slots },
    }
}

fn command(run: &Run<'_>) -> CommandRecord {
    let words = run.argv.iter();
    let (status, signal, error) = match run.end {
        End::Ended(status) => (status.code(), status.signal(), None),
        End::NotStarted(error) => (None, None, Some(error.to_string())),
    };
    CommandRecord {
        argv: words.map(|w| w.to_string_lossy().into_owned()).collect(),
        status,
        signal,
        error,
        wall_ns: run.wall_ns,
    }
}

fn window(window: &Window) -> WindowRecord {
    WindowRecord {
        clock: "CLOCK_MONOTONIC",
        start_ns: window.start_ns,
        end_ns: window.end_ns,
    }
}

fn target(target: &Target, presence: &Presence, counts: Option<Counts>) -> TargetRecord {
    let divides = target.kinds == Kinds::CloneDedupe;
    let losses = counts.map(|c| c.losses).unwrap_or_default();
    TargetRecord {
        symbol: target.symbol,
        module: match presence {
            Presence::Module(name) => Some(name.clone()),
            Presence::BuiltIn | Presence::Absent => None,
        },
        required: target.need == Need::Required,
        available: *presence != Presence::Absent,
        hook: counts.map(|_| "kprobe"),
        calls: counts.map(|c| c.calls),
        clones: counts.filter(|_| divides).map(|c| c.plain),
        dedupes: counts.filter(|_| divides).map(|c| c.dedupe),
        returns: counts.map(|c| c.returns),
        errors: counts.filter(|_| target.returns_errno).map(|c| c.errors),
        missed: losses.entry_missed,
        recursion_misses: losses.entry_recursion_misses,
        return_missed: losses.return_missed,
        return_recursion_misses: losses.return_recursion_misses,
    }
}
