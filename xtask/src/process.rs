//! Runs the host's tools, and turns their failures into errors that quote what the tool said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow, bail};

/// How many of a failed tool's last lines are quoted.
const QUOTED_LINES: usize = 15;

/// Runs a tool in silence and returns what it wrote to stdout.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = finish(command)?;
    String::from_utf8(output.stdout).with_context(|| format!("{} wrote no UTF-8", name(command)))
}

/// Runs a tool in silence; what it says is shown only if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    finish(command).map(drop)
}

/// Runs a tool whose messages are worth seeing; all of them go to stderr.
pub(crate) fn run_shown(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| cannot_start(command, &error))?;
    if !status.success() {
        bail!(
            "{} failed ({status}): see its messages above",
            name(command)
        );
    }
    Ok(())
}

/// Runs a tool in silence; if it fails, all that it said goes to stderr.
pub(crate) fn run_told(command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        bail!(
            "{} failed ({}): see its messages above",
            name(command),
            output.status
        );
    }
    Ok(())
}

/// Where a tool is, looked for in `PATH` and where Debian keeps the administrator's tools.
pub(crate) fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(tool))
        .find(|file| file.is_file())
}

/// A command for a tool that may live in an administrator's directory.
pub(crate) fn tool(tool: &str) -> Command {
    find(tool).map_or_else(|| Command::new(tool), Command::new)
}

/// Whether this process may install packages and make device nodes.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn finish(command: &mut Command) -> Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        let said = [output.stderr.as_slice(), &output.stdout].concat();
        bail!(
            "{} failed ({}):\n{}",
            name(command),
            output.status,
            last_lines(&said, QUOTED_LINES)
        );
    }
    Ok(output)
}

/// The last lines of what a tool said, each indented.
pub(crate) fn last_lines(said: &[u8], count: usize) -> String {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..]
        .iter()
        .map(|line| format!("    {}", line.trim_end()))
        .collect::<Vec<_>>()
        .join("\n")
}

fn cannot_start(command: &Command, error: &std::io::Error) -> anyhow::Error {
    anyhow!(
        "failed to start {}: {error}; `cargo xtask setup` installs what is needed",
        name(command)
    )
}

fn name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut name = program
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy()
        .into_owned();
    if let Some(first) = command
        .get_args()
        .find(|a| !a.to_string_lossy().starts_with('-'))
    {
        name.push(' ');
        name.push_str(&first.to_string_lossy());
    }
    name
}
