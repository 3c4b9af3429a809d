//! Windows that a client opens and closes by perf stat's control protocol, as the
//! public reproducer does.

use std::{
    fs,
    io::Read as _,
    process::{Child, Command, Stdio},
    time::{Instant, SystemTime},
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    client::{ACK, CLONES, CTL, Scenario},
    cowprobe::{RECORD, Ran, cowprobe, document, missed, record, status},
    filesystem::{self, Load, sh},
    report::{Check, Report},
};

const CTL_FIFO: &str = "/tmp/ctl";
const ACK_FIFO: &str = "/tmp/ack";

const LOAD: Load = Load {
    tasks: 1,
    operations: 1,
};

/// How much is ordered where it is much.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Much {
    /// Windows of one clone, under load
    #[arg(long)]
    pairs: usize,
    /// Clients with windows of 10 ms, one after the other
    #[arg(long)]
    rounds: u32,
    /// Windows of each of them
    #[arg(long)]
    windows: usize,
}

const CHECKS: &[Check] = &[
    ("two windows", two_windows),
    ("orders that are none", garbage),
    ("a reader that went away", no_reader),
    ("never enabled", never_enabled),
    ("a delay", a_delay),
    ("stop", stop),
    ("descriptors", descriptors),
    ("ready", ready),
    ("bad places", bad_places),
];

pub(crate) fn run(report: &mut Report, much: Much) -> anyhow::Result<()> {
    report.plan(CHECKS.len() + 1 + usize::try_from(much.rounds)?);
    filesystem::fresh(LOAD)?;
    for fifo in [CTL_FIFO, ACK_FIFO] {
        sh("mkfifo", &[fifo])?;
    }
    report.check("many pairs under load", many_pairs(much.pairs));
    for round in 1..=much.rounds {
        let name = format!("many short windows in a long one, {round}");
        report.check(&name, short_windows(much.windows));
    }
    report.run(CHECKS);
    filesystem::unmount()
}

/// Runs cowprobe with a client as its command.
fn with_client(scenario: Scenario, more: &[&str]) -> anyhow::Result<(Ran, Value)> {
    with_windows(scenario, 0, more)
}

/// The same where the client has many windows.
fn with_windows(scenario: Scenario, windows: usize, more: &[&str]) -> anyhow::Result<(Ran, Value)> {
    let me = std::env::current_exe()?;
    let control = format!("fifo:{CTL_FIFO},{ACK_FIFO}");
    let mut command = Command::new("cowprobe");
    command.args(["run", "--control", &control, "-o", RECORD]);
    command.args(more).arg("--").arg(me).args([
        "client",
        scenario.name(),
        "--windows",
        &windows.to_string(),
    ]);
    command.env(CTL, CTL_FIFO).env(ACK, ACK_FIFO);
    let ran = Ran::from_output(&command.stdin(Stdio::null()).output()?);
    let record = record().with_context(|| ran.stderr.clone())?;
    Ok((ran, record))
}

/// Clones, with those that the kernel told as missed.
fn clones(target: &Value) -> anyhow::Result<u64> {
    let number = |name: &str| target[name].as_u64().unwrap_or(0);
    let clones = target["clones"]
        .as_u64()
        .with_context(|| format!("{target}"))?;
    Ok(clones + number("missed") + number("recursion_misses") + number("missed_calls"))
}

fn windows(record: &Value) -> anyhow::Result<&Vec<Value>> {
    record["windows"].as_array().context("no windows")
}

fn expect(
    ran: &Ran,
    record: &Value,
    windows_expected: usize,
    clones_expected: u64,
) -> anyhow::Result<()> {
    ran.expect(status(&missed(record)))?;
    let windows = windows(record)?;
    ensure!(
        windows.len() == windows_expected,
        "{} windows",
        windows.len()
    );
    let total = &record["targets"][0];
    ensure!(clones(total)? == clones_expected, "{total}");
    let mut sums = [0; 3];
    for window in windows {
        for (place, field) in ["calls", "returns", "in_flight"].iter().enumerate() {
            sums[place] += window["targets"][0][*field].as_u64().context("no count")?;
        }
    }
    for (sum, field) in sums.iter().zip(["calls", "returns", "in_flight"]) {
        ensure!(
            total[field] == *sum,
            "{field}: the windows have {sum}: {total}"
        );
    }
    Ok(())
}

