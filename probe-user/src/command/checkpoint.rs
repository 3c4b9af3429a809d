//! Checkpoints of `cowprobe run`: what was counted until then, in the record's file, so
//! that a run that comes to no end leaves something.
//!
//! They are written by another thread, one at a time: on a busy filesystem that takes
//! long, and orders must not wait for it. It begins with the privileges that the event
//! loop has left.

use std::{io, time::Duration};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};

use super::{
    counting::Counted,
    gate,
    say::remark,
    survey::Survey,
    written::{Begun, Run, text},
};
use crate::{cli::JudgeArgs, evidence::Replaced, wording::plain};

/// Where they go, and how often.
#[derive(Debug)]
pub(super) struct Checkpoints<'a> {
    survey: Survey,
    file: Replaced,
    run: Begun<'a>,
    judge: &'a JudgeArgs,
    ticks: Interval,
    writing: Option<JoinHandle<io::Result<()>>>,
    /// How many were begun, and how many of them failed.
    begun: u64,
    failed: u64,
}

impl<'a> Checkpoints<'a> {
    pub(super) fn every(
        period: Duration,
        file: Replaced,
        survey: Survey,
        (run, judge): (Begun<'a>, &'a JudgeArgs),
    ) -> Self {
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            survey,
            file,
            run,
            judge,
            ticks,
            writing: None,
            begun: 0,
            failed: 0,
        }
    }

    /// Until the next is due, and the last is written.
    pub(super) async fn due(&mut self) {
        self.written().await;
        self.ticks.tick().await;
    }

    /// Begins to write what was counted.
    pub(super) fn write(&mut self, counted: anyhow::Result<Counted>, wall_ns: u64) {
        self.begun += 1;
        let counted = match counted {
            Ok(counted) => counted,
            Err(error) => return self.failed(&format!("{error:#}")),
        };
        let (windows, scope) = (counted.windows.clone(), counted.scope.clone());
        let (total, found) = self.survey.judged(counted, gate(self.judge));
        let text = text(
            &self.survey,
            Run {
                begun: self.run,
                end: None,
                wall_ns,
                windows: &windows,
                total: total.as_ref(),
                scope: scope.as_ref(),
                detach_ns: None,
                expected: &[],
                code: 0,
                causes: Vec::new(),
                // What would fail the run if this were its end.
                warnings: [found.causes, found.warnings].concat(),
            },
        );
        let file = self.file.clone();
        self.writing = Some(spawn_blocking(move || file.write(&text)));
    }

    /// Waits until none is written, so that none is put in the final record's place.
    /// Returns how many there were, and how many of them could not be written.
    pub(super) async fn end(mut self) -> [u64; 2] {
        self.written().await;
        [self.begun, self.failed]
    }

    async fn written(&mut self) {
        let Some(writing) = &mut self.writing else {
            return;
        };
        let written = writing.await;
        self.writing = None;
        match written {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.failed(&plain(&error)),
            Err(error) => self.failed(&error.to_string()),
        }
    }

    /// The first is said; all are counted.
    fn failed(&mut self, why: &str) {
        self.failed += 1;
        if self.failed == 1 {
            remark(format_args!(
                "warning: a checkpoint could not be written: {why}; counting goes on"
            ));
        }
    }
}
