//! How far a benchmark is, on a terminal. It is drawn between the loops alone, by the
//! thread that runs them: no clock ticks beside what is timed.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error, if that is a terminal; gone when it is dropped.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn of(rounds: u64) -> Self {
        let form = "{msg:12} {wide_bar} {pos}/{len}, {eta} left";
        let style = ProgressStyle::with_template(form).expect("a template");
        // Each is drawn as it comes.
        let target = ProgressDrawTarget::stderr_with_hz(u8::MAX);
        Self(ProgressBar::with_draw_target(Some(rounds), target).with_style(style))
    }

    pub(super) fn at(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    pub(super) fn next(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
