//! What the user asked for: wires the other rooms together, prints, and decides
//! the exit status.

mod bench;
mod check;
mod held;
mod run;
mod survey;
mod written;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use crate::cli::{Bench, Command};

/// A required target, or another gate, failed.
pub(crate) const GATE_FAILED: u8 = 1;
/// cowprobe itself could not run.
pub(crate) const COULD_NOT_RUN: u8 = 2;

/// Does what the command line says.
pub(crate) fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check => check::check(&mut io::stdout().lock()),
        Command::Run(args) => run::run(&args),
        Command::Bench(Bench::Remap(args)) => bench::remap(&args, &mut io::stdout().lock()),
    }
}

/// Prints help where it was asked for, else what is wrong in one line.
pub(crate) fn usage_error(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is no failure of ours.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    // clap's first paragraph says what is wrong; usage and hints follow it.
    let what = text.split("\n\n").next().unwrap_or_default();
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    eprintln!("cowprobe: {what}; see 'cowprobe --help'");
    ExitCode::from(COULD_NOT_RUN)
}

/// Writes to standard output; a reader that went away is no failure of ours.
fn put(out: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}
