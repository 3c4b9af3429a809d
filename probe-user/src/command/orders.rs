//! The other side of perf stat's control protocol: a benchmark that says when to count.
//!
//! Each order is answered before the benchmark goes on, so that a window holds a timed
//! loop and nothing else. Whoever should answer and does not keeps it waiting no longer
//! than a minute.

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

use super::control::inherited;
use crate::{cli::ControlPlace, wording::plain};

/// How an answer begins; perf writes a NUL after it.
const ACK: &[u8] = b"ack\n";
/// Opening a window on a busy machine takes a moment, never so long.
const PATIENCE: Duration = Duration::from_mins(1);

/// The two ends.
#[derive(Debug)]
pub(super) struct Orders {
    orders: File,
    answers: File,
}

impl Orders {
    /// Opens the ends, and asks whether somebody is there.
    pub(super) fn open(place: &ControlPlace) -> anyhow::Result<Self> {
        let without = "--control: name ACK, too; without answers a loop would not wait until it \
                       is counted";
        let (orders, answers) = match place {
            ControlPlace::Fifo(orders, answers) => {
                let answers = answers.as_deref().context(without)?;
                let (mut write, mut read) = (OpenOptions::new(), OpenOptions::new());
                (
                    end(orders, write.write(true))?,
                    end(answers, read.read(true))?,
                )
            }
            ControlPlace::Fd(orders, answers) => {
                let answers = answers.context(without)?;
                (inherited(*orders)?, inherited(answers)?)
            }
        };
        let mut ends = Self { orders, answers };
        ends.forget()?;
        ends.order("ping")?;
        Ok(ends)
    }

    /// Has a window opened.
    pub(super) fn enable(&mut self) -> anyhow::Result<()> {
        self.order("enable")
    }

    /// Has it closed.
    pub(super) fn disable(&mut self) -> anyhow::Result<()> {
        self.order("disable")
    }

    /// Answers to others before us are none to us.
    fn forget(&mut self) -> anyhow::Result<()> {
        let mut bytes = [0; 4096];
        loop {
            match self.answers.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e).context("cannot read the answers"),
            }
        }
    }

    fn order(&mut self, order: &str) -> anyhow::Result<()> {
        let line = format!("{order}\n");
        let written = self.orders.write_all(line.as_bytes());
        if let Err(error) = written {
            let why = plain(&error);
            bail!("--control: cannot order '{order}': {why}; whoever counts has ended");
        }
        let mut answer = Vec::new();
        let until = Instant::now() + PATIENCE;
        while answer.len() < ACK.len() {
            if !self.wait(until)? {
                let seconds = PATIENCE.as_secs();
                bail!("--control: no answer to '{order}' for {seconds} s; is cowprobe run there?");
            }
            let mut bytes = [0; 64];
            match self.answers.read(&mut bytes) {
                Ok(0) => bail!("--control: no answer to '{order}': whoever counts has ended"),
                // The NUL of the answer before may come late.
                Ok(n) => answer.extend(bytes[..n].iter().filter(|byte| **byte != 0)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e).context("cannot read the answers"),
            }
        }
        let shown = answer.escape_ascii();
        ensure!(
            answer == ACK,
            "--control: the answer to '{order}' is \"{shown}\" instead of \"ack\""
        );
        Ok(())
    }

    /// Whether there is an answer, or nobody left to give one, before it is too late.
    fn wait(&self, until: Instant) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut poll = libc::pollfd {
                fd: self.answers.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            let ms = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
            // SAFETY: the pointer is to one pollfd.
            match unsafe { libc::poll(&raw mut poll, 1, ms) } {
                0 => return Ok(false),
                1.. => return Ok(true),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// One end, without waiting for the other side.
fn end(path: &OsStr, options: &mut OpenOptions) -> anyhow::Result<File> {
    let opened = options.custom_flags(libc::O_NONBLOCK).open(path);
    opened.map_err(|error| {
        let shown = path.display();
        match error.raw_os_error() {
            // Of a FIFO that nobody reads, fifo(7).
            Some(libc::ENXIO) => anyhow::anyhow!(
                "--control: nobody reads {shown}; start the benchmark with cowprobe run --control"
            ),
            _ => anyhow::anyhow!("--control: cannot open {shown}: {}", plain(&error)),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, os::unix::ffi::OsStrExt as _, path::Path, thread};

    use super::*;

    struct Fifos {
        place: ControlPlace,
        _dir: tempfile::TempDir,
    }

    fn fifo(path: &Path) {
        let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
        // SAFETY: the pointer is to a string that ends with NUL.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    }

    fn fifos() -> Fifos {
        let dir = tempfile::tempdir().expect("a directory");
        let [orders, answers] = ["ctl", "ack"].map(|name| dir.path().join(name));
        fifo(&orders);
        fifo(&answers);
        Fifos {
            place: ControlPlace::Fifo(orders.into(), Some(answers.into())),
            _dir: dir,
        }
    }

    /// Somebody with both ends, as perf has them.
    fn server(place: &ControlPlace) -> [File; 2] {
        let ControlPlace::Fifo(orders, Some(answers)) = place else {
            panic!("not both");
        };
        let open = |path| OpenOptions::new().read(true).write(true).open(path);
        [orders, answers].map(|path| open(path).expect("opens"))
    }

    /// Gives these answers, each to an order, and goes away.
    fn answering(
        place: &ControlPlace,
        answers: &'static [&'static str],
    ) -> thread::JoinHandle<String> {
        let [mut orders, mut ack] = server(place);
        thread::spawn(move || {
            let mut heard = String::new();
            for answer in answers {
                let mut byte = [0];
                while byte != *b"\n" {
                    orders.read_exact(&mut byte).expect("reads");
                    heard.push(byte[0].into());
                }
                ack.write_all(answer.as_bytes()).expect("writes");
            }
            heard
        })
    }

    #[test]
    fn each_order_is_answered() {
        let fifos = fifos();
        let [_orders, mut stale] = server(&fifos.place);
        stale.write_all(b"ack\n\0ack\n\0").expect("writes");
        let server = answering(&fifos.place, &["ack\n\0", "ack\n\0", "ack\n"]);
        let mut orders = Orders::open(&fifos.place).expect("opens");
        orders.enable().expect("is answered");
        orders.disable().expect("is answered");
        assert_eq!(server.join().expect("ends"), "ping\nenable\ndisable\n");
    }

    #[test]
    fn nobody_there_is_said_and_keeps_nobody_waiting() {
        let fifos = fifos();
        let error = Orders::open(&fifos.place).expect_err("nobody");
        assert!(error.to_string().contains("nobody reads"), "{error}");
        let server = answering(&fifos.place, &["ack\n\0"]);
        let mut orders = Orders::open(&fifos.place).expect("opens");
        server.join().expect("ends");
        let error = orders.enable().expect_err("nobody");
        assert!(
            error.to_string().contains("whoever counts has ended"),
            "{error}"
        );
    }

    #[test]
    fn another_answer_is_none() {
        let fifos = fifos();
        let server = answering(&fifos.place, &["nack\n"]);
        let error = Orders::open(&fifos.place).expect_err("no ack");
        assert!(error.to_string().contains("instead of"), "{error}");
        server.join().expect("ends");
    }

    #[test]
    fn answers_are_wanted() {
        let error = Orders::open(&ControlPlace::Fifo("ctl".into(), None)).expect_err("no ACK");
        assert!(error.to_string().contains("name ACK"), "{error}");
    }
}
