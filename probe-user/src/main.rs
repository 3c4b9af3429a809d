//! `cowprobe`: counts btrfs' writeback inhibition on a running kernel, beside a
//! benchmark.
//!
//! Exit status: that of the command that `run` ran, if it failed (127 not found,
//! 126 not executable, 128 + n by signal n); else 1 if a required target or
//! another gate failed; 2 if cowprobe itself could not run; else 0.

mod cli;
mod command;
mod evidence;
mod kernel;
mod model;
mod stats;
mod view;
mod wording;
mod workload;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return command::usage_error(&error),
    };
    match command::execute(cli.command) {
        Ok(code) => code,
        Err(error) => {
            command::say(wording::causes(&error));
            ExitCode::from(command::COULD_NOT_RUN)
        }
    }
}
