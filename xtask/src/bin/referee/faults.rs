//! What goes wrong in a user's hands: one line that says what to do, the right
//! exit status, nothing lost, nothing left attached.

use std::{
    fs::{self, Permissions},
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};

use super::{
    attached::Attached,
    cowprobe::{RECORD, Ran, cowprobe, record},
    filesystem::sh,
    report::Report,
};

/// A file that a command makes, to show that it ran.
const MARK: &str = "/tmp/the-command-ran";

type Check = (&'static str, fn() -> anyhow::Result<String>);

const CHECKS: &[Check] = &[
    ("not root", not_root),
    ("capabilities are enough", capabilities_are_enough),
    ("unknown subcommand", unknown_subcommand),
    ("no command", no_command),
    ("command not found", command_not_found),
    ("command not executable", command_not_executable),
    ("unwritable output", unwritable_output),
    ("full disk", full_disk),
    ("the command fails", the_command_fails),
    ("the command is killed", the_command_is_killed),
    ("streams are the command's own", streams_are_untouched),
    ("TERM reaches the command", term_is_passed_on),
    ("check leaves nothing", check_leaves_nothing),
    ("kill -9 leaves nothing", kill_leaves_nothing),
];

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.check("btrfs not loaded", without_leftovers(btrfs_not_loaded));
    sh("modprobe", &["btrfs"])?;
    for (name, check) in CHECKS {
        report.check(name, without_leftovers(*check));
    }
    Ok(())
}

/// Runs a check and compares what is attached before and after.
fn without_leftovers(check: fn() -> anyhow::Result<String>) -> anyhow::Result<String> {
    let _ = fs::remove_file(MARK);
    let _ = fs::remove_file(RECORD);
    let before = Attached::list()?;
    let detail = check()?;
    before.expect_again()?;
    Ok(detail)
}

/// Fails if the command ran that should not have.
fn nothing_ran() -> anyhow::Result<()> {
    ensure!(!Path::new(MARK).exists(), "the command ran all the same");
    Ok(())
}

fn btrfs_not_loaded() -> anyhow::Result<String> {
    let ran = cowprobe(&["run", "-o", RECORD, "--", "touch", MARK])?;
    ran.expect(2)?;
    ran.expect_line(&["btrfs is not loaded", "modprobe btrfs"])?;
    nothing_ran()?;
    let ran_check = cowprobe(&["check"])?;
    ran_check.expect(1)?;
    ensure!(
        ran_check.stdout.contains("modprobe btrfs"),
        "{}",
        ran_check.stdout
    );
    Ok(ran.stderr)
}

fn not_root() -> anyhow::Result<String> {
    let mut command = Command::new("cowprobe");
    command
        .args(["run", "--", "touch", MARK])
        .uid(65534)
        .gid(65534);
    let ran = Ran::from_output(&command.stdin(Stdio::null()).output()?);
    ran.expect(2)?;
    ran.expect_line(&["not permitted", "run as root"])?;
    nothing_ran()?;
    let mut check = Command::new("cowprobe");
    let out = check.arg("check").uid(65534).gid(65534).output()?;
    let checked = Ran::from_output(&out);
    checked.expect(1)?;
    ensure!(checked.stdout.contains("run as root"), "{}", checked.stdout);
    Ok(ran.stderr)
}

fn capabilities_are_enough() -> anyhow::Result<String> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups"]);
    command.args([
        "--inh-caps",
        "+bpf,+perfmon",
        "--ambient-caps",
        "+bpf,+perfmon",
    ]);
    command.args(["cowprobe", "run", "--", "id", "-u"]);
    let ran = Ran::from_output(&command.stdin(Stdio::null()).output()?);
    ran.expect(0)?;
    ensure!(ran.stdout == "65534\n", "{}", ran.stdout);
    ensure!(
        ran.stderr.contains("btrfs_remap_file_range"),
        "{}",
        ran.stderr
    );
    Ok("CAP_BPF and CAP_PERFMON alone".to_owned())
}

fn unknown_subcommand() -> anyhow::Result<String> {
    let ran = cowprobe(&["wach"])?;
    ran.expect(2)?;
    ran.expect_line(&["wach", "--help"])?;
    Ok(ran.stderr)
}

fn no_command() -> anyhow::Result<String> {
    let ran = cowprobe(&["run"])?;
    ran.expect(2)?;
    ran.expect_line(&["CMD", "--help"])?;
    Ok(ran.stderr)
}

fn command_not_found() -> anyhow::Result<String> {
    let ran = cowprobe(&["run", "-o", RECORD, "--", "no-such-command"])?;
    ran.expect(127)?;
    ran.expect_line(&["no-such-command", "no such file or directory"])?;
    let record = record()?;
    ensure!(record["exit"]["code"] == 127, "{record}");
    ensure!(
        record["windows"].as_array().is_some_and(Vec::is_empty),
        "{record}"
    );
    Ok(ran.stderr)
}

fn command_not_executable() -> anyhow::Result<String> {
    fs::write("/tmp/plain", "text")?;
    fs::set_permissions("/tmp/plain", Permissions::from_mode(0o644))?;
    let ran = cowprobe(&["run", "--", "/tmp/plain"])?;
    ran.expect(126)?;
    ran.expect_line(&["/tmp/plain", "permission denied"])?;
    Ok(ran.stderr)
}

