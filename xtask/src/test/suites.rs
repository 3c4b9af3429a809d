//! The suites that run in guests: data, one row a boot.

use std::time::Duration;

/// A boot of one kernel with the referee in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suite {
    /// As `--kernel` takes it.
    pub(super) kernel: &'static str,
    /// Whether the kernel may be missing: an image that is not published with the repository.
    pub(super) optional: bool,
    pub(super) smp: u32,
    /// Whether the guest's clock counts instructions.
    pub(super) icount: bool,
    /// More of the kernel's command line.
    pub(super) append: &'static str,
    /// Modules that are loaded before the referee starts.
    pub(super) modules: &'static [&'static str],
    pub(super) judged: Judged,
}

/// What the referee looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Windows of known size, so many, with so many workloads at once.
    Windows {
        windows: u32,
        tasks: u32,
        inhibition: &'static str,
    },
    /// A kernel that lacks two of the three functions, and perhaps does not tell what
    /// probes miss.
    Absent { told: bool },
    /// Verdicts and exit statuses.
    Verdicts,
    /// What goes wrong in a user's hands.
    Faults,
    /// Beside another cowprobe, nested, and with a CPU that goes away.
    Together,
    /// Times beside bpftrace's.
    Latency,
    /// Windows by perf stat's control protocol.
    Control {
        /// Windows of one clone, under load.
        pairs: u32,
        /// Clients with short windows, and the windows of each.
        short: (u32, u32),
    },
    /// At full rate for so long.
    Soak { seconds: u64 },
    /// Losses on purpose.
    Losses,
    /// Who executed the calls.
    Whose,
    /// On which filesystem they were.
    Scope,
    /// Records of runs that are not over.
    Checkpoint,
    /// A benchmark whose numbers follow.
    Bench,
    /// What a record and a bundle say, computed again.
    Evidence,
    /// Tables on a terminal.
    Terminal,
    /// A kernel that is locked down.
    Lockdown,
}

impl Judged {
    /// The referee's own word for it.
    const fn word(self) -> &'static str {
        match self {
            Self::Windows { .. } => "windows",
            Self::Absent { .. } => "absent",
            Self::Verdicts => "verdicts",
            Self::Faults => "faults",
            Self::Together => "together",
            Self::Latency => "latency",
            Self::Control { .. } => "control",
            Self::Soak { .. } => "soak",
            Self::Losses => "losses",
            Self::Whose => "whose",
            Self::Scope => "scope",
            Self::Checkpoint => "checkpoint",
            Self::Bench => "bench",
            Self::Evidence => "evidence",
            Self::Terminal => "terminal",
            Self::Lockdown => "lockdown",
        }
    }
}

const LOADED: &[&str] = &["btrfs", "brd"];
const WITH_LOOP: &[&str] = &["btrfs", "brd", "loop"];
const NOT_LOADED: &[&str] = &["brd"];

/// A kernel that the README names.
struct Named {
    kernel: &'static str,
    image: bool,
    /// What `cowprobe check` says of it.
    inhibition: &'static str,
}

const NEWEST: Named = Named {
    kernel: "7.3",
    image: false,
    inhibition: "inline buffer, 8 slots",
};
const OLDER: Named = Named {
    kernel: "7.2",
    image: false,
    inhibition: "inline buffer, 8 slots",
};
const INLINE: Named = Named {
    kernel: "7.2.12-cow",
    image: true,
    inhibition: "inline buffer, 8 slots",
};
const XARRAY: Named = Named {
    kernel: "7.2.12-xarray",
    image: true,
    inhibition: "xarray",
};

impl Suite {
    /// What it is called, and chosen by.
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.kernel, self.what())
    }

    /// Its row in the table: its name, with the kernel that was booted.
    pub(super) fn row(&self, booted: &str) -> String {
        if booted == self.kernel {
            return self.name();
        }
        format!("{} ({booted}), {}", self.kernel, self.what())
    }

    /// What the referee is called with.
    pub(super) fn arguments(&self) -> String {
        match self.judged {
            Judged::Windows {
                windows,
                tasks,
                inhibition,
            } => {
                // Several tasks share the work, so that a guest ends in a minute or two.
                let operations = if tasks == 1 { 1000 } else { 250 };
                // A command line alone is no proof of the mode: the kernel may not know it.
                let mode = self
                    .append
                    .split(' ')
                    .find_map(|a| a.strip_prefix("preempt="));
                let preempt = mode.map_or_else(String::new, |mode| format!(" --preempt {mode}"));
                format!(
                    "windows --windows {windows} --tasks {tasks} --operations {operations} \
                     --inhibition '{inhibition}'{preempt}"
                )
            }
            Judged::Absent { told: false } => "absent --untold".to_owned(),
            Judged::Control {
                pairs,
                short: (rounds, windows),
            } => format!("control --pairs {pairs} --rounds {rounds} --windows {windows}"),
            Judged::Soak { seconds } => format!("soak --seconds {seconds}"),
            Judged::Losses => format!("losses --cpus {}", self.smp),
            judged => judged.word().to_owned(),
        }
    }

    /// How long its guest may take, in the host's time.
    pub(super) fn limit(&self) -> Duration {
        let longer = match self.judged {
            Judged::Soak { seconds } => Duration::from_secs(seconds) * 2,
            // Not more than a tenth of a second is expected.
            Judged::Control { pairs, .. } => Duration::from_millis(200) * pairs,
            _ => Duration::ZERO,
        };
        Duration::from_mins(15) + longer
    }

    fn what(&self) -> String {
        let judged = match self.judged {
            Judged::Windows { tasks: 1, .. } => "1 task".to_owned(),
            Judged::Windows { tasks, .. } => format!("{tasks} tasks"),
            Judged::Absent { told: true } => "absent functions".to_owned(),
            Judged::Absent { told: false } => "absent functions, untold misses".to_owned(),
            judged => judged.word().to_owned(),
        };
        let cpus = if self.smp > 1 {
            format!(", {} CPUs", self.smp)
        } else {
            String::new()
        };
        let append = if self.append.is_empty() { "" } else { ", " };
        format!("{judged}{cpus}{append}{}", self.append)
    }

    fn windows(windows: u32, on: &Named, (tasks, smp): (u32, u32), append: &'static str) -> Self {
        let inhibition = on.inhibition;
        Self {
            kernel: on.kernel,
            optional: on.image,
            smp,
            icount: false,
            append,
            modules: LOADED,
            judged: Judged::Windows {
                windows,
                tasks,
                inhibition,
            },
        }
    }
}

