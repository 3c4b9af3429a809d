//! A kernel that lets nobody look into it: one line that names what forbids it.

use anyhow::ensure;

use super::{cowprobe::cowprobe, report::Report};

const MODE: &str = "/sys/kernel/security/lockdown";

pub(crate) fn run(report: &mut Report) {
    report.plan(1);
    report.check("lockdown is named", named());
}

fn named() -> anyhow::Result<String> {
    let mode = std::fs::read_to_string(MODE)?;
    ensure!(mode.contains("[confidentiality]"), "{MODE} is {mode}");
    let ran = cowprobe(&["run", "--", "touch", "/tmp/mark"])?;
    ran.expect(2)?;
    ran.expect_line(&["lockdown is confidentiality", "boot without it"])?;
    ensure!(
        !std::fs::exists("/tmp/mark")?,
        "the command ran all the same"
    );
    let checked = cowprobe(&["check"])?;
    checked.expect(1)?;
    for words in ["lockdown      confidentiality", "boot without it"] {
        ensure!(checked.stdout.contains(words), "{}", checked.stdout);
    }
    Ok(ran.stderr)
}