fn unwritable_output() -> anyhow::Result<String> {
    let ran = cowprobe(&["run", "-o", "/no/such/dir/r.json", "--", "touch", MARK])?;
    ran.expect(2)?;
    ran.expect_line(&["cannot write /no/such/dir/r.json"])?;
    nothing_ran()?;
    Ok(ran.stderr)
}

fn full_disk() -> anyhow::Result<String> {
    let dir = "/tmp/small";
    fs::create_dir_all(dir)?;
    sh("mount", &["-t", "tmpfs", "-o", "size=64k", "tmpfs", dir])?;
    let path = format!("{dir}/r.json");
    fs::write(&path, "an older record")?;
    let fill = format!("touch {MARK}; cat /dev/zero > {dir}/fill 2>/dev/null; true");
    let ran = cowprobe(&["run", "-o", &path, "--", "sh", "-c", &fill])?;
    let older = fs::read_to_string(&path)?;
    sh("umount", &[dir])?;
    ran.expect(2)?;
    ensure!(Path::new(MARK).exists(), "the command did not run");
    ensure!(
        older == "an older record",
        "the older record is lost: {older:?}"
    );
    for words in [
        "the record is lost",
        "no space left",
        "btrfs_remap_file_range",
    ] {
        ensure!(
            ran.stderr.contains(words),
            "{words:?} is missing: {}",
            ran.stderr
        );
    }
    Ok("the table is printed, the older record is kept; exit 2".to_owned())
}

fn the_command_fails() -> anyhow::Result<String> {
    let ran = cowprobe(&["run", "-o", RECORD, "--", "sh", "-c", "exit 7"])?;
    ran.expect(7)?;
    let record = record()?;
    ensure!(
        record["command"]["status"] == 7 && record["exit"]["code"] == 7,
        "{record}"
    );
    ensure!(record["targets"][0]["calls"] == 0, "{record}");
    Ok("7 is passed on".to_owned())
}

fn the_command_is_killed() -> anyhow::Result<String> {
    let ran = cowprobe(&["run", "-o", RECORD, "--", "sh", "-c", "kill -9 $$"])?;
    ran.expect(137)?;
    let record = record()?;
    ensure!(record["command"]["signal"] == 9, "{record}");
    Ok("137".to_owned())
}

fn streams_are_untouched() -> anyhow::Result<String> {
    let mut command = Command::new("cowprobe");
    command.args(["run", "--", "sh", "-c", "cat; echo from the command >&2"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let bytes = b"in\0and out\xff\n";
    child.stdin.take().context("no pipe")?.write_all(bytes)?;
    let out = child.wait_with_output()?;
    ensure!(out.stdout == bytes, "{:?}", out.stdout);
    let ran = Ran::from_output(&out);
    ran.expect(0)?;
    ensure!(
        ran.stderr.starts_with("from the command\n"),
        "{}",
        ran.stderr
    );
    ensure!(
        ran.stderr.contains("btrfs_remap_file_range"),
        "{}",
        ran.stderr
    );
    Ok("12 bytes through, the table on stderr".to_owned())
}

/// Starts a run of a command that waits, and returns when its probes are there.
fn waiting_run() -> anyhow::Result<Child> {
    let before = Attached::list()?;
    let mut command = Command::new("cowprobe");
    command.args(["run", "-o", RECORD, "--", "sh", "-c"]);
    command.arg(format!("echo $$ > {MARK}; exec sleep 60"));
    let child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(100));
        if fs::read_to_string(MARK).is_ok_and(|text| text.ends_with('\n')) {
            let now = Attached::list()?;
            let programs = (
                now.programs("cowprobe_entry"),
                now.programs("cowprobe_return"),
            );
            ensure!(programs == (3, 3), "{programs:?} programs");
            let kprobes = now.kprobes() - before.kprobes();
            ensure!(kprobes == 6, "{kprobes} kprobes");
            return Ok(child);
        }
    }
    bail!("the command does not start");
}

fn term_is_passed_on() -> anyhow::Result<String> {
    let child = waiting_run()?;
    sh("kill", &["-TERM", &child.id().to_string()])?;
    let ran = Ran::from_output(&child.wait_with_output()?);
    ran.expect(143)?;
    ensure!(
        ran.stderr.contains("btrfs_remap_file_range"),
        "{}",
        ran.stderr
    );
    ensure!(record()?["command"]["signal"] == 15, "{}", record()?);
    Ok("143, table and record".to_owned())
}

fn check_leaves_nothing() -> anyhow::Result<String> {
    let ran = cowprobe(&["check"])?;
    ran.expect(0)?;
    Ok("attached for real, nothing left".to_owned())
}

fn kill_leaves_nothing() -> anyhow::Result<String> {
    let mut child = waiting_run()?;
    child.kill()?;
    child.wait()?;
    let command = fs::read_to_string(MARK)?;
    sh("kill", &[command.trim()])?;
    ensure!(!Path::new(RECORD).exists(), "half a record");
    Ok("3 + 3 programs and 6 kprobes were there, none is".to_owned())
}
