//! `cowprobe bench remap`, whose rounds are computed again here.

use std::{
    fs,
    os::unix::{fs::FileExt as _, process::ExitStatusExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};

use super::{
    FUNCTIONS,
    cowprobe::{RECORD, Ran, cowprobe, missed, record, status},
    filesystem::{self, Load, MOUNT, sh},
    kprobe_profile,
    report::{Check, Report},
};

const CHECKS: &[Check] = &[
    ("rounds", rounds),
    ("longer ranges", longer),
    ("every operation is a call", counted),
    ("the timed loops alone are counted", loops),
    ("nobody counts", nobody_counts),
    ("a result that is not as expected", unexpected),
    ("no times under probes, unless asked for", under_probes),
    ("probes that come later are noticed", probes_come),
    ("an interrupt leaves nothing behind", interrupted),
    ("a filesystem of its own", own_filesystem),
    ("an interrupt unmounts it", interrupted_filesystem),
    ("a device that is not for that", other_devices),
];

const CTL_FIFO: &str = "/tmp/ctl";
const ACK_FIFO: &str = "/tmp/ack";
const TSV: &str = "/tmp/rounds.tsv";
const HEAD: &str = "scenario\tround\toperations\trange_bytes\telapsed_ns\tns_per_op\texpected_match_ratio\tunexpected_results\tchecksum\tprobed";

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CHECKS.len());
    filesystem::fresh(Load {
        tasks: 0,
        operations: 0,
    })?;
    report.run(CHECKS);
    filesystem::unmount()
}

/// Runs three rounds, and returns the fields of each row of its table.
fn rows(more: &[&str]) -> anyhow::Result<Vec<Vec<String>>> {
    let args = ["bench", "remap", "--rounds", "3", "-n", "200", "--tsv", TSV];
    let ran = cowprobe(&[&args, more, &[MOUNT]].concat())?;
    ran.expect(0)?;
    let left = sh("ls", &["-A", MOUNT])?;
    ensure!(left.is_empty(), "left behind: {left}");
    let table = fs::read_to_string(TSV)?;
    let mut lines = table.lines();
    ensure!(lines.next() == Some(HEAD), "{table}");
    Ok(lines
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect())
}

fn rounds() -> anyhow::Result<String> {
    let rows = rows(&[])?;
    ensure!(rows.len() == 6, "{rows:?}");
    let scenarios = ["ficlonerange_4k_pages", "fidedupe_4k_pages"];
    for (place, row) in rows.iter().enumerate() {
        let [
            scenario,
            round,
            operations,
            bytes,
            elapsed,
            each,
            ratio,
            wrong,
            checksum,
            probed,
        ] = &row[..]
        else {
            anyhow::bail!("{row:?}");
        };
        ensure!(scenario == scenarios[place % 2], "{row:?}");
        ensure!(*round == (place / 2 + 1).to_string(), "{row:?}");
        ensure!(operations == "200" && bytes == "4096", "{row:?}");
        ensure!(ratio == "100" && wrong == "0" && probed == "0", "{row:?}");
        // 200 operations: a thousandth of one is a fifth of a ns.
        let elapsed: u64 = elapsed.parse()?;
        let thousandths = elapsed * 5;
        let follows = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        ensure!(elapsed > 0 && *each == follows, "{follows}: {row:?}");
        // Both are copies of one file.
        ensure!(checksum.len() == 64 && *checksum == rows[0][8], "{row:?}");
    }
    Ok(format!("{} rows follow", rows.len()))
}

fn longer() -> anyhow::Result<String> {
    let rows = rows(&["--range-bytes", "16384", "--operation", "clone"])?;
    ensure!(rows.len() == 3, "{rows:?}");
    let all = rows
        .iter()
        .all(|row| row[0] == "ficlonerange_16k_pages" && row[3] == "16384" && row[6] == "100");
    ensure!(all, "{rows:?}");
    Ok(rows[0][0].clone())
}

fn counted() -> anyhow::Result<String> {
    let asked = ["bench", "remap", "--rounds", "2", "--probed-times"];
    let bench = [&asked[..], &["-n", "100", MOUNT]].concat();
    let run = ["run", "-o", RECORD, "--", "cowprobe"];
    let ran = cowprobe(&[&run[..], &bench].concat())?;
    let record = record()?;
    ran.expect(status(&missed(&record)))?;
    let remap = &record["targets"][0];
    let calls = remap["calls"].as_u64().context("no calls")? + missed(&record)[0];
    ensure!(calls == 400, "{remap}");
    Ok("400".to_owned())
}

