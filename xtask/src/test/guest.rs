//! Boots a guest for each suite and takes over what the referee in it says.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::report::{Part, Report};
use super::suites::{Judged, Suite};
use crate::build_cmd::{self, Programs};
use crate::repository;
use crate::setup::kernels::Request;
use crate::step::Step;
use crate::vm::{Machine, Output, VmSpec};

/// The golden texts of the terminal.
const GOLDEN: [&str; 4] = ["60", "80", "200", "totals"];

/// What each guest runs.
const PROGRAMS: &str = "guest programs";

/// Runs the suites one after the other: one guest at a time.
pub(super) fn run(suites: &[&Suite], report: &mut Report) {
    let (programs, share) = match programs() {
        Ok(built) => built,
        Err(error) => {
            report.part(PROGRAMS).failed(format!("{error:#}"));
            for suite in suites {
                report.part(suite.name()).skipped(format!("no {PROGRAMS}"));
            }
            return;
        }
    };
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
        let run = machine.and_then(|machine| run_on(&machine, &request, suite, share.path(), part));
        if let Err(error) = run {
            part.failed(format!("{error:#}"));
        }
        step.done();
    }
}

/// Builds what a guest runs; the referee is alone in its directory.
fn programs() -> Result<(Programs, TempDir)> {
    let programs = build_cmd::programs()?;
    Ok((programs, build_cmd::referee_alone()?))
}

fn run_on(
    machine: &Machine,
    request: &Request,
    suite: &Suite,
    share: &Path,
    part: &mut Part,
) -> Result<()> {
    if !request.is_met_by(&machine.kernel) {
        part.skipped(format!(
            "the archive has no {} any more; {} is another series",
            suite.kernel, machine.kernel.name
        ));
        return Ok(());
    }
    part.rename(suite.row(&machine.kernel.name));
    let mut spec = VmSpec::new(format!("/t/referee {}", suite.arguments())).in_rootfs();
    spec.smp = suite.smp;
    spec.icount = suite.icount;
    suite.append.clone_into(&mut spec.append);
    spec.modules = suite.modules.iter().map(|&m| m.to_owned()).collect();
    spec.share = vec![share.to_owned()];
    spec.limit = suite.limit();
    spec.output = Output::Shown;
    let captures = captures();
    if captures.exists() {
        fs::remove_dir_all(&captures).context("failed to remove old captures")?;
    }
    spec.out = Some(captures);
    let result = machine.boot(&spec)?;
    if suite.judged == Judged::Terminal && std::env::var_os("UPDATE").is_some() {
        update_golden()?;
    }
    part.referee(&String::from_utf8_lossy(&result.stdout), result.status);
    Ok(())
}

/// Where a guest leaves what it captured.
fn captures() -> PathBuf {
    build_cmd::target_dir().join("captures")
}

/// Takes the masked captures for the golden texts.
fn update_golden() -> Result<()> {
    let golden = repository().join("xtask/src/bin/referee/terminal");
    for name in GOLDEN {
        let capture = captures().join(format!("{name}.masked.txt"));
        let place = golden.join(format!("{name}.txt"));
        fs::copy(&capture, &place).with_context(|| format!("no {}", capture.display()))?;
    }
    Ok(())
}
