//! The measuring of `cowprobe run`: the command is held, the probes are attached and,
//! unless another says when, a window is opened before it is released; the window is
//! closed when the command has ended.

use std::{
    ffi::OsString, io, os::unix::process::ExitStatusExt as _, path::Path, process::ExitStatus,
    time::Duration,
};

use anyhow::Context as _;
use tokio::{process::Child, time::Instant};

use super::{
    cgroup::Cgroup,
    checkpoint::Checkpoints,
    control::{Control, Order},
    counting::{Counted, Counting},
    held::Held,
    pass_on,
    ready::Ready,
    say::remark,
    scope::Scoping,
    signals::Signals,
    survey::{Plan, Survey},
    tee::{Copying, Streams, Tee},
    workload::Named,
    written::Begun,
};
use crate::{
    cli::{Delay, RunArgs},
    evidence::Replaced,
    kernel::{Workload, monotonic_ns},
    wording::plain,
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

    /// Whether the command came to run.
    pub(super) const fn ran(&self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// Why its status is not 0, if it is not.
    pub(super) fn cause(&self, argv: &[OsString]) -> Option<String> {
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
pub(super) struct Measured {
    pub(super) end: End,
    /// The command's own time.
    pub(super) wall_ns: u64,
    pub(super) counted: Counted,
    /// Whether a checkpoint was written.
    pub(super) checkpointed: bool,
    /// Whether what the command printed could be kept.
    pub(super) kept: io::Result<()>,
}

/// What goes on beside the command.
#[derive(Debug)]
pub(super) struct Beside<'a> {
    pub(super) signals: &'a mut Signals,
    pub(super) checkpoints: Option<Replaced>,
    /// Keeps what the command prints.
    pub(super) tee: Option<(Tee, Streams)>,
}

/// The signals that must not end us before the report.
pub(super) fn signals() -> anyhow::Result<Signals> {
    let numbers = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];
    Signals::listen_unless_ignored(&numbers).context("cannot listen for signals")
}

/// Holds, attaches, releases, waits.
pub(super) async fn measure(
    args: &RunArgs,
    plan: &mut Plan,
    begun: Begun<'_>,
    beside: Beside<'_>,
) -> anyhow::Result<Measured> {
    let Beside {
        signals,
        checkpoints,
        tee,
    } = beside;
    let (tee, streams) = tee.unzip();
    let control = args.control.as_ref().map(Control::open).transpose()?;
    let ready = Ready::from(args.ready_fd)?;
    let named = Named::from(&args.scope)?;
    let scoping = Scoping::from(&args.scope);
    let cgroup = match &named {
        Named::Nothing => Cgroup::make(),
        Named::Cgroup(_) | Named::Processes(_) => Err("another workload is named".to_owned()),
    };
    let entrance = cgroup.as_ref().ok().map(Cgroup::entrance).transpose();
    let mut held = Held::hold(&args.command, entrance.ok().flatten(), streams)
        .await
        .context("cannot fork for the command")?;
    let process = [held.process()];
    let workload = match (&named, &cgroup) {
        (Named::Nothing, Ok(cgroup)) => Workload::Cgroup(cgroup.fd()),
        // Without a cgroup forks are followed.
        (Named::Nothing, Err(_)) => Workload::Processes(&process),
        (named, _) => named.workload(),
    };
    let mut counting = Counting::attach(plan, workload, scoping)?;
    let mut untold = None;
    if cgroup.is_ok() && !held.has_entered() {
        counting.forget_workload();
        untold = Some("the command could not enter its cgroup".to_owned());
    }
    // Before: it takes long, and the command should not wait when it is counted.
    let survey = checkpoints
        .is_some()
        .then(|| Survey::of(plan))
        .transpose()?;
    if args.delay == Delay::None {
        counting.enable()?;
    }
    ready.say()?;
    let not_run = |end, counting: Counting| Measured {
        end,
        wall_ns: 0,
        counted: counting.detach(),
        checkpointed: false,
        kept: Ok(()),
    };
    if let Some(signal) = signals.pending().await {
        return Ok(not_run(End::Withheld(signal), counting));
    }
    // Its threads have the privileges that are left.
    let copying = tee.map(Tee::start).transpose()?;
    let released_ns = monotonic_ns();
    let child = match held.release().await {
        Ok(child) => child,
        Err(error) => return Ok(not_run(End::NotStarted(error), counting)),
    };
    let asked = checkpoints.zip(survey).zip(args.checkpoint);
    let checkpoints = asked.map(|((file, survey), period)| {
        Checkpoints::every(period, file, survey, (begun, &args.judge))
    });
    let mut running = Running {
        untold,
        released_ns,
        checkpoints,
        child,
        control,
        counting,
        stopped: false,
        unknown: 0,
    };
    let status = running.wait(signals, args.delay).await;
    let status = status.context("cannot wait for the command")?;
    let wall_ns = monotonic_ns() - released_ns;
    let (counted, checkpointed) = running.end().await;
    let kept = copying.map_or(Ok(()), Copying::end);
    Ok(Measured {
        end: End::Ended(status),
        wall_ns,
        counted,
        checkpointed,
        kept,
    })
}

/// A command under way.
struct Running<'a> {
    child: Child,
    released_ns: u64,
    checkpoints: Option<Checkpoints<'a>>,
    /// Why the workload is not told from other tasks, if it is not.
    untold: Option<String>,
    control: Option<Control>,
    counting: Counting,
    /// No window is opened any more.
    stopped: bool,
    /// How many orders were none.
    unknown: u64,
}

