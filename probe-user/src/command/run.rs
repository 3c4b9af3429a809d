//! `cowprobe run`: counts while a command runs.
//!
//! The order is the point: the record's file is opened, the command is held, the
//! probes are attached and the window is opened before the command is released;
//! the window is closed after the command has ended.

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt as _,
    process::{ExitCode, ExitStatus},
};

use anyhow::{Context as _, bail};
use tokio::{
    process::Child,
    signal::unix::{Signal, SignalKind, signal},
};

use super::{
    COULD_NOT_RUN, GATE_FAILED,
    held::Held,
    survey::Survey,
    written::{Run, record},
};
use crate::{
    cli::RunArgs,
    evidence::{Output, warnings},
    kernel::{Edge, Presence, Probes},
    model::{Need, TARGETS, Window},
    view::totals_table,
    wording::{self, plain},
};

/// What to do where btrfs is a module and not loaded.
pub(super) const NOT_LOADED: &str = "btrfs is not loaded; run 'modprobe btrfs' first";

/// How the command ended.
#[derive(Debug)]
pub(super) enum End {
    Ended(ExitStatus),
    NotStarted(io::Error),
}

impl End {
    /// The exit status that a shell would give for the command.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Ended(status) => match (status.code(), status.signal()) {
                (Some(code), _) => u8::try_from(code).expect("an exit status is a byte"),
                (None, signal) => 128 + u8::try_from(signal.unwrap_or(0)).unwrap_or(0),
            },
            Self::NotStarted(error) if error.kind() == io::ErrorKind::NotFound => 127,
            Self::NotStarted(_) => 126,
        }
    }
}

/// Runs the command under the probes. The table goes to standard error: standard
/// output is the command's.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref().map(Output::open).transpose()?;
    let survey = Survey::take()?;
    if !survey.btrfs && survey.presence.iter().all(|p| *p == Presence::Absent) {
        bail!(NOT_LOADED);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    let (end, window, wall_ns) = runtime.block_on(measure(&args.command, &survey))?;

    let mut causes = Vec::new();
    match &end {
        End::NotStarted(error) => {
            let program = args.command[0].display();
            causes.push(format!("cannot run {program}: {}", plain(error)));
        }
        End::Ended(status) if !status.success() => causes.push(format!("the command: {status}")),
        End::Ended(_) => {}
    }
    if let Some(window) = &window {
        eprint!("\n{}", totals_table(&TARGETS, &survey.presence, window));
        causes.extend(failed_gates(&survey, window));
    }
    let warnings = window
        .as_ref()
        .map(|w| warnings(&TARGETS, w))
        .unwrap_or_default();
    for warning in &warnings {
        eprintln!("cowprobe: warning: {warning}");
    }
    let code = match (end.code(), causes.is_empty()) {
        (0, true) => 0,
        (0, false) => GATE_FAILED,
        (code, _) => code,
    };
    for cause in &causes {
        eprintln!("cowprobe: {cause}");
    }
    if let Some(output) = output {
        let run = Run {
            argv: &args.command,
            end: &end,
            wall_ns,
            window: window.as_ref(),
            code,
            causes,
            warnings,
        };
        let text = serde_json::to_string_pretty(&record(&survey, run)).expect("plain data");
        if let Err(error) = output.commit(&(text + "\n")) {
            eprintln!("cowprobe: {}", wording::causes(&error));
            // The command's own failure still wins.
            let code = if end.code() == 0 {
                COULD_NOT_RUN
            } else {
                end.code()
            };
            return Ok(ExitCode::from(code));
        }
    }
    Ok(ExitCode::from(code))
}

/// What a required target lacks.
fn failed_gates(survey: &Survey, window: &Window) -> Vec<String> {
    let here = TARGETS.iter().zip(&survey.presence).zip(&window.counts);
    here.filter(|((target, _), _)| target.need == Need::Required)
        .filter_map(|((target, presence), counts)| match counts {
            Some(_) => None,
            None if *presence == Presence::Absent => Some(format!(
                "required target {} is absent from this kernel",
                target.symbol
            )),
            None => Some(format!(
                "required target {}: its counters went backwards",
                target.symbol
            )),
        })
        .collect()
}

/// Holds, attaches, releases, waits; returns the command's end and, if it ran, the
/// window around it and its own time.
async fn measure(argv: &[OsString], survey: &Survey) -> anyhow::Result<(End, Option<Window>, u64)> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let held = Held::hold(argv).context("cannot fork for the command")?;
    let probes = Probes::attach(&survey.available())?;
    let before = probes.snapshot(Edge::Open)?;
    let mut child = match held.release().await {
        Ok(child) => child,
        Err(error) => return Ok((End::NotStarted(error), None, 0)),
    };
    let status = signals.wait(&mut child).await?;
    let after = probes.snapshot(Edge::Close)?;
    let window = Window::between(&before, &after);
    let wall_ns = window.length_ns();
    Ok((End::Ended(status), Some(window), wall_ns))
}

/// The signals that must not end us before the report.
struct Signals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the child. What a terminal sends goes to the child by itself;
    /// TERM and HUP, sent to us alone, are passed on.
    async fn wait(&mut self, child: &mut Child) -> anyhow::Result<ExitStatus> {
        loop {
            let pass_on = tokio::select! {
                status = child.wait() => return status.context("cannot wait for the command"),
                _ = self.interrupt.recv() => continue,
                _ = self.quit.recv() => continue,
                _ = self.terminate.recv() => libc::SIGTERM,
                _ = self.hangup.recv() => libc::SIGHUP,
            };
            if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                // SAFETY: kill(2) has no condition; the child has not been waited for.
                unsafe { libc::kill(pid, pass_on) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_end_becomes_an_exit_status() {
        let from_errno = io::Error::from_raw_os_error;
        for (end, code) in [
            (End::Ended(ExitStatus::from_raw(0)), 0),
            (End::Ended(ExitStatus::from_raw(7 << 8)), 7),
            (End::Ended(ExitStatus::from_raw(255 << 8)), 255),
            (End::Ended(ExitStatus::from_raw(libc::SIGKILL)), 137),
            (End::Ended(ExitStatus::from_raw(libc::SIGSEGV | 0x80)), 139),
            (End::NotStarted(from_errno(libc::ENOENT)), 127),
            (End::NotStarted(from_errno(libc::EACCES)), 126),
            (End::NotStarted(from_errno(libc::ENOEXEC)), 126),
        ] {
            assert_eq!(end.code(), code, "{end:?}");
        }
    }
}
