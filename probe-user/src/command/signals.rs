//! Signals that must not end us before the report.

use std::{io, mem, ptr, task::Poll, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are listened for.
#[derive(Debug)]
pub(super) struct Signals {
    each: Vec<(i32, Signal)>,
}

impl Signals {
    /// Takes over these signals.
    pub(super) fn listen(numbers: &[i32]) -> io::Result<Self> {
        let each = numbers.iter();
        let each = each.map(|&number| Ok((number, signal(SignalKind::from_raw(number))?)));
        Ok(Self {
            each: each.collect::<io::Result<_>>()?,
        })
    }

    /// Takes over those of them that were not ignored when we started. The others
    /// stay ignored, for us and for a command of ours: so `nohup` works.
    pub(super) fn listen_unless_ignored(numbers: &[i32]) -> io::Result<Self> {
        let heard = numbers.iter().copied().filter(|&n| !is_ignored(n));
        Self::listen(&heard.collect::<Vec<_>>())
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.each {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// A signal that has come already.
    pub(super) async fn pending(&mut self) -> Option<i32> {
        // Long enough for the event loop to look at its signals once.
        let moment = Duration::from_millis(1);
        tokio::time::timeout(moment, self.next()).await.ok()
    }
}

/// From here on these signals do what they do by default: a second one ends us.
pub(super) fn restore_default(numbers: &[i32]) {
    for &number in numbers {
        // SAFETY: the default disposition is no code of ours.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

fn is_ignored(number: i32) -> bool {
    // SAFETY: a structure of integers and a pointer; all zero is valid.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: only asks for the present disposition, into a whole structure.
    let asked = unsafe { libc::sigaction(number, ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
