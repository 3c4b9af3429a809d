//! `cowprobe run`: counts while a command runs.
//!
//! The order is the point: the record's file is tried, the command is held, the
//! probes are attached and the window is opened before the command is released;
//! the window is closed after the command has ended.

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{ExitCode, ExitStatus},
};

use anyhow::{Context as _, bail};
use tokio::process::Child;

use super::{
    COULD_NOT_RUN, GATE_FAILED, event_loop,
    footing::Footing,
    held::Held,
    say::{print, remark, say},
    signals::Signals,
    survey::{Edges, Plan, Survey},
    targets::targets,
    written::{Run, record},
};
use crate::{
    cli::RunArgs,
    evidence::{Findings, Output},
    kernel::monotonic_ns,
    view::{times_table, totals_table},
    wording::{self, plain},
};

/// How the command ended.
#[derive(Debug)]
pub(super) enum End {
    Ended(ExitStatus),
    NotStarted(io::Error),
    /// A signal came while it was held.
    Withheld(i32),
}

impl End {
    /// The exit status that a shell would give for the command.
    pub(super) fn code(&self) -> u8 {
        let by_signal = |signal: i32| 128 + u8::try_from(signal).unwrap_or(0);
        match self {
            Self::Ended(status) => match status.code() {
                Some(code) => u8::try_from(code).expect("an exit status is a byte"),
                None => by_signal(status.signal().unwrap_or(0)),
            },
            Self::NotStarted(error) if error.kind() == io::ErrorKind::NotFound => 127,
            Self::NotStarted(_) => 126,
            Self::Withheld(signal) => by_signal(*signal),
        }
    }

    /// Why its status is not 0, if it is not.
    fn cause(&self, argv: &[OsString]) -> Option<String> {
        let program = argv[0].display();
        match self {
            Self::Ended(status) if status.success() => None,
            Self::Ended(status) => Some(format!("the command: {status}")),
            Self::NotStarted(error) => {
                let advice = advice(argv[0].as_ref(), error);
                Some(format!("cannot run {program}: {}{advice}", plain(error)))
            }
            Self::Withheld(signal) => {
                Some(format!("signal {signal} came before {program} was started"))
            }
        }
    }
}

/// What to do about a program that cannot be started.
fn advice(program: &Path, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied if program.is_file() => {
            "; make it executable with chmod +x"
        }
        io::ErrorKind::NotFound if program.is_file() => "; look at its first line, #!",
        io::ErrorKind::NotFound => "; give its path, or look at PATH",
        _ => "",
    }
}

/// What came of a run.
struct Measured {
    end: End,
    /// The command's own time.
    wall_ns: u64,
    /// Of the window, if one was opened.
    edges: Option<anyhow::Result<Edges>>,
}

/// Runs the command under the probes. The table goes to standard error: standard
/// output is the command's.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref().map(Output::open).transpose()?;
    let mut plan = Plan::make(targets(&args.targets)?, args.wait_for_module)?;
    let measured = event_loop()?.block_on(measure(&args.command, &mut plan))?;
    let survey = Survey::of(&plan)?;
    let Measured {
        end,
        wall_ns,
        edges,
    } = measured;
    let (window, found) = match edges {
        None => (None, Findings::default()),
        Some(Ok(edges)) => {
            let (window, found) = survey.judged(&edges);
            (Some(window), found)
        }
        // The command's status and the record are worth more than an early end.
        Some(Err(error)) => {
            let causes = vec![wording::causes(&error)];
            let warnings = Vec::new();
            (None, Findings { causes, warnings })
        }
    };
    let Findings {
        mut causes,
        warnings,
    } = found;
    causes.splice(0..0, end.cause(&args.command));
    let code = match (end.code(), causes.is_empty()) {
        (0, true) => 0,
        (0, false) => GATE_FAILED,
        (code, _) => code,
    };
    // Before anything is said: a reader that goes away costs no record.
    let written = output.map(|output| {
        let run = Run {
            argv: &args.command,
            end: &end,
            wall_ns,
            window: window.as_ref(),
            code,
            causes: causes.clone(),
            warnings: warnings.clone(),
        };
        let text = serde_json::to_string_pretty(&record(&survey, run)).expect("plain data");
        output.commit(&(text + "\n"))
    });
    if let Some(window) = &window {
        print("\n");
        print(&totals_table(&survey.targets, &survey.presence, window));
        print("\n");
        print(&times_table(&survey.targets, &survey.presence, window));
    }
    for warning in &warnings {
        remark(format_args!("warning: {warning}"));
    }
    for cause in &causes {
        // What stands under a table is pasted with it; a run without one is one line.
        match window {
            Some(_) => remark(cause),
            None => say(cause),
        }
    }
    if let Some(Err(error)) = written {
        say(wording::causes(&error));
        // The command's own failure still wins.
        let code = if end.code() == 0 { COULD_NOT_RUN } else { code };
        return Ok(ExitCode::from(code));
    }
    Ok(ExitCode::from(code))
}

/// Holds, attaches, releases, waits.
async fn measure(argv: &[OsString], plan: &mut Plan) -> anyhow::Result<Measured> {
    let without_window = |end| Measured {
        end,
        wall_ns: 0,
        edges: None,
    };
    let mut signals =
        Signals::listen_unless_ignored(&[libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP])
            .context("cannot listen for signals")?;
    let held = Held::hold(argv)
        .await
        .context("cannot fork for the command")?;
    let mut probes = plan.attach()?;
    let footing = Footing::read(&plan.presence);
    if let Some(refusal) = footing.refusal() {
        bail!(refusal);
    }
    let open = probes.open()?;
    if let Some(signal) = signals.pending().await {
        return Ok(without_window(End::Withheld(signal)));
    }
    let released_ns = monotonic_ns();
    let mut child = match held.release().await {
        Ok(child) => child,
        Err(error) => return Ok(without_window(End::NotStarted(error))),
    };
    let status = wait(&mut child, &mut signals).await;
    let status = status.context("cannot wait for the command")?;
    let wall_ns = monotonic_ns() - released_ns;

    let edges = probes.close().map(|close| Edges {
        open,
        close,
        footing,
        later: Footing::read(&plan.presence),
    });
    Ok(Measured {
        end: End::Ended(status),
        wall_ns,
        edges: Some(edges),
    })
}

/// Waits for the command. What a terminal sends goes to it by itself; TERM and HUP
/// are passed on.
async fn wait(child: &mut Child, signals: &mut Signals) -> io::Result<ExitStatus> {
    loop {
        let signal = tokio::select! {
            status = child.wait() => return status,
            signal = signals.next() => signal,
        };
        let to = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let (Some(pid), libc::SIGTERM | libc::SIGHUP) = (to, signal) {
            // SAFETY: kill(2) has no condition; the child has not been waited for.
            unsafe { libc::kill(pid, signal) };
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
            (End::Withheld(libc::SIGINT), 130),
        ] {
            assert_eq!(end.code(), code, "{end:?}");
        }
    }
}
