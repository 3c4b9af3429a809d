//! The command line. Each flag is described here and nowhere else.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    Check,
    /// Hold CMD, attach, release it, count while it runs, report
    Run(RunArgs),
    /// Run a workload of known size
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Write the record, a JSON document, to FILE
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The command to run, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Clone and dedupe 4 KiB ranges one by one, every result checked
    Remap(RemapArgs),
}

#[derive(Args, Debug)]
pub(crate) struct RemapArgs {
    /// A directory on a mounted btrfs; three files cowprobe-remap.* are written
    /// there
    pub(crate) dir: PathBuf,
    /// Ranges to clone, and ranges to dedupe
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) operations: u32,
    /// What to do to each range
    #[arg(long, value_enum, default_value_t)]
    pub(crate) operation: Operation,
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
