//! What the user asked for: wires the other rooms together, prints, and decides
//! the exit status.

mod bench;
mod benched;
mod cgroup;
mod check;
mod checkpoint;
mod control;
mod counting;
mod expected;
mod footing;
mod held;
mod measure;
mod orders;
mod ready;
mod report;
mod run;
mod say;
mod scope;
mod signals;
mod survey;
mod targets;
mod tee;
mod verify;
mod watch;
mod workload;
mod written;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;

use crate::{
    cli::{Bench, Command, JudgeArgs},
    evidence::Gate,
};

pub(crate) use say::say;

/// A required target, or another gate, failed.
pub(crate) const GATE_FAILED: u8 = 1;
/// cowprobe itself could not run.
pub(crate) const COULD_NOT_RUN: u8 = 2;

/// Does what the command line says.
pub(crate) fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check(args) => check::check(&args, &mut io::stdout().lock()),
        Command::Run(args) => run::run(args),
        Command::Watch(args) => watch::watch(&args),
        Command::Report(args) => report::report(&args, &mut io::stdout().lock()),
        Command::Verify(args) => verify::verify(&args, &mut io::stdout().lock()),
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
    say(usage(error));
    ExitCode::from(COULD_NOT_RUN)
}

/// What is wrong with a command line.
fn usage(error: &clap::Error) -> String {
    let text = error.to_string();
    // clap's first paragraph says what is wrong; usage and hints follow it.
    let what = text.split("\n\n").next().unwrap_or_default();
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    format!("{what}; see 'cowprobe --help'")
}

/// What a terminal sends goes to a child by itself; TERM and HUP do not.
fn pass_on(child: &tokio::process::Child, signal: i32) {
    let to = child.id().and_then(|pid| i32::try_from(pid).ok());
    if let (Some(pid), libc::SIGTERM | libc::SIGHUP) = (to, signal) {
        // SAFETY: kill(2) has no condition; the child has not been waited for.
        unsafe { libc::kill(pid, signal) };
    }
}

/// What the command line lets pass.
fn gate(args: &JudgeArgs) -> Gate {
    Gate {
        allow_inexact: args.allow_inexact,
        strict: args.strict,
    }
}

/// One thread is enough: the work is the kernel's.
fn event_loop() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // The thread that forks for a command has the capabilities that this one gives up.
        .thread_keep_alive(Duration::ZERO)
        .build()
        .context("cannot start the event loop")
}

/// Writes to standard output; a reader that went away is no failure of ours.
fn put(out: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(e).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
