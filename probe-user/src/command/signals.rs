//! Signals that must not end us before the report.

use std::{
    io, mem, ptr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::kernel::monotonic_ns;

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

/// One that comes sooner after the first is the same: timeout(1) and shells send a
/// signal to a process and to its group.
const SAME_NS: u64 = 100_000_000;

/// Lets the second of these signals end us at once, even where we are stuck: behind
/// a reader that has stopped to read no signal is ever looked at. `farewell` is
/// written to standard output first, if there is room for it.
pub(super) fn abort_on_second(numbers: &[i32], farewell: fn() -> &'static str) -> io::Result<()> {
    // When the first came; 0 before.
    let first_ns = Arc::new(AtomicU64::new(0));
    for &number in numbers {
        let first_ns = Arc::clone(&first_ns);
        let handler = move || {
            let now_ns = monotonic_ns();
            let first = first_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
            if first.is_err_and(|first| now_ns - first >= SAME_NS) {
                say_if_there_is_room(farewell());
                // SAFETY: both are async-signal-safe. It is delivered when we return.
                unsafe {
                    libc::signal(number, libc::SIG_DFL);
                    libc::raise(number);
                }
            }
        };
        // SAFETY: the handler makes async-signal-safe calls only, and allocates nothing.
        unsafe { signal_hook_registry::register(number, handler)? };
    }
    Ok(())
}

/// For a signal handler.
fn say_if_there_is_room(text: &str) {
    let mut out = libc::pollfd {
        fd: libc::STDOUT_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: async-signal-safe calls with pointers to a whole pollfd and to the text.
    unsafe {
        if libc::poll(&raw mut out, 1, 0) == 1 {
            libc::write(out.fd, text.as_ptr().cast(), text.len());
        }
    }
}

fn is_ignored(number: i32) -> bool {
    // SAFETY: a structure of integers and a pointer; all zero is valid.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: only asks for the present disposition, into a whole structure.
    let asked = unsafe { libc::sigaction(number, ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
