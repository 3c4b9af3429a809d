//! A command that is held just before its exec, until everything is ready for
//! it.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    os::fd::AsRawFd as _,
};

use tokio::{
    process::{Child, Command},
    task::JoinHandle,
};

use super::tee::Streams;

/// A child process that waits on a pipe. Its standard streams are ours, or what it gets
/// instead. If it is dropped, or we die, the child ends without having run the command.
#[derive(Debug)]
pub(super) struct Held {
    /// What the child says: its number, then whether it entered its cgroup.
    forked: PipeReader,
    process: u32,
    gate: PipeWriter,
    spawning: JoinHandle<io::Result<Child>>,
}

impl Held {
    /// Forks a child for `argv`, whose first word is the program, and returns when
    /// it waits. It enters the cgroup whose `cgroup.procs` is given.
    pub(super) async fn hold(
        argv: &[OsString],
        cgroup: Option<File>,
        streams: Option<Streams>,
    ) -> io::Result<Self> {
        let (wait, gate) = io::pipe()?;
        let (mut forked, tell) = io::pipe()?;
        let (program, rest) = argv.split_first().expect("clap wants one word or more");
        let mut command = Command::new(program);
        command.args(rest);
        if let Some(Streams { stdout, stderr }) = streams {
            command.stdout(stdout).stderr(stderr);
        }
        let inherited_gate = gate.as_raw_fd();
        let hold = move || {
            // The child's own copy of the gate would keep the pipe open after our death.
            // SAFETY: closes an fd of the child that nothing else in it uses.
            unsafe { libc::close(inherited_gate) };
            let say = |bytes: &[u8]| {
                // SAFETY: the pointer is to so many bytes. It matters to nobody if this fails.
                unsafe { libc::write(tell.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
            };
            // SAFETY: getpid(2) has no condition.
            say(&unsafe { libc::getpid() }.to_ne_bytes());
            // Takes as long as an RCU grace period; probes are attached meanwhile.
            let entered = cgroup.as_ref().is_some_and(|procs| {
                // SAFETY: the pointer is to one byte.
                unsafe { libc::write(procs.as_raw_fd(), b"0".as_ptr().cast(), 1) == 1 }
            });
            say(&[u8::from(entered)]);
            wait_for_release(wait.as_raw_fd())
        };
        // SAFETY: between fork and exec `hold` makes system calls only and allocates nothing.
        unsafe { command.pre_exec(hold) };
        // spawn() returns when the child has exec'd or failed to: not before it is released.
        let spawning = tokio::task::spawn_blocking(move || command.spawn());
        // From the child; without one the pipe ends, and spawn() says why.
        let mut process = [0; 4];
        match forked.read(&mut process)? {
            0 => match spawning.await.map_err(io::Error::other)? {
                Err(error) => Err(error),
                Ok(_) => Err(io::Error::other("the command was not held")),
            },
            _ => Ok(Self {
                forked,
                process: u32::from_ne_bytes(process),
                gate,
                spawning,
            }),
        }
    }

    /// Its number.
    pub(super) const fn process(&self) -> u32 {
        self.process
    }

    /// Waits until the child has tried to enter its cgroup, and says whether it did.
    pub(super) fn has_entered(&mut self) -> bool {
        let mut entered = [0];
        self.forked.read_exact(&mut entered).is_ok() && entered == [1]
    }

    /// Lets the child run the command; an error says why it could not.
    pub(super) async fn release(self) -> io::Result<Child> {
        let Self {
            mut gate, spawning, ..
        } = self;
        match gate.write_all(b"1") {
            // A child that a signal ended in the meantime is reported by its exit.
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(e),
            _ => {}
        }
        spawning.await.map_err(io::Error::other)?
    }
}

/// Waits for a byte; the end of the pipe means that nobody will send one.
fn wait_for_release(fd: i32) -> io::Result<()> {
    let mut byte = 0_u8;
    loop {
        // SAFETY: the pointer is to one byte.
        match unsafe { libc::read(fd, (&raw mut byte).cast(), 1) } {
            1 => return Ok(()),
            0 => return Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt as _, path::Path};

    use super::*;

    fn touch(path: &Path) -> [OsString; 2] {
        ["touch".into(), path.into()]
    }

    #[tokio::test]
    async fn it_runs_after_the_release() {
        let dir = tempfile::tempdir().expect("a directory");
        let mark = dir.path().join("mark");
        let held = Held::hold(&touch(&mark), None, None).await.expect("forks");
        assert!(!mark.exists());
        let mut child = held.release().await.expect("runs");
        assert_eq!(child.wait().await.expect("ends").into_raw(), 0);
        assert!(mark.exists());
    }

    #[tokio::test]
    async fn dropped_it_never_runs() {
        let dir = tempfile::tempdir().expect("a directory");
        let mark = dir.path().join("mark");
        let held = Held::hold(&touch(&mark), None, None).await.expect("forks");
        let Held { gate, spawning, .. } = held;
        drop(gate);
        let error = spawning.await.expect("joins").expect_err("did not run");
        assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
        assert!(!mark.exists());
    }

    #[tokio::test]
    async fn an_exec_that_fails_says_why() {
        for (program, kind) in [
            ("/no/such/program", io::ErrorKind::NotFound),
            ("/", io::ErrorKind::PermissionDenied),
        ] {
            let held = Held::hold(&[program.into()], None, None)
                .await
                .expect("forks");
            let error = held.release().await.expect_err("cannot run");
            assert_eq!(error.kind(), kind, "{program}");
        }
    }
}