/// The benchmark orders a window for each loop; what it does between them, a round
/// to warm up among it, is not counted.
fn loops() -> anyhow::Result<String> {
    for fifo in [CTL_FIFO, ACK_FIFO] {
        sh("rm", &["-f", fifo])?;
        sh("mkfifo", &[fifo])?;
    }
    let control = format!("fifo:{CTL_FIFO},{ACK_FIFO}");
    let run = ["run", "-D", "-1", "--control", &control, "-o", RECORD, "--"];
    let bench = ["cowprobe", "bench", "remap", "--rounds", "2", "--warmup"];
    let more = ["1", "-n", "100", "--cpu", "0", "--control", &control, MOUNT];
    let ran = cowprobe(&[&run[..], &bench, &more].concat())?;
    let record = record()?;
    ran.expect(status(&missed(&record)))?;
    let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(!said.contains("no evidence"), "{said}");
    ensure!(!ran.stdout.contains("ns/op"), "{}", ran.stdout);
    for scenario in ["ficlonerange_4k_pages", "fidedupe_4k_pages"] {
        let line = ran.stdout.lines().find(|line| line.contains(scenario));
        let line = line.with_context(|| ran.stdout.clone())?;
        let fields: Vec<_> = line.split_whitespace().collect();
        ensure!(fields == [scenario, "200", "100%"], "{line}");
    }
    let windows = record["windows"].as_array().context("no windows")?;
    let mut calls = Vec::new();
    for window in windows {
        let remap = &window["targets"][0];
        let number = |name: &str| remap[name].as_u64().unwrap_or(0);
        calls.push(number("calls") + number("missed") + number("recursion_misses"));
    }
    ensure!(calls == [100; 4], "{calls:?}: {windows:?}");
    let executed = &record["targets"][0]["executed_by"];
    let workload = executed["workload"].as_u64().context("no workload")?;
    ensure!(workload + missed(&record)[0] == 400, "{executed}");
    Ok("4 loops of 100, one window each; 200 to warm up are not counted".to_owned())
}

fn nobody_counts() -> anyhow::Result<String> {
    let control = format!("fifo:{CTL_FIFO},{ACK_FIFO}");
    let ran = cowprobe(&[
        "bench",
        "remap",
        "--rounds",
        "1",
        "--control",
        &control,
        MOUNT,
    ])?;
    ran.expect(2)?;
    ran.expect_line(&["nobody reads", CTL_FIFO, "cowprobe run --control"])?;
    let left = sh("ls", &["-A", MOUNT])?;
    ensure!(left.is_empty(), "left behind: {left}");
    Ok(ran.stderr)
}

