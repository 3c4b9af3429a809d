//! Signals that must not end us before the report.

use std::{
    fmt::{self, Display},
    io, mem, ptr,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU64, Ordering},
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

/// Whether a signal asked for the end, for work that must tidy up before: the first is
/// noted, the second ends us at once.
#[derive(Debug)]
pub(super) struct Interrupted(Arc<AtomicI32>);

impl Interrupted {
    /// Takes over INT, TERM and HUP, as far as they were not ignored when we started.
    pub(super) fn listen() -> io::Result<Self> {
        let heard = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        let heard: Vec<_> = heard.into_iter().filter(|&n| !is_ignored(n)).collect();
        let noted = Arc::new(AtomicI32::new(0));
        for &number in &heard {
            let noted = Arc::clone(&noted);
            let note = move || noted.store(number, Ordering::Relaxed);
            // SAFETY: the handler stores a number, which is async-signal-safe.
            unsafe { signal_hook_registry::register(number, note)? };
        }
        abort_on_second(&heard, || "")?;
        Ok(Self(noted))
    }

    /// An error once a signal has come.
    pub(super) fn check(&self) -> Result<(), BySignal> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(BySignal(number)),
        }
    }
}

/// A signal that came, when all has been tidied up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BySignal(i32);

impl Display for BySignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signal {} came", self.0)
    }
}

impl std::error::Error for BySignal {}

impl BySignal {
    /// Ends this process by it, as if it had never been taken over.
    pub(super) fn end(self) -> ! {
        // SAFETY: both have no condition; the default of these signals is the end.
        unsafe {
            libc::signal(self.0, libc::SIG_DFL);
            libc::raise(self.0);
        }
        std::process::exit(128 + self.0)
    }
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
