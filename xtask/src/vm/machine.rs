//! A machine that can be booted many times: all that is fetched, built or made is there.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::streams::{self, Port};
use super::{VmResult, VmSpec, failure, initramfs, qemu};
use crate::build_cmd::{self, Programs};
use crate::plan::{PORT_ERR, PORT_FILES, PORT_OUT, PORT_VERDICT, Verdict};
use crate::setup::kernels::{self, Kernel};
use crate::setup::{guest_tools, rootfs};

/// All that a boot needs beside its [`VmSpec`].
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The kernel.
    pub(crate) kernel: Kernel,
    pub(super) programs: Programs,
    pub(super) tools: PathBuf,
    pub(super) rootfs: Option<PathBuf>,
}

impl Machine {
    /// Fetches, makes and builds what is missing. Nothing is left to do for the boots that follow.
    pub(crate) fn prepare(request: &kernels::Request, with_rootfs: bool) -> Result<Self> {
        let programs = build_cmd::programs()?;
        Self::with_programs(programs, request, with_rootfs)
    }

    /// The same with programs that are built already, for those who boot several kernels.
    pub(crate) fn with_programs(
        programs: Programs,
        request: &kernels::Request,
        with_rootfs: bool,
    ) -> Result<Self> {
        let (tools, _) = guest_tools::ensure()?;
        let (kernel, _) = request.ensure()?;
        let rootfs = if with_rootfs {
            Some(rootfs::ensure()?.0)
        } else {
            None
        };
        Ok(Self {
            kernel,
            programs,
            tools,
            rootfs,
        })
    }

    /// Boots a guest and waits for its end. A guest that panics, hangs, or leaves without a verdict is
    /// an error; the command's own failure is not. The calling thread must stay: QEMU dies with it.
    pub(crate) fn boot(&self, spec: &VmSpec) -> Result<VmResult> {
        spec.check()?;
        let start = Instant::now();
        let initrd = initramfs::write(self, spec)?;
        let mut out_dir = None;
        if let Some(dir) = &spec.out {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("failed to make {}", dir.display()))?;
            out_dir = Some(dir.clone());
        }
        let mut child = qemu::start(self, spec, &initrd)?;
        let (sender, ended) = channel::<()>();
        let collected = std::thread::scope(|scope| {
            let collect = |port: Port| streams::collect(scope, port, sender.clone());
            let shown = spec.output;
            let console = collect(child.port("console"));
            let stdout = collect(child.port(PORT_OUT).shown_on_stdout(shown));
            let stderr = collect(child.port(PORT_ERR).shown_on_stderr(shown));
            let verdict = collect(child.port(PORT_VERDICT));
            let said = collect(child.messages());
            let files = streams::unpack(scope, child.port(PORT_FILES), out_dir, sender.clone());
            drop(sender);
            // Every stream ends with QEMU, so the last sender's end is QEMU's.
            let in_time = wait(&ended, start + spec.limit);
            let status = child.end(in_time);
            streams::Collected {
                console: streams::join(console),
                stdout: streams::join(stdout),
                stderr: streams::join(stderr),
                verdict: streams::join(verdict),
                said: streams::join(said),
                files: streams::join(files),
                in_time,
                status,
            }
        });
        self.judge(spec, collected, start.elapsed())
    }

    fn judge(&self, spec: &VmSpec, got: streams::Collected, took: Duration) -> Result<VmResult> {
        match serde_json::from_slice(&got.verdict) {
            Ok(Verdict::Ended {
                status,
                started_s,
                ended_s,
            }) => {
                got.files
                    .context("failed to bring back what the command left in /out")?;
                Ok(VmResult {
                    status,
                    stdout: got.stdout,
                    stderr: got.stderr,
                    console: got.console,
                    took,
                    started: Duration::from_secs_f64(started_s),
                    ran: Duration::from_secs_f64((ended_s - started_s).max(0.0)),
                })
            }
            Ok(Verdict::Failed { reason }) => {
                bail!(
                    "the guest with {} could not run the command: {reason}",
                    self.kernel.name
                )
            }
            Err(_) => bail!(failure::explain(&self.kernel.name, spec, &got, took)),
        }
    }
}

/// Waits for the end of all senders; false when the time is up before.
fn wait(ended: &std::sync::mpsc::Receiver<()>, until: Instant) -> bool {
    loop {
        match ended.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}
