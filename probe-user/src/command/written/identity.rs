//! What a record says of the kernel, the machine and its filesystems; and of what `check`
//! found.

use std::collections::BTreeMap;

use probe_ebpf::Filesystem;

use crate::{
    evidence::{
        CheckRecord, CheckTargetRecord, FilesystemRecord, IdentityRecord, ScopeRecord,
        VariantRecord,
    },
    model::{Checked, Identity, Mount, Need, Presence, Scope, Variant, filesystem_name},
};

/// What `check --json` writes.
pub(crate) fn check_record(checked: &Checked<'_>) -> String {
    let rows = checked.rows.iter();
    let record = CheckRecord {
        schema: CheckRecord::SCHEMA,
        identity: identity(&checked.identity, &checked.variant, None),
        preemption: checked.identity.preemption.clone(),
        lockdown: checked.lockdown.clone(),
        perf_event_paranoid: checked.perf_event_paranoid,
        needed_capabilities: checked.needed_capabilities.clone(),
        missing_capabilities: checked.missing_capabilities.clone(),
        kernel_btf: checked.kernel_btf,
        btrfs_btf: checked.btrfs_btf,
        kprobes_armed: match checked.kprobes_armed {
            Ok(known) => known.then_some(true),
            Err(_) => Some(false),
        },
        misses_told: checked.losses_told(),
        hook: "kprobe",
        targets: rows
            .map(|row| CheckTargetRecord {
                symbol: row.target.symbol.clone(),
                module: module(row.presence),
                required: row.target.need == Need::Required,
                available: *row.presence != Presence::Absent,
                traceable: row.traced.is_some(),
            })
            .collect(),
        problems: checked.problems.clone(),
    };
    serde_json::to_string_pretty(&record).expect("plain data")
}

pub(super) fn module(presence: &Presence) -> Option<String> {
    match presence {
        Presence::Module(name) => Some(name.clone()),
        Presence::BuiltIn | Presence::Absent => None,
    }
}

pub(super) fn identity(
    kernel: &Identity,
    variant: &Variant,
    host_name: Option<&str>,
) -> IdentityRecord {
    let kernel = kernel.clone();
    let (variant, slots) = match *variant {
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
        preemption: kernel.preemption,
        host_name: host_name.map(str::to_owned),
        build: kernel.build,
        hardware: kernel.hardware,
        inhibition: VariantRecord { variant, slots },
    }
}

pub(super) fn scope(scope: &Scope) -> ScopeRecord {
    let found = scope.found.iter();
    let found = found.map(|of| filesystem(*of, scope.seen.get(of)));
    ScopeRecord {
        asked: scope.asked.clone(),
        refused: scope.refused.clone(),
        filesystems: found.collect(),
    }
}

/// Each once: those that are mounted, and those that were meant.
pub(super) fn filesystems(mounted: &[Mount], scope: Option<&Scope>) -> Vec<FilesystemRecord> {
    let mut each: BTreeMap<_, _> = mounted.iter().rev().map(|m| (m.filesystem, m)).collect();
    if let Some(scope) = scope {
        let meant = scope.found.iter().filter_map(|of| scope.seen.get(of));
        // As it was found.
        each.extend(meant.map(|m| (m.filesystem, m)));
    }
    let each = each.into_iter();
    each.map(|(of, mount)| filesystem(of, Some(mount)))
        .collect()
}

fn filesystem(of: Filesystem, mount: Option<&Mount>) -> FilesystemRecord {
    let options = |place: usize| mount.map(|m| m.options[place].clone());
    FilesystemRecord {
        device: filesystem_name(of),
        mount_point: mount.map(|m| m.point.to_string_lossy().into_owned()),
        fsid: mount.and_then(|m| m.fsid.clone()),
        source: mount.map(|m| m.source.clone()),
        mount_options: options(0),
        super_options: options(1),
        block_device: mount.and_then(|m| m.block.clone()),
    }
}
