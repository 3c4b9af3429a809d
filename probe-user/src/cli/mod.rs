//! The command line. Each flag is described here and nowhere else.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

mod values;

pub(crate) use values::{ControlPlace, Delay};
use values::{delay, device, fsid, label, person, range_bytes, seconds};

use crate::workload::{Device, SECTOR_BYTES};

/// Counts btrfs' writeback inhibition on the running kernel, beside a benchmark.
#[derive(Debug, Parser)]
#[command(name = "cowprobe", version, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what this kernel and this user allow; leave nothing attached
    Check(CheckArgs),
    /// Hold CMD, attach, release it, count while it runs, report
    Run(RunArgs),
    /// Show live tables until Ctrl-C or for --duration, then totals
    Watch(WatchArgs),
    /// Print what a record or a folder says, for a mail to a list
    Report(ReportArgs),
    /// Compute the tables and the record of a folder again
    Verify(VerifyArgs),
    /// Run a workload of known size
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\
\x20 cowprobe check\n\
\x20 cowprobe check --probe btrfs:btrfs_clone --json")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    /// Write a JSON document instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is probed beside the three.
#[derive(Args, Clone, Debug)]
pub(crate) struct TargetArgs {
    /// Probe another function, too; up to 32 times
    #[arg(long, value_name = "[MODULE:]SYMBOL")]
    pub(crate) probe: Vec<String>,
    /// Fail if this target is absent (the three and those of --probe are
    /// required)
    #[arg(long, value_name = "TARGET")]
    pub(crate) required: Vec<String>,
    /// Do without this target if it is absent
    #[arg(long, value_name = "TARGET")]
    pub(crate) diagnostic: Vec<String>,
    /// How many calls of one function can be under way at once; one more is
    /// counted and not timed
    #[arg(long, value_name = "N", default_value_t = probe_ebpf::STARTS,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(probe_ebpf::STARTS)))]
    pub(crate) max_in_flight: u32,
    /// How to probe: auto takes what serves the command best, today always
    /// kprobe
    #[arg(long, value_enum, default_value_t, value_name = "HOOK")]
    pub(crate) hook: Hook,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hook {
    /// What serves the command best
    #[default]
    Auto,
    /// A kprobe and a kretprobe: never preempted, so no hit is lost unseen
    Kprobe,
}

/// What a count must be worth.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct JudgeArgs {
    /// Do not fail where a required target's count is INEXACT; it stays so in
    /// every output
    #[arg(long)]
    pub(crate) allow_inexact: bool,
    /// Fail where a required target's count is UNPROVEN
    #[arg(long)]
    pub(crate) strict: bool,
    /// Fail unless this comes true, such as remap==2000, uninhibit<=2030,
    /// clone==1000, remap==1990..2010 or inhibit/remap<=3.9; a name may be
    /// one word of a target's
    #[arg(long, value_name = "EXPECTATION")]
    pub(crate) expect: Vec<String>,
}

/// What part of the calls is meant, and whose they are.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ScopeArgs {
    /// Count the calls on the btrfs at PATH alone; it may be mounted later
    #[arg(long, value_name = "PATH")]
    pub(crate) mount: Vec<PathBuf>,
    /// Count the calls on this btrfs alone, wherever it is mounted
    #[arg(long, value_name = "UUID", value_parser = fsid)]
    pub(crate) fsid: Vec<String>,
    /// Take these processes and all that they fork for the workload
    #[arg(
        short,
        long,
        value_name = "PID",
        value_delimiter = ',',
        conflicts_with = "cgroup"
    )]
    pub(crate) pid: Vec<u32>,
    /// Take the tasks in this cgroup, and below it, for the workload
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
}

/// Of a run whose command is a benchmark of ours.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct BenchedArgs {
    /// CMD is the words of a 'cowprobe bench': time its loops without probes, then
    /// run it again and count them
    #[arg(long, conflicts_with_all = ["control", "delay"])]
    pub(crate) bench: bool,
    /// Keep the times of the counted loops, too, marked as no evidence
    #[arg(long, requires = "bench")]
    pub(crate) probed_times: bool,
}

#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("written").args(["output", "bundle"]).multiple(true))]
#[command(after_help = "Examples:\n\
\x20 cowprobe run -o record.json -- cowprobe bench remap /mnt\n\
\x20 cowprobe run --mount /mnt --expect remap==2000 -- cowprobe bench remap /mnt\n\
\x20 cowprobe run --bench --bundle evidence -- remap --rounds 3 -n 1000 /mnt")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    /// Wait until btrfs is there before CMD is started
    #[arg(long)]
    pub(crate) wait_for_module: bool,
    /// Take orders as perf stat does (enable, disable, ping, snapshot, stop),
    /// and answer them: fifo:CTL[,ACK] or fd:CTL[,ACK]
    #[arg(long, value_name = "fifo:CTL[,ACK]", value_parser = ControlPlace::parse)]
    pub(crate) control: Option<ControlPlace>,
    /// Begin to count after so many milliseconds; -1: when 'enable' is ordered
    #[arg(short = 'D', long, value_name = "MS", default_value = "0",
          hide_default_value = true, allow_negative_numbers = true, value_parser = delay)]
    pub(crate) delay: Delay,
    /// Write a line break to descriptor N when all is attached, and close it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) ready_fd: Option<i32>,
    /// Write the record, a JSON document, to FILE
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write what was counted until then to FILE each time so many seconds are over,
    /// as a record with "complete": false
    #[arg(long, value_name = "SECS", value_parser = seconds, requires = "output")]
    pub(crate) checkpoint: Option<Duration>,
    /// Write a folder DIR that 'verify' and 'report' read: the record, what CMD
    /// printed, tables in the columns of the public evidence, SHA-256 sums
    #[arg(long, value_name = "DIR")]
    pub(crate) bundle: Option<PathBuf>,
    /// Take the lines of FILE (field, tab, value) into source-identity.tsv
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub(crate) identity: Option<PathBuf>,
    /// What the tables of the folder call this kernel
    #[arg(long, value_name = "NAME", requires = "bundle", default_value = "run",
          value_parser = label)]
    pub(crate) label: String,
    #[command(flatten)]
    pub(crate) benched: BenchedArgs,
    /// Write the machine's name into the record, too
    #[arg(long, requires = "written")]
    pub(crate) with_host_name: bool,
    /// The command to run, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\
