//! The init of a test guest: sets the machine up, runs one shell command, reports, and leaves.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};

mod leave;
mod mounts;
#[path = "../../plan.rs"]
mod plan;
mod ports;
mod session;
mod system;

use plan::{PLAN_PATH, PORT_FILES, PORT_VERDICT, Plan, Verdict};

fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("guest: this is the init of a test guest and does nothing elsewhere");
        return ExitCode::from(2);
    }
    let verdict = run().unwrap_or_else(|error| Verdict::Failed {
        reason: format!("{error:#}"),
    });
    if let Err(error) = report(&verdict) {
        // The console is all that is left.
        eprintln!("guest: {error:#}; the verdict was {verdict:?}");
    }
    leave::leave()
}

fn run() -> Result<Verdict> {
    mounts::mount_all()?;
    let text = std::fs::read(PLAN_PATH).with_context(|| format!("failed to read {PLAN_PATH}"))?;
    let plan: Plan = serde_json::from_slice(&text).context("failed to understand the plan")?;
    system::set_up(&plan.modules)?;
    let mut ports = session::Ports::open()?;
    let mut files = ports::open(PORT_FILES)?;
    if plan.rootfs {
        mounts::enter_rootfs()?;
    }
    let started_s = system::uptime_s()?;
    let status = session::run(&plan.command, &mut ports)?;
    let ended_s = system::uptime_s()?;
    if plan.bring_back {
        send_files(&mut files).context("failed to send back what is in /out")?;
    }
    Ok(Verdict::Ended {
        status,
        started_s,
        ended_s,
    })
}

fn send_files(port: &mut File) -> Result<()> {
    let mut tar = tar::Builder::new(port);
    tar.follow_symlinks(false);
    tar.append_dir_all(".", "/out")?;
    tar.into_inner()?.flush()?;
    Ok(())
}

fn report(verdict: &Verdict) -> Result<()> {
    let text = serde_json::to_vec(verdict)?;
    ports::open(PORT_VERDICT)?.write_all(&text)?;
    Ok(())
}