fn unexpected() -> anyhow::Result<String> {
    let bench = |how: &'static str| cowprobe(&["bench", "remap", "-n", "50", how, MOUNT]);
    bench("--prepare")?.expect(0)?;
    let path = format!("{MOUNT}/cowprobe-remap.dedupe");
    let file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all_at(b"other", 7 * 4096 + 100)?;
    let ran = bench("--prepared")?;
    ran.expect(1)?;
    for words in [
        "clone: 50 of 50 as expected",
        "dedupe: 49 of 50 as expected",
        "dedupe: first unexpected: range 7: the contents differ",
    ] {
        ensure!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    Ok(ran.stdout)
}

/// signal(7).
const SIGINT: i32 = 2;
const TRACER: &str = "/sys/kernel/tracing/current_tracer";
const FILTER: &str = "/sys/kernel/tracing/set_ftrace_filter";

/// Refused under a kprobe and under ftrace; what was asked for is marked.
fn under_probes() -> anyhow::Result<String> {
    let bench = ["bench", "remap", "--rounds", "1", "-n", "10", "--tsv", TSV];
    let refused = || -> anyhow::Result<()> {
        let _ = fs::remove_file(TSV);
        let ran = cowprobe(&[&bench[..], &[MOUNT]].concat())?;
        ran.expect(2)?;
        ran.expect_line(&[FUNCTIONS[0], "is probed", "--probed-times"])?;
        ensure!(!Path::new(TSV).exists(), "a table");
        Ok(())
    };
    kprobe_profile::start(&FUNCTIONS[..1])?;
    let refusal = refused();
    let ran = cowprobe(&[&bench[..], &["--probed-times", MOUNT]].concat());
    kprobe_profile::stop()?;
    refusal?;
    let ran = ran?;
    ran.expect(0)?;
    ensure!(
        ran.stdout.starts_with("ns/op under probes"),
        "{}",
        ran.stdout
    );
    let table = fs::read_to_string(TSV)?;
    let marked = table.lines().filter(|line| line.ends_with("\t1")).count();
    ensure!(marked == 2, "{table}");
    let traced = fs::write(FILTER, FUNCTIONS[0]).and_then(|()| fs::write(TRACER, "function"));
    let refusal = traced.context("no ftrace").and_then(|()| refused());
    fs::write(TRACER, "nop")?;
    fs::write(FILTER, "")?;
    refusal?;
    Ok(ran.stdout)
}

/// A benchmark that has begun with its rounds.
fn begun() -> anyhow::Result<Child> {
    let mut command = Command::new("cowprobe");
    command.args(["bench", "remap", "--rounds", "300", "-n", "100", MOUNT]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let bench = command.spawn()?;
    let begun = || fs::read_dir(MOUNT).is_ok_and(|mut dir| dir.next().is_some());
    for _ in 0..1000 {
        if begun() {
            return Ok(bench);
        }
        thread::sleep(Duration::from_millis(10));
    }
    anyhow::bail!("it does not begin");
}

fn probes_come() -> anyhow::Result<String> {
    let bench = begun()?;
    kprobe_profile::start(&FUNCTIONS[..1])?;
    let out = bench.wait_with_output();
    kprobe_profile::stop()?;
    let ran = Ran::from_output(&out?);
    ran.expect(1)?;
    let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(said.contains("came to be probed"), "{said}");
    ensure!(
        ran.stdout.starts_with("ns/op under probes"),
        "{}",
        ran.stdout
    );
    Ok(said)
}

fn interrupted() -> anyhow::Result<String> {
    let bench = begun()?;
    sh("kill", &["-INT", &bench.id().to_string()])?;
    let out = bench.wait_with_output()?;
    ensure!(out.status.signal() == Some(SIGINT), "{}", out.status);
    let left = sh("ls", &["-A", MOUNT])?;
    ensure!(left.is_empty(), "left behind: {left}");
    Ok(out.status.to_string())
}

/// Neither mounts, loop devices nor folders of cowprobe's.
fn nothing_of_its_own() -> anyhow::Result<()> {
    let left = sh(
        "sh",
        &[
            "-c",
            "grep cowprobe- /proc/mounts || true; ls -d /tmp/cowprobe-* 2>/dev/null || true; losetup -a | grep -v /tmp/file || true",
        ],
    )?;
    ensure!(left.is_empty(), "left behind: {left}");
    Ok(())
}

fn own_filesystem() -> anyhow::Result<String> {
    let mut said = String::new();
    for device in ["/dev/ram1", "new:200M"] {
        let short = ["bench", "remap", "-n", "100", "--device", device];
        let ran = cowprobe(&short)?;
        ran.expect(0)?;
        ensure!(
            ran.stdout == "clone: 100 of 100 as expected\ndedupe: 100 of 100 as expected\n",
            "{}",
            ran.stdout
        );
        ensure!(ran.stderr.contains("a new btrfs"), "{}", ran.stderr);
        nothing_of_its_own()?;
        // Counted: it is gone before the record is written, which has it all the same.
        let words = [
            "run", "-o", RECORD, "--bench", "--", "remap", "--rounds", "2",
        ];
        let ran = cowprobe(&[&words[..], &["-n", "50", "--device", device]].concat())?;
        let record = record()?;
        ran.expect(status(&missed(&record)))?;
        let calls = record["targets"][0]["calls"].as_u64().context("no calls")?;
        ensure!(calls + missed(&record)[0] == 200, "{calls}");
        let each = record["filesystems"].as_array().context("none")?;
        let there = |place: &str| place.starts_with("/tmp/cowprobe-");
        let own = each.iter().filter_map(|each| each["mount_point"].as_str());
        ensure!(own.filter(|place| there(place)).count() == 1, "{each:?}");
        nothing_of_its_own()?;
        said = ran.stderr;
    }
    Ok(said)
}

fn interrupted_filesystem() -> anyhow::Result<String> {
    for number in ["-INT", "-TERM"] {
        let mut bench = Command::new("cowprobe");
        bench.args([
            "bench", "remap", "--rounds", "1000", "-n", "100", "--device", "new:200M",
        ]);
        let mut bench = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mounted = || -> anyhow::Result<bool> {
            Ok(fs::read_to_string("/proc/mounts")?.contains("/tmp/cowprobe-"))
        };
        while !mounted()? {
            ensure!(bench.try_wait()?.is_none(), "it ended by itself");
            thread::sleep(Duration::from_millis(10));
        }
        sh("kill", &[number, &bench.id().to_string()])?;
        let status = bench.wait()?;
        ensure!(status.signal().is_some(), "{status}");
        nothing_of_its_own()?;
    }
    Ok("INT and TERM".to_owned())
}

fn other_devices() -> anyhow::Result<String> {
    let refused = |device: &str, more: &[&str], words: &str| -> anyhow::Result<String> {
        let ran = cowprobe(&[&["bench", "remap", "--device", device], more].concat())?;
        ran.expect(2)?;
        ran.expect_line(&[words])?;
        nothing_of_its_own()?;
        Ok(ran.stderr)
    };
    refused("/dev/ram0", &[], "/dev/ram0 is in use")?;
    sh("mkswap", &["/dev/ram1"])?;
    sh("swapon", &["/dev/ram1"])?;
    let swapped = refused("/dev/ram1", &[], "/dev/ram1 is in use");
    sh("swapoff", &["/dev/ram1"])?;
    swapped?;
    refused(
        "/dev/ram1",
        &["-n", "1000000"],
        "bytes, and 12422217728 are needed",
    )?;
    refused("new:100M", &[], "the new file has 104857600 bytes")?;
    refused("new:500G", &[], "cannot make a file of 536870912000 bytes")?;
    refused("/dev/no", &[], "cannot use /dev/no")?;
    sh(
        "sh",
        &[
            "-c",
            "truncate -s 200M /tmp/file && losetup /dev/loop0 /tmp/file",
        ],
    )?;
    let looped = refused("/dev/loop0", &[], "/dev/loop0 is of the driver loop");
    sh("sh", &["-c", "losetup -d /dev/loop0; rm /tmp/file"])?;
    looped.map(|_| ())?;
    Ok("in use, swapped to, too small, of another driver".to_owned())
}
