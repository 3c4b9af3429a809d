//! Who a record is of, in words.

use super::recorded::{Recorded, RecordedFilesystem};
use crate::model::Fact;

/// Program, kernel, machine and filesystems, as far as they are known.
pub(super) fn identity(record: &Recorded) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: Option<String>| {
        facts.extend(value.filter(|v| !v.is_empty()).map(|v| Fact::new(name, v)));
    };
    let (here, build) = (&record.identity, &record.identity.build);
    let machine = &here.hardware;
    let tool = record.tool.as_ref();
    fact("cowprobe", tool.map(|tool| tool.version.clone()));
    fact(
        "BPF object SHA-256",
        tool.and_then(|t| t.ebpf_sha256.clone()),
    );
    fact("began", record.started_at.clone());
    fact("host", here.host_name.clone());
    fact("kernel build", here.version.clone());
    fact("compiler", build.compiler.clone());
    fact("config SHA-256", build.config_sha256.clone());
    fact("kernel build id", build.kernel_build_id.clone());
    fact("btrfs build id", build.btrfs_build_id.clone());
    fact("taint", build.taint.map(|bits| bits.to_string()));
    fact("preemption", here.preemption.clone());
    fact("command line", here.command_line.clone());
    fact("processor", machine.cpu_model.clone());
    fact("CPUs online", machine.cpus_online.clone());
    let smt = machine.smt_active.map(|on| if on { "on" } else { "off" });
    fact("SMT", smt.map(str::to_owned));
    fact("NUMA nodes", machine.numa_nodes.clone());
    fact("memory", machine.memory_kib.map(|kib| format!("{kib} KiB")));
    fact("cpufreq driver", Some(machine.scaling_driver.join(", ")));
    fact("governor", Some(machine.scaling_governor.join(", ")));
    fact(
        "energy preference",
        Some(machine.energy_performance_preference.join(", ")),
    );
    let turbo = machine.turbo.map(|on| if on { "on" } else { "off" });
    fact("turbo", turbo.map(str::to_owned));
    let weak = machine.mitigations.iter();
    let weak = weak.filter(|(_, said)| *said != "Not affected");
    let weak: Vec<_> = weak.map(|(name, said)| format!("{name}: {said}")).collect();
    fact("vulnerabilities", Some(weak.join("; ")));
    for filesystem in &record.filesystems {
        fact("filesystem", Some(words(filesystem)));
    }
    facts
}

fn words(filesystem: &RecordedFilesystem) -> String {
    let mut parts = Vec::new();
    if let Some(source) = &filesystem.source {
        let block = filesystem.block_device.as_ref();
        let driver = block.and_then(|b| b.driver.as_deref()).unwrap_or("?");
        let bytes = block.and_then(|b| b.bytes);
        let bytes = bytes.map_or_else(|| "? bytes".to_owned(), |n| format!("{n} bytes"));
        parts.push(format!("{source} ({driver}, {bytes})"));
    }
    parts.push(format!("s_dev {}", filesystem.device));
    parts.extend(filesystem.mount_point.iter().map(|at| format!("at {at}")));
    parts.extend(filesystem.fsid.iter().map(|id| format!("UUID {id}")));
    parts.extend(filesystem.super_options.clone());
    parts.join(", ")
}
