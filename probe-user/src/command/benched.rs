//! `run --bench`: the loops of a benchmark are timed without probes, then run again and
//! counted.

use std::{
    env,
    ffi::{CString, OsString},
    io,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::ExitStatus,
};

use anyhow::{Context as _, anyhow, bail};
use clap::Parser as _;
use tempfile::TempDir;
use tokio::process::Command;

use super::{
    GATE_FAILED, pass_on,
    signals::Signals,
    tee::{Streams, Tee},
    usage,
};
use crate::{
    cli::{Bench, Cli, Command as Asked, ControlPlace, Delay, RunArgs},
    evidence::{Timed, read_timed},
    kernel::permitted,
};

/// How many rounds there are where the words do not say it.
const ROUNDS: &str = "15";

/// A benchmark of ours, as the words after `run --bench` have it.
#[derive(Debug)]
pub(super) struct Benched {
    program: PathBuf,
    /// "remap" and so on.
    name: OsString,
    rest: Vec<OsString>,
    probed_times: bool,
    /// Holds the FIFOs and the tables of the rounds.
    scratch: TempDir,
}

/// What came of the loops without probes.
#[derive(Debug, Default)]
pub(super) struct TimedLoops {
    pub(super) rounds: Vec<Timed>,
    /// Why they do not pass, if they do not.
    pub(super) cause: Option<String>,
}

impl Benched {
    /// Reads the words. `None` where they ask for help, which has been printed.
    pub(super) fn of(args: &RunArgs) -> anyhow::Result<Option<Self>> {
        let (name, rest) = args.command.split_first().context("there are no words")?;
        let mut rest = rest.to_vec();
        let says_rounds = |word: &OsString| word.as_bytes().starts_with(b"--rounds");
        if !rest.iter().any(says_rounds) {
            rest.splice(0..0, ["--rounds".into(), ROUNDS.into()]);
        }
        let before = ["cowprobe".into(), "bench".into(), name.clone()];
        let asked = match Cli::try_parse_from(before.iter().chain(&rest)) {
            Ok(cli) => cli.command,
            Err(error) if error.use_stderr() => bail!("--bench: {}", usage(&error)),
            Err(help) => {
                // A closed pipe is no failure of ours.
                let _ = help.print();
                return Ok(None);
            }
        };
        let Asked::Bench(Bench::Remap(bench)) = asked else {
            bail!("--bench: no benchmark");
        };
        for (flag, given) in [
            ("--control", bench.control.is_some()),
            ("--tsv", bench.tsv.is_some()),
        ] {
            if given {
                bail!("--bench: leave out {flag}: run gives it; --bundle keeps the rounds");
            }
        }
        if bench.probed_times {
            bail!("--bench: write --probed-times before the words of the benchmark");
        }
        let scratch = tempfile::Builder::new()
            .prefix("cowprobe-")
            .permissions(PermissionsExt::from_mode(0o700))
            .tempdir()
            .context("cannot make a folder for FIFOs; set TMPDIR")?;
        // They are named on a command line, with a comma between.
        let named = scratch.path().to_str();
        if named.is_none_or(|path| path.contains(',')) {
            bail!("TMPDIR has a comma, or is not UTF-8; set another");
        }
        let new = Self {
            program: env::current_exe().context("cannot find this program")?,
            name: name.clone(),
            rest,
            probed_times: args.benched.probed_times,
            scratch,
        };
        new.fifos().iter().try_for_each(|path| mkfifo(path))?;
        Ok(Some(new))
    }

    /// Makes of a run one whose command is counted when it orders that.
    pub(super) fn count(&self, args: &mut RunArgs, keep_times: bool) {
        let [orders, answers] = self.fifos().map(PathBuf::into_os_string);
        let mut control = OsString::from("fifo:");
        control.push(&orders);
        control.push(",");
        control.push(&answers);
        args.control = Some(ControlPlace::Fifo(orders, Some(answers)));
        args.delay = Delay::Disabled;
        let mut flags = vec!["--control".into(), control];
        if keep_times {
            flags.extend(["--probed-times".into(), "--tsv".into()]);
            flags.push(self.table("counted.tsv").into_os_string());
        }
        args.command = self.words(flags);
    }

    /// Runs the loops, as long as nothing is attached. TERM and HUP are passed on. An exit
    /// status is that of loops which came to nothing.
    pub(super) async fn time(
        &self,
        signals: &mut Signals,
        tee: Option<(Tee, Streams)>,
    ) -> anyhow::Result<Result<TimedLoops, ExitStatus>> {
        // Before: it would be for nothing.
        permitted()?;
        let table = self.table("timed.tsv");
        let mut flags = vec!["--tsv".into(), table.clone().into_os_string()];
        if self.probed_times {
            flags.push("--probed-times".into());
        }
        let words = self.words(flags);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let copying = tee.map(|(tee, streams)| {
            command.stdout(streams.stdout).stderr(streams.stderr);
            tee.start()
        });
        let copying = copying.transpose()?;
        let child = command.spawn();
        // Its ends of the pipes would keep them open.
        drop(command);
        let mut child = child.context("cannot start the benchmark")?;
        let status = loop {
            tokio::select! {
                biased;
                status = child.wait() => break status?,
                signal = signals.next() => pass_on(&child, signal),
            }
        };
        if let Some(copying) = copying {
            copying.end().context("cannot keep what was printed")?;
        }
        let cause = match status.code() {
            Some(0) => None,
            Some(code) if code == i32::from(GATE_FAILED) => {
                Some(format!("the timed pass: {status}"))
            }
            _ => return Ok(Err(status)),
        };
        let rounds = read_timed(&table)?;
        Ok(Ok(TimedLoops { rounds, cause }))
    }

    /// The times under probes, if they were kept.
    pub(super) fn counted_rounds(&self) -> anyhow::Result<Vec<Timed>> {
        match self.table("counted.tsv") {
            table if table.exists() => read_timed(&table),
            _ => Ok(Vec::new()),
        }
    }

    fn words(&self, flags: Vec<OsString>) -> Vec<OsString> {
        let program = self.program.clone().into_os_string();
        let before = [program, "bench".into(), self.name.clone()];
        // Flags of ours go first: after "--" they would be none.
        let all = before.into_iter().chain(flags);
        all.chain(self.rest.iter().cloned()).collect()
    }

    fn fifos(&self) -> [PathBuf; 2] {
        ["orders", "answers"].map(|name| self.scratch.path().join(name))
    }

    fn table(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

fn mkfifo(path: &Path) -> anyhow::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the pointer is to a string that ends.
    if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(anyhow!(error).context(format!("cannot make the FIFO {}", path.display())))
}