impl Running<'_> {
    /// Until the command ends: passes signals on and carries orders out. What a
    /// terminal sends goes to the command by itself; TERM and HUP are passed on.
    async fn wait(&mut self, signals: &mut Signals, delay: Delay) -> io::Result<ExitStatus> {
        let opens = match delay {
            Delay::Ms(ms) => Instant::now().checked_add(Duration::from_millis(ms)),
            Delay::None | Delay::Disabled => None,
        };
        let mut delayed = opens.is_some();
        let opens = opens.unwrap_or_else(Instant::now);
        loop {
            tokio::select! {
                biased;
                // What was ordered before the end is carried out before it is seen.
                order = next(&mut self.control) => self.carry_out(&order?)?,
                status = self.child.wait() => return status,
                signal = signals.next() => pass_on(&self.child, signal),
                scope = self.counting.rescoped() => scope?,
                () = due(&mut self.checkpoints) => self.checkpoint(),
                () = tokio::time::sleep_until(opens), if delayed => {
                    delayed = false;
                    self.open()?;
                }
            }
        }
    }

    fn carry_out(&mut self, order: &Order) -> io::Result<()> {
        match order {
            Order::Enable => self.open()?,
            Order::Disable => self.counting.disable(),
            Order::Stop => {
                self.counting.disable();
                self.stopped = true;
            }
            Order::Snapshot => self.show(),
            Order::Ping => {}
            Order::Unknown(text) => {
                self.unknown += 1;
                if self.unknown == 1 {
                    remark(format_args!(
                        "warning: no such order: \"{text}\"; orders are enable, disable, ping, snapshot, stop"
                    ));
                }
                return Ok(());
            }
        }
        if let Some(control) = &mut self.control {
            control.answer();
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        if self.stopped {
            return Ok(());
        }
        self.counting.enable().map_err(io::Error::other)
    }

    /// One line a target of what was counted until now.
    fn show(&self) {
        for (name, calls) in self.counting.calls_until_now() {
            remark(format_args!("{name}: {calls} calls until now"));
        }
    }

    fn checkpoint(&mut self) {
        if let Some(checkpoints) = &mut self.checkpoints {
            let wall_ns = monotonic_ns() - self.released_ns;
            checkpoints.write(self.counting.until_now(), wall_ns);
        }
    }

    /// Closes the last window and detaches. Returns also whether there is a checkpoint.
    async fn end(self) -> (Counted, bool) {
        let mut counted = self.counting.end();
        let warnings = &mut counted.warnings;
        let mut checkpointed = false;
        if let Some(checkpoints) = self.checkpoints {
            let [begun, failed] = checkpoints.end().await;
            checkpointed = begun > failed;
            if failed > 0 {
                let warning = format!("{failed} of {begun} checkpoints could not be written");
                warnings.push(warning);
            }
        }
        if self.unknown > 1 {
            warnings.push(format!("{} orders were none", self.unknown));
        }
        if let Some(why) = self.untold {
            warnings.push(format!("the workload is not told from other tasks: {why}"));
        }
        let unread = self.control.map_or(0, |control| control.unread());
        if unread > 0 {
            warnings.push(format!("{unread} answers found no reader"));
        }
        (counted, checkpointed)
    }
}

/// The next order, if any can come.
async fn next(control: &mut Option<Control>) -> io::Result<Order> {
    match control {
        Some(control) => control.next().await,
        None => std::future::pending().await,
    }
}

/// Until a checkpoint is due.
async fn due(checkpoints: &mut Option<Checkpoints<'_>>) {
    match checkpoints {
        Some(checkpoints) => checkpoints.due().await,
        None => std::future::pending().await,
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
