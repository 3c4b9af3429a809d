//! What the command prints, kept in files beside: it goes on to our own streams as it
//! comes.
//!
//! Threads copy it, so that a reader who is slow keeps no order and no signal waiting.

use std::{
    fs::{File, OpenOptions},
    io::{self, PipeReader, PipeWriter, Read as _, Write},
    os::fd::AsRawFd as _,
    path::Path,
    thread::{self, JoinHandle},
};

use anyhow::Context as _;

/// The streams that a command gets instead of ours.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdout: PipeWriter,
    pub(super) stderr: PipeWriter,
}

/// The other ends, before anything is copied.
#[derive(Debug)]
pub(super) struct Tee {
    each: [(PipeReader, File); 2],
}

/// Copying under way.
#[derive(Debug)]
pub(super) struct Copying {
    /// Closed when nothing more is waited for.
    ended: PipeWriter,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Tee {
    /// Appends to these files, which are made if they are not there.
    pub(super) fn to(stdout: &Path, stderr: &Path) -> anyhow::Result<(Self, Streams)> {
        let file = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.with_context(|| format!("cannot write {}", path.display()))
        };
        let (out, err) = (io::pipe()?, io::pipe()?);
        let tee = Self {
            each: [(out.0, file(stdout)?), (err.0, file(stderr)?)],
        };
        let streams = Streams {
            stdout: out.1,
            stderr: err.1,
        };
        Ok((tee, streams))
    }

    /// Begins. A thread has the capabilities of the one that starts it.
    pub(super) fn start(self) -> io::Result<Copying> {
        let (wait, ended) = io::pipe()?;
        let mut threads = Vec::new();
        let ours: [fn() -> Box<dyn Write>; 2] =
            [|| Box::new(io::stdout()), || Box::new(io::stderr())];
        for ((from, file), ours) in self.each.into_iter().zip(ours) {
            let wait = wait.try_clone()?;
            let copy = move || copy(from, file, ours(), &wait);
            threads.push(thread::Builder::new().spawn(copy)?);
        }
        Ok(Copying { ended, threads })
    }
}

impl Copying {
    /// When the command has ended: takes what it left in the pipes. A process of its
    /// that goes on and holds them is not waited for.
    pub(super) fn end(self) -> io::Result<()> {
        drop(self.ended);
        let each = self.threads.into_iter().map(|thread| {
            let died = |_| Err(io::Error::other("a thread died"));
            thread.join().unwrap_or_else(died)
        });
        each.collect::<Vec<_>>().into_iter().collect()
    }
}

/// Until the end of the pipe, or of the waiting. Where a file cannot be written the
/// stream goes on; where nobody reads the stream, the file.
fn copy(
    mut from: PipeReader,
    mut file: File,
    mut ours: Box<dyn Write>,
    wait: &PipeReader,
) -> io::Result<()> {
    let mut kept = Ok(());
    let mut is_read = true;
    let mut bytes = vec![0; 1 << 16];
    while is_ready(&from, wait)? {
        let count = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if kept.is_ok() {
            kept = file.write_all(&bytes[..count]);
        }
        if is_read {
            is_read = ours.write_all(&bytes[..count]).is_ok() && ours.flush().is_ok();
        }
    }
    kept.and_then(|()| file.sync_all())
}

/// Waits until there is something to read, or its end; false once the waiting ended and
/// there is nothing.
fn is_ready(from: &PipeReader, wait: &PipeReader) -> io::Result<bool> {
    let on = |fd: &PipeReader| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut each = [on(from), on(wait)];
    loop {
        // SAFETY: the pointer is to two pollfds.
        if unsafe { libc::poll(each.as_mut_ptr(), 2, -1) } >= 0 {
            return Ok(each[0].revents != 0);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    #[test]
    fn what_was_written_before_the_end_is_kept_though_the_pipe_stays_open() {
        let dir = tempfile::tempdir().expect("a directory");
        let [out, err] = ["out", "err"].map(|name| dir.path().join(name));
        let (tee, mut streams) = Tee::to(&out, &err).expect("pipes");
        let copying = tee.start().expect("threads");
        let text = "x".repeat(200_000);
        streams.stdout.write_all(text.as_bytes()).expect("writes");
        streams.stderr.write_all(b"first\n").expect("writes");
        copying.end().expect("ends");
        assert_eq!(fs::read_to_string(&out).expect("reads"), text);
        assert_eq!(fs::read_to_string(&err).expect("reads"), "first\n");
        // A second command's goes after it.
        let (tee, mut again) = Tee::to(&out, &err).expect("pipes");
        let copying = tee.start().expect("threads");
        again.stderr.write_all(b"second\n").expect("writes");
        drop((streams, again));
        thread::sleep(Duration::from_millis(1));
        copying.end().expect("ends");
        assert_eq!(fs::read_to_string(&err).expect("reads"), "first\nsecond\n");
    }

    #[test]
    fn a_full_disk_is_an_error_in_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let err = dir.path().join("err");
        let (tee, mut streams) = Tee::to(Path::new("/dev/full"), &err).expect("pipes");
        let copying = tee.start().expect("threads");
        streams.stdout.write_all(b"x").expect("writes");
        drop(streams);
        let error = copying.end().expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