fn two_windows() -> anyhow::Result<String> {
    let (ran, record) = with_client(Scenario::TwoWindows, &["-D", "-1"])?;
    expect(&ran, &record, 2, 1500)?;
    let each = windows(&record)?.iter().map(|w| clones(&w["targets"][0]));
    let each = each.collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(each == [1000, 500], "{each:?}");
    ensure!(ran.stderr.contains("2 windows"), "{}", ran.stderr);
    Ok(format!("{each:?} of 4,000 clones"))
}

fn many_pairs(pairs: usize) -> anyhow::Result<String> {
    let start = Instant::now();
    let (ran, record) = with_windows(Scenario::ManyPairs, pairs, &["-D", "-1"])?;
    let took = start.elapsed();
    // The client's last act is to write this.
    let ended = SystemTime::now().duration_since(fs::metadata(CLONES)?.modified()?)?;
    expect(&ran, &record, pairs, pairs as u64)?;
    Ok(format!(
        "{pairs} windows of one clone each in {took:?}; its record has {} bytes, and was there {ended:?} after the client's end",
        fs::metadata(RECORD)?.len()
    ))
}

/// Beside a second cowprobe that counts all the time.
fn short_windows(windows: usize) -> anyhow::Result<String> {
    let mut outer = Command::new("cowprobe");
    outer
        .args(["watch", "-I", "60000", "--json"])
        .stdout(Stdio::piped());
    let (outer, told) = ready_child(outer)?;
    ensure!(told == "\n", "{told:?}");
    let (ran, record) = with_windows(Scenario::ShortWindows, windows, &["-D", "-1"])?;
    sh("kill", &["-INT", &outer.id().to_string()])?;
    let said = Ran::from_output(&outer.wait_with_output()?);
    let clones_made: u64 = fs::read_to_string(CLONES)?.parse()?;
    expect(&ran, &record, windows, clones_made)?;
    let last = said
        .stdout
        .lines()
        .last()
        .context("the second one says nothing")?;
    let last = document(last)?;
    let all = clones(&last["total"][0])?;
    ensure!(all == clones_made, "{all} of {clones_made}: {last}");
    Ok(format!(
        "{clones_made} clones in {windows} windows, and in one"
    ))
}

fn garbage() -> anyhow::Result<String> {
    let (ran, record) = with_client(Scenario::Garbage, &["-D", "-1"])?;
    // One of no length, and one with ten clones.
    expect(&ran, &record, 2, 10)?;
    ensure!(ran.stderr.contains("\"enabled\""), "{}", ran.stderr);
    Ok("a window of no length and one of ten clones".to_owned())
}

fn no_reader() -> anyhow::Result<String> {
    let (ran, record) = with_client(Scenario::NoReader, &["-D", "-1"])?;
    expect(&ran, &record, 1, 10)?;
    ensure!(
        ran.stderr.contains("answers found no reader"),
        "{}",
        ran.stderr
    );
    // What nobody read is not the next one's.
    fs::remove_file(ACK_FIFO)?;
    sh("mkfifo", &[ACK_FIFO])?;
    Ok("20,000 pings were not waited for".to_owned())
}

fn never_enabled() -> anyhow::Result<String> {
    let ran = cowprobe(&["run", "-D", "-1", "-o", RECORD, "--", "true"])?;
    ran.expect(1)?;
    ran.expect_line(&["no window was opened", "enable"])?;
    ensure!(windows(&record()?)?.is_empty(), "{}", record()?);
    Ok(ran.stderr)
}

