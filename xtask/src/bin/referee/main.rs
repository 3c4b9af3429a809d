//! Runs in a guest: puts cowprobe beside two referees that count the same calls
//! by other means, and provokes the faults that a user can.
//!
//! Prints a line for each check, `ok NAME`, `not ok NAME: WHY` or `skip NAME:
//! WHY`, and in the end `plan N`, so that a check which never ran is missed.
//! Shares no code with cowprobe.

mod absent;
mod attached;
mod bpftrace;
mod cowprobe;
mod faults;
mod filesystem;
mod kprobe_profile;
mod referees;
mod report;
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
        #[arg(long, default_value_t = 10)]
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
    },
    /// A kernel that lacks two of the three functions
    Absent,
    /// What goes wrong in a user's hands; btrfs must not be loaded yet
    Faults,
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
        } => {
            let load = Load { tasks, operations };
            windows::run(&mut report, windows, load, &inhibition)
        }
        Suite::Absent => absent::run(&mut report),
        Suite::Faults => faults::run(&mut report),
        Suite::Work { tasks, operations } => {
            return match windows::work(Load { tasks, operations }) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("referee work: {error:#}");
                    ExitCode::FAILURE
                }
            };
        }
    };
    report.finish(result)
}
