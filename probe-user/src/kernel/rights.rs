//! What this process may do, and what the kernel allows anybody.

use std::fs;

/// Bits of the effective set in `/proc/self/status`, `include/uapi/linux/
/// capability.h`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The capabilities that probing wants and this process lacks.
pub(crate) fn missing_capabilities() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hex = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let bits = hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    missing_of(bits.unwrap_or(0))
}

fn missing_of(effective: u64) -> Vec<&'static str> {
    let has = |bit: u32| effective >> bit & 1 == 1 || effective >> CAP_SYS_ADMIN & 1 == 1;
    [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter(|(bit, _)| !has(*bit))
        .map(|(_, name)| name)
        .collect()
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
        let bits = |bits: &[u32]| bits.iter().fold(0, |all, bit| all | 1 << bit);
        for (effective, missing) in [
            (0, &["CAP_BPF", "CAP_PERFMON"][..]),
            (bits(&[CAP_BPF]), &["CAP_PERFMON"]),
            (bits(&[CAP_PERFMON]), &["CAP_BPF"]),
            (bits(&[CAP_BPF, CAP_PERFMON]), &[]),
            (bits(&[CAP_SYS_ADMIN]), &[]),
        ] {
            assert_eq!(missing_of(effective), missing);
        }
    }
}
