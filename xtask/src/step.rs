//! Says on stderr what takes time, while it takes it, and keeps the list of how long each step took.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static FINISHED: Mutex<Vec<Finished>> = Mutex::new(Vec::new());

/// One step that came to its end.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    /// What was done.
    pub(crate) name: String,
    /// How long it took.
    pub(crate) took: Duration,
}

/// A step under way; one that is dropped without [`Step::done`] has failed.
#[must_use = "a step that is not kept ends at once, as failed"]
pub(crate) struct Step {
    name: String,
    start: Instant,
    done: bool,
}

impl Step {
    /// Says that the step starts.
    pub(crate) fn start(name: impl Into<String>) -> Self {
        let name = name.into();
        eprintln!("xtask: {name}");
        Self {
            name,
            start: Instant::now(),
            done: false,
        }
    }

    /// Says that the step is done and how long it took.
    pub(crate) fn done(mut self) {
        self.done = true;
        let took = self.start.elapsed();
        eprintln!("xtask: {} … {:.1} s", self.name, took.as_secs_f64());
        FINISHED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Finished {
                name: std::mem::take(&mut self.name),
                took,
            });
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.done {
            let seconds = self.start.elapsed().as_secs_f64();
            eprintln!("xtask: {} … failed after {seconds:.1} s", self.name);
        }
    }
}

/// Every step that this process has finished, oldest first.
pub(crate) fn finished() -> Vec<Finished> {
    FINISHED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}
