//! What this process may do, and what the kernel allows anybody.

use std::fs;

use caps::{CapSet, Capability};

/// The kernel's own levels of `kernel.perf_event_paranoid` end here. Debian's go on:
/// above it `perf_event_open(2)` takes `CAP_SYS_ADMIN`, which stands for the others.
const LAST_LEVEL: i32 = 2;

type Named = (Capability, &'static str);

const ADMIN: Named = (Capability::CAP_SYS_ADMIN, "CAP_SYS_ADMIN");
const PROBING: [Named; 2] = [
    (Capability::CAP_BPF, "CAP_BPF"),
    (Capability::CAP_PERFMON, "CAP_PERFMON"),
];

/// The capabilities that probing takes on this kernel.
pub(crate) fn needed_capabilities() -> Vec<&'static str> {
    let needed = needed(perf_event_paranoid());
    needed.iter().map(|(_, name)| *name).collect()
}

/// Those of them that this process lacks.
pub(crate) fn missing_capabilities() -> Vec<&'static str> {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    missing_of(needed(perf_event_paranoid()), has)
}

const fn needed(paranoid: Option<i32>) -> &'static [Named] {
    match paranoid {
        Some(level) if level > LAST_LEVEL => &[ADMIN],
        _ => &PROBING,
    }
}

fn missing_of(needed: &[Named], has: impl Fn(Capability) -> bool) -> Vec<&'static str> {
    let missing = needed
        .iter()
        .filter(|(capability, _)| !has(*capability) && !has(ADMIN.0));
    missing.map(|(_, name)| *name).collect()
}

/// The kernel's lockdown mode, "none" where it has none; `None` if it cannot be
/// read.
pub(crate) fn lockdown() -> Option<String> {
    bracketed("/sys/kernel/security/lockdown")
}

/// The preemption mode that is live now, which a command line is no proof of;
/// `None` if it cannot be read or is fixed.
pub(crate) fn preemption() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/debug/sched/preempt").ok()?;
    let (_, rest) = text.split_once('(')?;
    Some(rest.split_once(')')?.0.to_owned())
}

/// `kernel.perf_event_paranoid`.
pub(crate) fn perf_event_paranoid() -> Option<i32> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

/// The word in brackets, as in `none [integrity] confidentiality`.
fn bracketed(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cap_sys_admin_stands_for_both() {
        use Capability::{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};
        for (paranoid, has, missing) in [
            (2, &[][..], &["CAP_BPF", "CAP_PERFMON"][..]),
            (2, &[CAP_BPF], &["CAP_PERFMON"]),
            (2, &[CAP_PERFMON], &["CAP_BPF"]),
            (2, &[CAP_BPF, CAP_PERFMON], &[]),
            (-1, &[CAP_BPF, CAP_PERFMON], &[]),
            (-1, &[CAP_SYS_ADMIN], &[]),
            (3, &[CAP_BPF, CAP_PERFMON], &["CAP_SYS_ADMIN"]),
            (3, &[CAP_SYS_ADMIN], &[]),
        ] {
            let lacks = missing_of(needed(Some(paranoid)), |c| has.contains(&c));
            assert_eq!(lacks, missing, "{paranoid}, {has:?}");
        }
    }
}