\x20 cowprobe watch --duration 3\n\
\x20 cowprobe watch -I 200 --duration 1 --json")]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    /// Wait until btrfs is there
    #[arg(long)]
    pub(crate) wait_for_module: bool,
    /// Time between two tables
    #[arg(short = 'I', long, value_name = "MS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(10..=86_400_000))]
    pub(crate) interval: u64,
    /// Write a line break to descriptor N when all is attached, and close it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) ready_fd: Option<i32>,
    /// End by itself after so long
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Also show how the times of this target are distributed
    #[arg(long, value_name = "TARGET")]
    pub(crate) hist: Option<String>,
    /// Write a JSON document a line instead of tables
    #[arg(long, conflicts_with = "hist")]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\
\x20 cowprobe report record.json\n\
\x20 cowprobe report --format markdown evidence")]
pub(crate) struct ReportArgs {
    /// A record, or a folder as of --bundle
    pub(crate) path: PathBuf,
    /// How to write it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// End with this name, unless a gate failed
    #[arg(long, value_name = "NAME <MAIL>", value_parser = person)]
    pub(crate) tested_by: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// At most 72 columns of ASCII
    #[default]
    Mail,
    /// For a web page
    Markdown,
    /// A row for each value
    Tsv,
    /// One document, cowprobe-report-1
    Json,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\
\x20 cowprobe verify evidence")]
pub(crate) struct VerifyArgs {
    /// A folder with record.json, rounds.tsv or the tables that follow from them
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Clone and dedupe ranges one by one, every result checked
    Remap(RemapArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\
\x20 cowprobe bench remap --prepare /mnt\n\
\x20 cowprobe bench remap --prepared /mnt\n\
\x20 cowprobe bench remap --rounds 3 -n 1000 --cpu 0 --tsv rounds.tsv /mnt")]
pub(crate) struct RemapArgs {
    /// A directory on a mounted btrfs; three files cowprobe-remap.* are written
    /// there
    #[arg(required_unless_present = "device", conflicts_with = "device")]
    pub(crate) dir: Option<PathBuf>,
    /// Make a btrfs on this device of brd or zram, or in a new file, and mount it
    /// while it runs. What is on the device is lost
    #[arg(long, value_name = "/dev/ramN|new:SIZE", value_parser = device,
          conflicts_with_all = ["prepare", "prepared"])]
    pub(crate) device: Option<Device>,
    /// Ranges to clone, and ranges to dedupe; 1000, with --rounds 10000
    #[arg(short = 'n', long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) operations: Option<u32>,
    /// How long a range is: 4096 or a multiple
    #[arg(long, value_name = "BYTES", default_value_t = SECTOR_BYTES, value_parser = range_bytes)]
    pub(crate) range_bytes: u32,
    /// What to do to each range
    #[arg(long, value_enum, default_value_t)]
    pub(crate) operation: Operation,
    /// Time N rounds, each with fresh files that are removed after it
    #[arg(long, value_name = "N", conflicts_with_all = ["prepare", "prepared"],
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: Option<u32>,
    /// Write the rounds to FILE, a line each, separated by tabs
    #[arg(long, value_name = "FILE", requires = "rounds")]
    pub(crate) tsv: Option<PathBuf>,
    /// Do N more rounds before, which are neither shown nor counted
    #[arg(long, value_name = "N", requires = "rounds", default_value_t = 0,
          hide_default_value = true, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub(crate) warmup: u32,
    /// Stay on this CPU
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
    /// Have each timed loop counted, and nothing else, by who reads CTL and
    /// answers: cowprobe run --control, or perf stat
    #[arg(long, value_name = "fifo:CTL,ACK", requires = "rounds",
          value_parser = ControlPlace::parse)]
    pub(crate) control: Option<ControlPlace>,
    /// Show times though the functions are probed, and mark them as no evidence
    #[arg(long, requires = "rounds")]
    pub(crate) probed_times: bool,
    /// Only write and sync the files that a run needs
    #[arg(long, conflicts_with = "prepared")]
    pub(crate) prepare: bool,
    /// Take the files that --prepare left, so that nothing but the operations
    /// runs
    #[arg(long)]
    pub(crate) prepared: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// `FICLONERANGE` alone
    Clone,
    /// `FIDEDUPERANGE` alone
    Dedupe,
    /// All clones, then all dedupes
    #[default]
    Both,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_command_belongs_to_it() {
        let cli = Cli::try_parse_from(["cowprobe", "run", "-o", "r.json", "--", "sh", "-c", "x"]);
        let Command::Run(run) = cli.expect("parses").command else {
            panic!("not run");
        };
        assert_eq!(run.command, ["sh", "-c", "x"]);
        assert_eq!(run.output, Some(PathBuf::from("r.json")));
        let cli = Cli::try_parse_from(["cowprobe", "run", "ls", "-o", "x", "--help"]);
        let Command::Run(run) = cli.expect("parses").command else {
            panic!("not run");
        };
        assert_eq!(run.command, ["ls", "-o", "x", "--help"]);
        assert_eq!(run.output, None);
    }
}
