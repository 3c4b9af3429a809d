//! Says why a boot gave no verdict.

use std::time::Duration;

use super::streams::Collected;
use super::{Output, VmSpec};
use crate::process::last_lines;

/// How many lines of the console are shown.
const CONSOLE_LINES: usize = 15;

/// One paragraph: what happened, what to try, and the console's last lines.
pub(super) fn explain(kernel: &str, spec: &VmSpec, got: &Collected, took: Duration) -> String {
    let status = match &got.status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    let what = if !got.in_time {
        format!(
            "the guest with {kernel} did not end within {} s; --timeout gives it longer",
            spec.limit.as_secs()
        )
    } else if let Some(reason) = panic_reason(&got.console) {
        let seconds = took.as_secs_f64();
        format!("the kernel {kernel} panicked after {seconds:.1} s: {reason}")
    } else if got.console.is_empty() && !got.said.is_empty() {
        format!("QEMU could not boot {kernel} ({status})")
    } else {
        format!("the guest with {kernel} ended without a verdict (QEMU: {status})")
    };
    let quote = |title: &str, said: &[u8]| match last_lines(said, CONSOLE_LINES) {
        lines if lines.is_empty() => String::new(),
        lines => format!("\n{title}:\n{lines}"),
    };
    let silence = if got.console.is_empty() && got.said.is_empty() {
        "\nthe kernel said nothing on the console"
    } else {
        ""
    };
    let qemu = quote("QEMU says", &got.said);
    // Whoever shows the output has shown it already.
    let command = match spec.output {
        Output::Quiet => quote(
            "the command's last lines",
            &[got.stdout.as_slice(), &got.stderr].concat(),
        ),
        Output::Shown => String::new(),
    };
    let console = quote("the console's last lines", &got.console);
    format!("{what}{qemu}{command}{console}{silence}")
}

/// What the kernel panicked of; its register dump often fills all of the last lines.
fn panic_reason(console: &[u8]) -> Option<String> {
    String::from_utf8_lossy(console)
        .lines()
        .find_map(|line| line.split_once("Kernel panic - not syncing: "))
        .map(|(_, reason)| reason.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn check(console: &str, said: &str, in_time: bool, expected: &str) {
        let got = Collected {
            console: console.into(),
            stdout: Vec::new(),
            stderr: Vec::new(),
            verdict: Vec::new(),
            said: said.into(),
            files: Ok(()),
            in_time,
            status: Ok(ExitStatus::from_raw(0)),
        };
        let text = explain("7.3.4", &VmSpec::new("true"), &got, Duration::from_secs(4));
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.ends_with(console.lines().last().unwrap_or(said)),
            "{text}"
        );
    }

    #[test]
    fn each_end_has_its_own_words() {
        check(
            "[ 1.0] Kernel panic - not syncing: sysrq triggered crash\r\nlast",
            "",
            true,
            "the kernel 7.3.4 panicked after 4.0 s: sysrq triggered crash\nthe console",
        );
        check(
            "booting",
            "",
            false,
            "the guest with 7.3.4 did not end within 120 s; --timeout",
        );
        check("", "no such file", true, "QEMU could not boot 7.3.4");
        check(
            "reboot",
            "",
            true,
            "the guest with 7.3.4 ended without a verdict (QEMU: exit status: 0)",
        );
    }
}
