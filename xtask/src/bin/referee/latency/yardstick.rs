//! What a timed pair of probes costs: `umask(2)` does next to nothing, so what a
//! call takes longer with the probes is theirs.

use std::{fs, time::Instant};

use anyhow::Context as _;

use super::{
    super::filesystem::sh,
    times::{Script, by_bpftrace, by_cowprobe},
};

pub(crate) const FUNCTION: &str = "__x64_sys_umask";
/// Calls of a round.
const CALLS: u32 = 20_000;
/// The first warms up.
const ROUNDS: u32 = 6;
/// All of them.
pub(crate) const HITS: u64 = CALLS as u64 * ROUNDS as u64;

/// What the loop leaves: the time of a call in ps.
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
    let more = |with: u64| {
        let ps = with.checked_sub(bare).context("probes made it faster")?;
        Ok::<u64, anyhow::Error>(ps / 1000)
    };
    Ok(Pairs {
        cost_ns: [more(cowprobe)?, more(bpftrace)?],
        says_ns: [ours[0].mean_ns(), theirs[0].mean_ns()],
    })
}

/// What a call took in the median of the rounds, in ps.
pub(crate) fn left() -> anyhow::Result<u64> {
    let text = fs::read_to_string(LEFT).context("the loop left nothing")?;
    fs::remove_file(LEFT)?;
    text.parse().context("the loop left no number")
}

/// The loop.
pub(crate) fn umask() -> anyhow::Result<()> {
    let mask = nix::sys::stat::Mode::from_bits_truncate(0o22);
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            nix::sys::stat::umask(mask);
        }
        start.elapsed().as_nanos() * 1000 / u128::from(CALLS)
    };
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round()).skip(1).collect();
    rounds.sort_unstable();
    Ok(fs::write(LEFT, rounds[rounds.len() / 2].to_string())?)
}
