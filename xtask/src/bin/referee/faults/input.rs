//! Wrong input and missing rights: one line that says what to do, and the command
//! does not run.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::ensure;

use super::{
    super::{
        cowprobe::{RECORD, Ran, cowprobe, record},
        filesystem::{self, Load, MOUNT, sh},
    },
    MARK, nothing_ran,
};

pub(super) fn btrfs_not_loaded() -> anyhow::Result<String> {
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

pub(super) fn not_root() -> anyhow::Result<String> {
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

pub(super) fn unknown_subcommand() -> anyhow::Result<String> {
    let ran = cowprobe(&["wach"])?;
    ran.expect(2)?;
    ran.expect_line(&["wach", "--help"])?;
    Ok(ran.stderr)
}

pub(super) fn no_command() -> anyhow::Result<String> {
    let ran = cowprobe(&["run"])?;
    ran.expect(2)?;
    ran.expect_line(&["CMD", "--help"])?;
    Ok(ran.stderr)
}

/// Tables that nobody gets are no success.
pub(super) fn full_standard_error() -> anyhow::Result<String> {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = Command::new("cowprobe");
    let status = command
        .args(["run", "--", "true"])
        .stderr(full()?)
        .status()?;
    ensure!(status.code() == Some(2), "{status}");
    let mut command = Command::new("cowprobe");
    command.args(["run", "-o", RECORD, "--", "true"]);
    let status = command.stderr(full()?).status()?;
    ensure!(
        status.success() && record()?["exit"]["code"] == 0,
        "{status}"
    );
    Ok("2, and 0 with a record".to_owned())
}

/// Without /proc or /sys nothing is known, and that is what is said.
pub(super) fn nothing_mounted() -> anyhow::Result<String> {
    for place in ["/proc", "/sys"] {
        let script = format!("umount -l {place} && exec cowprobe run -- touch {MARK}");
        let mut command = Command::new("unshare");
        let out = command.args(["--mount", "sh", "-c", &script]).output()?;
        let ran = Ran::from_output(&out);
        ran.expect(2)?;
        ran.expect_line(&[&format!("is {place} mounted?")])?;
        nothing_ran()?;
    }
    Ok("each is named".to_owned())
}

pub(super) fn expectations() -> anyhow::Result<String> {
    let run = |expect: &str| cowprobe(&["run", "--expect", expect, "-o", RECORD, "--", "true"]);
    let held = run("remap==0")?;
    held.expect(0)?;
    ensure!(
        held.stderr.contains("expected remap==0: counted 0: held"),
        "{}",
        held.stderr
    );
    let failed = run("inhibit>=1")?;
    failed.expect(1)?;
    let line = "expected inhibit>=1: counted 0: failed";
    ensure!(failed.stderr.contains(line), "{}", failed.stderr);
    let record = record()?;
    ensure!(record["expectations"][0]["outcome"] == "failed", "{record}");
    let wrong = run("writeback==1")?;
    wrong.expect(2)?;
    wrong.expect_line(&["writeback", "write more of it"])?;
    Ok(failed.stderr.lines().last().unwrap_or_default().to_owned())
}

pub(super) fn command_not_found() -> anyhow::Result<String> {
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

pub(super) fn command_not_executable() -> anyhow::Result<String> {
    fs::write("/tmp/plain", "text")?;
    fs::set_permissions("/tmp/plain", Permissions::from_mode(0o644))?;
    let ran = cowprobe(&["run", "--", "/tmp/plain"])?;
    ran.expect(126)?;
    ran.expect_line(&["/tmp/plain", "permission denied"])?;
    Ok(ran.stderr)
}

pub(super) fn unwritable_output() -> anyhow::Result<String> {
    let ran = cowprobe(&["run", "-o", "/no/such/dir/r.json", "--", "touch", MARK])?;
    ran.expect(2)?;
    ran.expect_line(&["cannot write /no/such/dir/r.json"])?;
    nothing_ran()?;
    Ok(ran.stderr)
}

/// Files for which there was no room must not pass for prepared.
pub(super) fn full_filesystem() -> anyhow::Result<String> {
    let none = Load {
        tasks: 0,
        operations: 0,
    };
    filesystem::fresh(none)?;
    let fill = format!("cat /dev/zero > {MOUNT}/fill 2>/dev/null; sync; ls -A {MOUNT}");
    sh("sh", &["-c", &fill])?;
    let args = ["bench", "remap", "-n", "5000"];
    let ran = cowprobe(&[&args[..], &["--prepare", MOUNT]].concat())?;
    let names = sh("ls", &["-A", MOUNT])?;
    let again = cowprobe(&[&args[..], &["--prepared", MOUNT]].concat())?;
    filesystem::unmount()?;
    ran.expect(2)?;
    ran.expect_line(&[
        "61440000 bytes; they are removed",
        "no space left on device",
    ])?;
    ensure!(names.trim() == "fill", "left behind: {names}");
    again.expect(2)?;
    again.expect_line(&["run with --prepare first"])?;
    Ok(ran.stderr)
}

pub(super) fn full_disk() -> anyhow::Result<String> {
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