fn a_delay() -> anyhow::Result<String> {
    let (ran, record) = with_client(Scenario::Delayed, &["-D", "1500"])?;
    expect(&ran, &record, 1, 7)?;
    Ok("7 clones after the delay, none of those before".to_owned())
}

fn stop() -> anyhow::Result<String> {
    // Without -D the window opens with the command.
    let (ran, record) = with_client(Scenario::Stop, &[])?;
    expect(&ran, &record, 1, 5)?;
    ensure!(
        ran.stderr
            .contains("btrfs_remap_file_range: 5 calls until now"),
        "{}",
        ran.stderr
    );
    Ok("nothing is counted after it".to_owned())
}

fn descriptors() -> anyhow::Result<String> {
    // A shell gives them; its end of the orders is closed in the midst of it.
    let me = std::env::current_exe()?;
    let script = format!(
        "exec 8<>{CTL_FIFO} 9<>{ACK_FIFO}; \
         {CTL}={CTL_FIFO} {ACK}={ACK_FIFO} exec cowprobe run -D -1 --control fd:8,9 -o {RECORD} -- {} client two-windows",
        me.display()
    );
    let out = Command::new("bash").args(["-c", &script]).output()?;
    let ran = Ran::from_output(&out);
    expect(&ran, &record()?, 2, 1500)?;
    let script = "exec 8< <(echo enable); exec cowprobe run -D -1 --control fd:8 -- sleep 1";
    let out = Command::new("bash").args(["-c", script]).output()?;
    let ran = Ran::from_output(&out);
    ensure!(
        [Some(0), Some(1)].contains(&ran.code) && ran.stderr.contains("EXACT"),
        "{ran:?}"
    );
    Ok("fd:8,9; and a writer that goes away".to_owned())
}

fn ready() -> anyhow::Result<String> {
    let socket = std::os::unix::net::UnixDatagram::bind("/tmp/notify")?;
    let mut command = Command::new("cowprobe");
    command.args(["watch", "--duration", "0.2"]);
    command
        .env("NOTIFY_SOCKET", "/tmp/notify")
        .stdout(Stdio::null());
    let (mut child, told) = ready_child(command)?;
    ensure!(told == "\n", "{told:?}");
    let mut datagram = [0; 64];
    let length = socket.recv(&mut datagram)?;
    ensure!(&datagram[..length] == b"READY=1", "{datagram:?}");
    let status = child.wait()?;
    ensure!(status.success(), "{status}");
    Ok("a line break, and READY=1".to_owned())
}

/// Starts a command with `--ready-fd`, and has what comes there until it is closed.
fn ready_child(mut command: Command) -> anyhow::Result<(Child, String)> {
    let (mut told, tell) = std::io::pipe()?;
    // What dup makes is inherited.
    let fd = nix::unistd::dup(&tell)?;
    command.arg("--ready-fd");
    command.arg(std::os::fd::AsRawFd::as_raw_fd(&fd).to_string());
    let child = command.spawn()?;
    drop((tell, fd));
    let mut text = String::new();
    told.read_to_string(&mut text)?;
    Ok((child, text))
}

fn bad_places() -> anyhow::Result<String> {
    fs::write("/tmp/plain-file", "")?;
    for (args, words) in [
        (["--control", "fifo:/no/such/fifo"], "mkfifo"),
        (["--control", "fifo:/tmp/plain-file"], "is no FIFO"),
        (["--control", "fd:77"], "file descriptor 77 is not open"),
        (["--ready-fd", "78"], "file descriptor 78 is not open"),
        (["--control", "pipe:3"], "fifo:CTL[,ACK]"),
        (["-D", "-2"], "-1"),
    ] {
        let all = [&["run"], &args[..], &["--", "touch", "/tmp/bad-places"]].concat();
        let ran = cowprobe(&all)?;
        ran.expect(2)?;
        ran.expect_line(&[words])?;
        ensure!(!fs::exists("/tmp/bad-places")?, "the command ran: {args:?}");
    }
    Ok("6, one line each".to_owned())
}