/// The suites of every run, and with `full` those that are shown once, and at more length.
pub(super) fn all(full: bool) -> Vec<Suite> {
    let plain = |kernel, modules, judged| Suite {
        kernel,
        optional: false,
        smp: 1,
        icount: false,
        append: "",
        modules,
        judged,
    };
    let (pairs, short, seconds) = if full {
        (10_000, (10, 100), 30 * 60)
    } else {
        (1000, (1, 300), 2 * 60)
    };
    let control = Judged::Control { pairs, short };
    // In each of seven boots; a window repeats the one before it.
    let of_each = if full { 10 } else { 4 };
    let windows = |on: &Named, (tasks, smp): (u32, u32), append| {
        Suite::windows(of_each, on, (tasks, smp), append)
    };
    let mut suites = vec![
        plain(NEWEST.kernel, NOT_LOADED, Judged::Faults),
        Suite {
            smp: 2,
            ..plain(NEWEST.kernel, LOADED, Judged::Together)
        },
        Suite {
            icount: true,
            ..plain(NEWEST.kernel, LOADED, Judged::Latency)
        },
        plain(NEWEST.kernel, LOADED, control),
        plain(NEWEST.kernel, LOADED, Judged::Losses),
        Suite {
            smp: 2,
            ..plain(NEWEST.kernel, LOADED, Judged::Losses)
        },
        plain(NEWEST.kernel, LOADED, Judged::Whose),
        plain(NEWEST.kernel, WITH_LOOP, Judged::Scope),
        plain(NEWEST.kernel, LOADED, Judged::Checkpoint),
        plain(NEWEST.kernel, WITH_LOOP, Judged::Bench),
        plain(NEWEST.kernel, WITH_LOOP, Judged::Evidence),
        plain(NEWEST.kernel, LOADED, Judged::Terminal),
        Suite {
            append: "lockdown=confidentiality",
            ..plain(NEWEST.kernel, LOADED, Judged::Lockdown)
        },
        plain(NEWEST.kernel, LOADED, Judged::Verdicts),
        plain("6.12", LOADED, Judged::Absent { told: true }),
        // Linux tells what probes miss since 6.7.
        plain("6.1", LOADED, Judged::Absent { told: false }),
    ];
    for kernel in [&NEWEST, &OLDER, &INLINE, &XARRAY] {
        suites.push(windows(kernel, (1, 1), ""));
    }
    suites.extend([
        windows(&NEWEST, (6, 1), "preempt=lazy"),
        windows(&NEWEST, (6, 1), "preempt=full"),
        windows(&NEWEST, (6, 2), ""),
    ]);
    // The longest comes last.
    let soak = plain(NEWEST.kernel, LOADED, Judged::Soak { seconds });
    if full {
        for kernel in [&NEWEST, &OLDER] {
            for mode in ["preempt=lazy", "preempt=full"] {
                suites.extend([1, 2].map(|smp| windows(kernel, (6, smp), mode)));
            }
        }
        // Built without PREEMPT_DYNAMIC: always lazy.
        for kernel in [&INLINE, &XARRAY] {
            suites.extend([1, 2].map(|smp| windows(kernel, (6, smp), "")));
        }
        let mut seen = Vec::new();
        suites.retain(|suite| {
            let new = !seen.contains(suite);
            seen.push(suite.clone());
            new
        });
    }
    suites.push(soak);
    suites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let suites = all(true);
        let names: std::collections::HashSet<_> = suites.iter().map(Suite::name).collect();
        assert_eq!(names.len(), suites.len());
        assert!(all(false).iter().all(|s| names.contains(&s.name())));
        assert!(names.contains("7.3, 6 tasks, preempt=full"), "{names:?}");
    }

    #[test]
    fn a_row_has_the_kernel_that_was_booted() {
        let suite = Suite::windows(1, &NEWEST, (6, 2), "preempt=full");
        assert_eq!(
            suite.row("7.3.4+deb13-cloud-amd64"),
            "7.3 (7.3.4+deb13-cloud-amd64), 6 tasks, 2 CPUs, preempt=full"
        );
        let image = Suite::windows(1, &XARRAY, (1, 1), "");
        assert_eq!(image.row("7.2.12-xarray"), "7.2.12-xarray, 1 task");
        assert_eq!(image.row("7.2.12-xarray"), image.name());
    }

    #[test]
    fn the_referee_is_told_the_mode_that_the_kernel_is_told() {
        for suite in all(true) {
            let mode = suite.append.strip_prefix("preempt=");
            let told = suite.arguments();
            let told = told.split_once(" --preempt ").map(|(_, mode)| mode);
            assert_eq!(told, mode, "{}", suite.name());
        }
    }
}
