//! `cowprobe verify`: computes a bundle again, offline.

use std::{io::Write, process::ExitCode};

use anyhow::anyhow;

use super::{GATE_FAILED, put, say::say};
use crate::{cli::VerifyArgs, evidence::Verified};

/// Says of each file what was computed again, and then what does not follow.
pub(super) fn verify(args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let verified = Verified::of(&args.dir).map_err(|why| anyhow!(why))?;
    for line in &verified.said {
        put(
            out,
            &format!(
                "{line}
"
            ),
        )?;
    }
    if verified.wrong.is_empty() {
        put(out, "all that can be computed again follows\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in &verified.wrong {
        say(line);
    }
    Ok(ExitCode::from(GATE_FAILED))
}
