//! Boots a guest for each suite and takes over what the referee in it says.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::report::{Part, Report};
use super::suites::Suite;
use crate::build_cmd;
use crate::setup::kernels::Request;
use crate::step::Step;
use crate::vm::{Machine, Output, VmSpec};

/// Runs the suites one after the other: one guest at a time.
pub(super) fn run(suites: &[&Suite], report: &mut Report) -> Result<()> {
    let programs = build_cmd::programs()?;
    let share = tempfile::tempdir().context("failed to make a directory for the referee")?;
    let referee = share.path().join("referee");
    fs::copy(build_cmd::referee()?, &referee).context("failed to copy the referee")?;
    for suite in suites {
        let part = report.part(suite.name());
        let request = match Request::parse(suite.kernel) {
            Ok(request) => request,
            Err(error) if suite.optional => {
                part.skipped(format!("{error:#}"));
                continue;
            }
            Err(error) => {
                part.failed(format!("{error:#}"));
                continue;
            }
        };
        let step = Step::start(format!("test: {}", suite.name()));
        let machine = Machine::with_programs(programs.clone(), &request, true);
        if let Err(error) = machine.and_then(|machine| boot(&machine, suite, share.path(), part)) {
            part.failed(format!("{error:#}"));
        }
        step.done();
    }
    Ok(())
}

fn boot(machine: &Machine, suite: &Suite, share: &Path, part: &mut Part) -> Result<()> {
    let mut spec = VmSpec::new(format!("/t/referee {}", suite.judged.arguments())).in_rootfs();
    spec.smp = suite.smp;
    suite.append.clone_into(&mut spec.append);
    spec.modules = suite.modules.iter().map(|&m| m.to_owned()).collect();
    spec.share = vec![share.to_owned()];
    spec.limit = Duration::from_mins(15);
    spec.output = Output::Shown;
    let result = machine.boot(&spec)?;
    part.referee(&String::from_utf8_lossy(&result.stdout));
    Ok(())
}
