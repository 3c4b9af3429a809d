//! Runs the command, carries its output to the host, and reaps what it leaves behind.
//!
//! The command writes to pipes and not to the ports themselves, because a port can be opened only once
//! and a shell opens `/dev/stderr` anew.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::plan::{PORT_ERR, PORT_OUT};
use crate::ports;

/// What an unprivileged pipe can be made to hold (fs.pipe-max-size).
const LARGEST_PIPE: usize = 1 << 20;

/// The ports that carry the command's output.
pub(crate) struct Ports {
    out: File,
    err: File,
}

impl Ports {
    /// Opens both.
    pub(crate) fn open() -> Result<Self> {
        Ok(Self {
            out: ports::open(PORT_OUT)?,
            err: ports::open(PORT_ERR)?,
        })
    }
}

/// One of the command's streams on its way to the host.
struct Stream<'a> {
    pipe: PipeReader,
    port: &'a mut File,
    open: bool,
}

/// Runs a shell command to its end and answers with its status, 128 + n for signal n. Processes that it
/// leaves behind do not delay the end; what they wrote until then is carried, too.
pub(crate) fn run(command: &str, ports: &mut Ports) -> Result<u8> {
    // Before the command starts, so that its end is never missed.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let ends = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;

    let (out, out_end) = std::io::pipe()?;
    let (err, err_end) = std::io::pipe()?;
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .env_clear()
        .env(
            "PATH",
            "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
        )
        .env("HOME", "/root")
        .current_dir("/t")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(out_end)
        .stderr(err_end);
    // The command must not inherit the mask: a shell whose SIGCHLD is blocked waits for ever.
    let unmask = move || Ok(mask.thread_unblock()?);
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { shell.pre_exec(unmask) };
    let child = shell.spawn().context("failed to start /bin/sh")?;
    // Our ends of the pipes must go, or the streams never end.
    drop(shell);
    let child = i32::try_from(child.id()).context("a process id is a positive i32")?;

    let mut streams = [stream(out, &mut ports.out)?, stream(err, &mut ports.err)?];
    loop {
        wait(&streams, &ends)?;
        while ends.read_signal()?.is_some() {}
        // First the status, then the streams: what the command wrote before its end is in them by now.
        let status = reap(child)?;
        for stream in &mut streams {
            stream.carry()?;
        }
        if let Some(status) = status {
            return Ok(status);
        }
    }
}

fn stream(pipe: PipeReader, port: &mut File) -> Result<Stream<'_>> {
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(Stream {
        pipe,
        port,
        open: true,
    })
}

impl Stream<'_> {
    /// Carries what is in the pipe, but no more than the largest pipe holds: a process in the
    /// background that never stops writing must not keep the command's end from being seen.
    fn carry(&mut self) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        for _ in 0..LARGEST_PIPE / buffer.len() {
            if !self.open {
                break;
            }
            match self.pipe.read(&mut buffer) {
                Ok(0) => self.open = false,
                Ok(count) => self.port.write_all(&buffer[..count])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("failed to read the command's output"),
            }
        }
        Ok(())
    }
}

/// Waits until there is something to carry or to reap.
fn wait(streams: &[Stream], ends: &SignalFd) -> Result<()> {
    let mut watched = vec![PollFd::new(ends.as_fd(), PollFlags::POLLIN)];
    for stream in streams.iter().filter(|stream| stream.open) {
        watched.push(PollFd::new(stream.pipe.as_fd(), PollFlags::POLLIN));
    }
    match poll(&mut watched, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error).context("failed to wait for the command"),
    }
}

/// Reaps whatever has ended; the status of `child` if it is among it.
fn reap(child: i32) -> Result<Option<u8>> {
    let mut status = None;
    loop {
        let mut raw = 0;
        // SAFETY: the call writes to `raw` and nothing else. (nix's own knows no real-time signals.)
        match unsafe { libc::waitpid(-1, &raw mut raw, libc::WNOHANG) } {
            0 => return Ok(status),
            -1 if Errno::last() == Errno::ECHILD => return Ok(status),
            -1 => return Err(Errno::last()).context("failed to wait for a child"),
            pid if pid == child => {
                let ended = ExitStatus::from_raw(raw);
                let code = ended.code().or_else(|| Some(128 + ended.signal()?));
                let code = code.context("the command neither exited nor was killed")?;
                status = Some(u8::try_from(code).context("an exit status fits a byte")?);
            }
            _ => {}
        }
    }
}
