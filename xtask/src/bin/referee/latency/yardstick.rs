//! What a timed pair of probes costs: `umask(2)` does next to nothing, so what a
//! call takes longer with the probes is theirs.

use std::{fs, time::Instant};

use anyhow::Context as _;

use super::{
    super::filesystem::sh,
    times::{Script, by_bpftrace, by_cowprobe},
};

const FUNCTION: &str = "__x64_sys_umask";
const CALLS: u32 = 20_000;

/// What the loop leaves: the time of a call in ns.
const LEFT: &str = "/tmp/umask";

/// What a pair of probes costs, cowprobe's and bpftrace's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs {
    pub(super) cost_ns: [u64; 2],
    /// The loop's calls as each tool times them: the call's own time is the same in
    /// both, so that their difference is that of the tools.
    pub(super) says_ns: [u64; 2],
}

/// Measures both.
pub(super) fn pairs(script: Script) -> anyhow::Result<Pairs> {
    let me = std::env::current_exe()?;
    let me = me.to_str().context("a path that is not UTF-8")?;
    sh(me, &["umask"])?;
    let bare = left()?;
    let ours = by_cowprobe(&[FUNCTION], &format!("{me} umask"))?;
    let cowprobe = left()?;
    let theirs = by_bpftrace(script, &[FUNCTION], &format!("{me} umask"))?;
    let bpftrace = left()?;
    let more = |with: u64| with.checked_sub(bare).context("probes made it faster");
    Ok(Pairs {
        cost_ns: [more(cowprobe)?, more(bpftrace)?],
        says_ns: [ours[0].mean_ns(), theirs[0].mean_ns()],
    })
}

fn left() -> anyhow::Result<u64> {
    let text = fs::read_to_string(LEFT).context("the loop left nothing")?;
    fs::remove_file(LEFT)?;
    text.parse().context("the loop left no number")
}

/// The loop.
pub(crate) fn umask() -> anyhow::Result<()> {
    let mask = nix::sys::stat::Mode::from_bits_truncate(0o22);
    let start = Instant::now();
    for _ in 0..CALLS {
        nix::sys::stat::umask(mask);
    }
    let ns = start.elapsed().as_nanos() / u128::from(CALLS);
    Ok(fs::write(LEFT, ns.to_string())?)
}
