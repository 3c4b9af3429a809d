//! What `check` found.

use tabled::settings::Alignment;

use super::lay_out;
use crate::model::{Checked, Presence};

/// The kernel and what it allows, then a row for each target.
pub(crate) fn check_table(checked: &Checked<'_>) -> String {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let missing = &checked.missing_capabilities;
    let capabilities = if missing.is_empty() {
        "all that are needed".to_owned()
    } else {
        format!("{} missing; run as root", missing.join(" and "))
    };
    let kprobes = match &checked.kprobes_armed {
        Ok(true) => "switched on".to_owned(),
        Ok(false) => "unknown whether switched on".to_owned(),
        Err(switch) => format!("off: {switch}"),
    };
    let losses = match checked.losses_told() {
        Some(true) => "told by the kernel, so counts are proven",
        Some(false) => "not told by this kernel, so counts are unproven",
        None => "unknown, nothing could be attached",
    };
    let btf = match (checked.kernel_btf, checked.btrfs_btf) {
        (true, true) => "of the kernel and of btrfs",
        (true, false) => "of the kernel",
        (false, _) => "none, so the form of the inhibition is unknown",
    };
    let paranoid = checked.perf_event_paranoid;
    let takes = checked.needed_capabilities.join(" and ");
    let lines = [
        (
            "kernel",
            format!("{} {}", checked.identity.release, checked.identity.machine),
        ),
        ("inhibition", checked.variant.to_string()),
        ("preemption", or_unknown(&checked.identity.preemption)),
        ("lockdown", or_unknown(&checked.lockdown)),
        (
            "paranoid",
            paranoid.map_or_else(
                || "unknown".to_owned(),
                |n| format!("{n}, so probing takes {takes}"),
            ),
        ),
        ("capabilities", capabilities),
        ("BTF", btf.to_owned()),
        ("kprobes", kprobes),
        ("misses", losses.to_owned()),
        (
            "hook",
            "kprobe: never preempted, so no hit is lost unseen".to_owned(),
        ),
    ];
    let lines = lines.map(|(name, text)| format!("{name:<12}  {text}\n"));

    let head = ["target", "need", "available", "traceable"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in &checked.rows {
        let available = match row.presence {
            Presence::BuiltIn => "built in".to_owned(),
            Presence::Module(name) => format!("in {name}"),
            Presence::Absent => "absent".to_owned(),
        };
        let traceable = if row.traced.is_some() { "yes" } else { "no" };
        table.push(vec![
            row.target.name(),
            row.target.need.as_str().to_owned(),
            available,
            traceable.to_owned(),
        ]);
    }
    format!("{}\n{}", lines.concat(), lay_out(table, Alignment::left()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{CheckRow, Identity, Losses, Target, Variant},
        view::assert_golden,
    };

    fn known() -> Losses {
        Losses {
            entry_missed: Some(0),
            entry_recursion_misses: Some(0),
            return_missed: Some(0),
            return_recursion_misses: Some(0),
        }
    }

    fn checked<'a>(
        targets: &'a [Target],
        presence: &'a [Presence],
        variant: Variant,
        losses: Losses,
    ) -> Checked<'a> {
        let both = targets.iter().zip(presence);
        Checked {
            identity: Identity {
                release: "7.3.4+deb13-cloud-amd64".to_owned(),
                machine: "x86_64".to_owned(),
                preemption: Some("lazy".to_owned()),
                ..Identity::default()
            },
            variant,
            lockdown: Some("none".to_owned()),
            perf_event_paranoid: Some(2),
            needed_capabilities: vec!["CAP_BPF", "CAP_PERFMON"],
            missing_capabilities: Vec::new(),
            kernel_btf: true,
            btrfs_btf: true,
            kprobes_armed: Ok(true),
            rows: both
                .map(|(target, presence)| CheckRow {
                    target,
                    presence,
                    traced: (*presence != Presence::Absent).then_some(losses),
                })
                .collect(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn kernel_and_targets() {
        let targets = Target::three();
        let module = || Presence::Module("btrfs".to_owned());
        let mut text = check_table(&checked(
            &targets,
            &[module(), module(), module()],
            Variant::InlineBuffer { slots: 8 },
            known(),
        ));
        text.push('\n');
        let none = [module(), Presence::Absent, Presence::Absent];
        text.push_str(&check_table(&checked(
            &targets,
            &none,
            Variant::None,
            Losses::default(),
        )));
        text.push('\n');
        let absent = [Presence::Absent, Presence::Absent, Presence::Absent];
        let why = "no /sys/kernel/btf/vmlinux";
        let seen = || checked(&targets, &absent, Variant::Unknown(why.to_owned()), known());
        let unknown = Checked {
            identity: Identity {
                preemption: None,
                ..seen().identity
            },
            lockdown: None,
            perf_event_paranoid: None,
            missing_capabilities: vec!["CAP_BPF", "CAP_PERFMON"],
            kernel_btf: false,
            kprobes_armed: Err("/proc/sys/kernel/ftrace_enabled is 0".to_owned()),
            ..seen()
        };
        text.push_str(&check_table(&unknown));
        assert_golden("check.txt", &text);
    }
}
