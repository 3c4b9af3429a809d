//! Runs in a guest: puts cowprobe beside two referees that count the same calls
//! by other means, and provokes the faults that a user can.
//!
//! Prints first `plan N`, so that a check which never ran is missed, and then a
//! line for each of the N checks, `ok NAME: DETAIL` or `not ok NAME: WHY`; what
//! keeps it from the rest is `error WHY`. The exit status is 0 if all N are ok.
//! Shares no code with cowprobe.

mod absent;
mod attached;
mod bench;
mod bpftrace;
mod bundle;
mod checkpoint;
mod client;
mod clone;
mod control;
mod cowprobe;
mod evidence;
mod examples;
mod faults;
mod filesystem;
mod interrupts;
mod kprobe_profile;
mod latency;
mod lockdown;
mod losses;
mod map_operations;
mod others;
mod overhead;
mod overlay;
mod preemption;
mod privileges;
mod referees;
mod report;
mod scope;
mod soak;
mod startup;
mod symbols;
mod terminal;
mod together;
mod verdicts;
mod whose;
mod windows;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use filesystem::Load;
use report::Report;

/// The functions that are refereed, in the order of cowprobe's own table.
const FUNCTIONS: [&str; 3] = [
    "btrfs_remap_file_range",
    "btrfs_inhibit_eb_writeback",
    "btrfs_uninhibit_all_eb_writeback",
];

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Subcommand)]
enum Suite {
    /// Counts windows of known size, beside both referees
    Windows {
        #[arg(long)]
        windows: u32,
        /// Workloads at the same time
        #[arg(long, default_value_t = 1)]
        tasks: u32,
        /// Clones, and dedupes, of each workload
        #[arg(long, default_value_t = 1000)]
        operations: u32,
        /// What `cowprobe check` must say of the inhibition
        #[arg(long)]
        inhibition: String,
        /// The mode of preemption that must be live
        #[arg(long, value_name = "MODE")]
        preempt: Option<String>,
    },
    /// A kernel that lacks two of the three functions
    Absent {
        /// The kernel does not tell what probes miss: then verdicts, too
        #[arg(long)]
        untold: bool,
    },
    /// Verdicts and exit statuses
    Verdicts,
    /// Beside another cowprobe, nested, and with a CPU that goes away
    Together,
    /// What goes wrong in a user's hands; btrfs must not be loaded yet
    Faults,
    /// Losses on purpose
    Losses {
        #[arg(long)]
        cpus: u32,
    },
    /// At full rate for a long time
    Soak {
        #[arg(long)]
        seconds: u64,
    },
    /// What runs in it
    SoakLoad {
        #[arg(long)]
        seconds: u64,
    },
    /// Map operations without an end
    MapOperations,
    /// Who executed the calls
    Whose,
    /// A benchmark whose numbers follow
    Bench,
    /// What a record and a bundle say, computed again
    Evidence,
    /// Records of runs that are not over
    Checkpoint,
    /// On which filesystem they were
    Scope,
    /// One clone
    CloneOnce,
    /// Calls in interrupts and in a task
    InterruptsLoad,
    /// Windows that a client opens and closes
    Control(control::Much),
    /// Such a client
    Client {
        scenario: client::Scenario,
        /// Where it has many
        #[arg(long, default_value_t = 0)]
        windows: usize,
    },
    /// What `cowprobe watch` draws on a terminal that is resized
    Terminal,
    /// Under lockdown=confidentiality
    Lockdown,
    /// Times that must agree with bpftrace's; the clock must count instructions
    Latency,
    /// Figures of starting and ending, beside bpftrace
    Startup {
        #[arg(long)]
        runs: u32,
    },
    /// Figures of what a hit costs; the clock must count instructions
    Overhead,
    /// The command that tells when it runs
    Stamp,
    /// The loop that tells what a pair of probes costs
    Umask,
    /// A command whose clones all fail
    FailingClones,
    /// The command that is counted in a window
    Work {
        #[arg(long)]
        tasks: u32,
        #[arg(long)]
        operations: u32,
    },
}

fn main() -> ExitCode {
    let mut report = Report::default();
    let result = match Cli::parse().suite {
        Suite::Windows {
            windows,
            tasks,
            operations,
            inhibition,
            preempt,
        } => {
            let load = Load { tasks, operations };
            let preempt = preempt.as_deref();
            windows::run(&mut report, windows, load, &inhibition, preempt)
        }
        Suite::Absent { untold } => absent::run(&mut report, !untold),
        Suite::Verdicts => verdicts::run(&mut report),
        Suite::Together => together::run(&mut report),
        Suite::Losses { cpus } => losses::run(&mut report, cpus),
        Suite::Soak { seconds } => soak::run(&mut report, seconds),
        Suite::SoakLoad { seconds } => return work(soak::load(seconds)),
        Suite::MapOperations => return work(map_operations::run()),
        Suite::Whose => whose::run(&mut report),
        Suite::Bench => bench::run(&mut report),
        Suite::Evidence => evidence::run(&mut report),
        Suite::Checkpoint => checkpoint::run(&mut report),
        Suite::Scope => scope::run(&mut report),
        Suite::CloneOnce => return work(whose::clone_once()),
        Suite::InterruptsLoad => return work(interrupts::load()),
        Suite::Control(much) => control::run(&mut report, much),
        Suite::Client { scenario, windows } => return work(client::run(scenario, windows)),
        Suite::Terminal => terminal::run(&mut report),
        Suite::Lockdown => {
            lockdown::run(&mut report);
            Ok(())
        }
        Suite::Latency => latency::run(&mut report),
        Suite::Startup { runs } => return work(startup::run(runs)),
        Suite::Overhead => return work(overhead::run()),
        Suite::Stamp => return work(startup::stamp()),
        Suite::Umask => return work(latency::umask()),
        Suite::Faults => {
            faults::run(&mut report);
            Ok(())
        }
        Suite::Work { tasks, operations } => {
            return work(windows::work(Load { tasks, operations }));
        }
        Suite::FailingClones => return work(faults::failing_clones()),
    };
    report.finish(result)
}

/// How a command ends that is counted, and checks nothing.
fn work(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("referee: {error:#}");
            ExitCode::FAILURE
        }
    }
}
