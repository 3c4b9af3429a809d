//! perf stat's control protocol: who runs the benchmark says when to count.
//!
//! Orders come as lines (or ended by NUL, as some clients do); each is answered by
//! `ack\n` and a NUL when it has been carried out (`tools/perf/util/evlist.c` of
//! Linux 7.2: `EVLIST_CTL_CMD_ACK_TAG`, written with its NUL).

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::{FromRawFd as _, OwnedFd},
        unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    },
};

use anyhow::{Context as _, bail, ensure};
use tokio::io::unix::AsyncFd;

use crate::cli::ControlPlace;

/// What perf writes when an order has been carried out.
const ACK: &[u8] = b"ack\n\0";
/// Longer than any order.
const LONGEST: usize = 4096;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Open a window.
    Enable,
    /// Close it.
    Disable,
    /// Answer.
    Ping,
    /// Close the window; open none any more.
    Stop,
    /// Show what was counted until now.
    Snapshot,
    /// No order.
    Unknown(String),
}

/// The two ends.
#[derive(Debug)]
pub(super) struct Control {
    orders: AsyncFd<File>,
    answers: Option<File>,
    /// What has come of the next order.
    begun: Vec<u8>,
    /// No more orders will come.
    ended: bool,
    /// Answers for which there was no room: nobody reads them.
    unread: u64,
}

impl Control {
    pub(super) fn open(place: &ControlPlace) -> anyhow::Result<Self> {
        let (orders, answers) = match place {
            ControlPlace::Fifo(orders, answers) => {
                let answers = answers.as_deref().map(fifo).transpose()?;
                (fifo(orders)?, answers)
            }
            ControlPlace::Fd(orders, answers) => {
                let answers = answers.map(inherited).transpose()?;
                (inherited(*orders)?, answers)
            }
        };
        // SAFETY: the file is the one owner of its descriptor, and stays inside.
        let orders = unsafe { AsyncFd::register(orders) };
        let orders = orders.context("orders must come through a pipe or a socket")?;
        Ok(Self {
            orders,
            answers,
            begun: Vec::new(),
            ended: false,
            unread: 0,
        })
    }

    /// The next order; pends for ever after the last.
    pub(super) async fn next(&mut self) -> io::Result<Order> {
        loop {
            if let Some(order) = self.take() {
                return Ok(order);
            }
            if self.ended {
                std::future::pending::<()>().await;
            }
            let mut ready = self.orders.readable().await?;
            let mut bytes = [0; LONGEST];
            match ready.try_io(|orders| orders.get_ref().read(&mut bytes)) {
                Ok(Ok(0)) => self.ended = true,
                Ok(Ok(n)) => self.begun.extend_from_slice(&bytes[..n]),
                Ok(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(e)) => return Err(e),
                Err(_would_block) => {}
            }
        }
    }

    /// Says that an order has been carried out. A reader that is gone or does not
    /// read keeps nobody waiting.
    pub(super) fn answer(&mut self) {
        let Some(answers) = &mut self.answers else {
            return;
        };
        if !matches!(answers.write(ACK), Ok(n) if n == ACK.len()) {
            self.unread += 1;
        }
    }

    /// How many answers nobody could read.
    pub(super) const fn unread(&self) -> u64 {
        self.unread
    }

    /// The first whole order of what has come, empty ones left out. What is longer
    /// than any order is one that is unknown.
    fn take(&mut self) -> Option<Order> {
        loop {
            let is_end = |byte: &u8| [b'\n', 0].contains(byte);
            let Some(end) = self.begun.iter().position(is_end) else {
                let rest_is_one = self.ended || self.begun.len() >= LONGEST;
                if !rest_is_one || self.begun.is_empty() {
                    return None;
                }
                return Some(order(&std::mem::take(&mut self.begun)));
            };
            let line: Vec<u8> = self.begun.drain(..=end).take(end).collect();
            if !line.trim_ascii().is_empty() {
                return Some(order(&line));
            }
        }
    }
}

fn order(line: &[u8]) -> Order {
    match line.trim_ascii() {
        b"enable" => Order::Enable,
        b"disable" => Order::Disable,
        b"ping" => Order::Ping,
        b"stop" => Order::Stop,
        b"snapshot" => Order::Snapshot,
        other => {
            let shown = &other[..other.len().min(40)];
            Order::Unknown(shown.escape_ascii().to_string())
        }
    }
}

/// Both ends, as perf opens it: so it neither waits for the other side nor ends when
/// that goes away.
fn fifo(path: &OsStr) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK);
    let shown = path.display();
    let fifo = options
        .open(path)
        .with_context(|| format!("cannot open {shown}; make it with mkfifo"))?;
    let is_fifo = fifo.metadata()?.file_type().is_fifo();
    ensure!(is_fifo, "{shown} is no FIFO; make it with mkfifo");
    Ok(fifo)
}

/// A descriptor that our parent left open for us.
pub(super) fn inherited(fd: i32) -> anyhow::Result<File> {
    // SAFETY: fcntl has no condition for these commands, whatever the number.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        bail!("file descriptor {fd} is not open");
    }
    // SAFETY: as above. The command must not inherit it.
    unsafe {
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
    }
    // SAFETY: it is open, and the command line gives it to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}
