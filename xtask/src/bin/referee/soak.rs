//! Clones and dedupes at full rate for a long time, beside `run` and `watch`: neither
//! must lose a call or grow.
//!
//! The load works on the same ranges again and again, so the filesystem does not fill.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    os::unix::fs::FileExt as _,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::{
    FUNCTIONS,
    clone::{BLOCK, clone_block, dedupe_block},
    cowprobe::{RECORD, Ran, calls_and_missed, missed, record, status},
    filesystem::{self, Load, MOUNT, sh},
    kprobe_profile,
    report::Report,
};

/// How many of each kind the load did.
const DONE: &str = "/tmp/soak-done";

/// Ranges of each file.
const RANGES: u64 = 1000;

/// All that is allocated once is, after so long.
const WARM_UP: Duration = Duration::from_secs(20);
const SAMPLED: Duration = Duration::from_secs(10);

/// A document is longer where its numbers are, so that a few pages more of what was
/// allocated once are touched: 4 KiB were seen in half an hour.
const WATCH_KIB: u64 = 16;

const CHECKS: usize = 4;

pub(crate) fn run(report: &mut Report, seconds: u64) -> anyhow::Result<()> {
    report.plan(CHECKS);
    let soaked = soak(seconds)?;
    report.check("run counts", soaked.run_counts());
    report.check("watch counts", soaked.watch_counts());
    report.check("run does not grow", does_not_grow(&soaked.run_kib, 0));
    report.check(
        "watch does not grow",
        does_not_grow(&soaked.watch_kib, WATCH_KIB),
    );
    filesystem::unmount()
}

/// What came of it.
struct Soaked {
    ran: Ran,
    record: Value,
    watched: Ran,
    /// The last document of the watch.
    last: Value,
    /// Clones and dedupes, by the load itself.
    done: [u64; 2],
    /// Calls of each function, by the kprobe events.
    profile: Vec<u64>,
    run_kib: Vec<u64>,
    watch_kib: Vec<u64>,
}

fn soak(seconds: u64) -> anyhow::Result<Soaked> {
    filesystem::fresh(Load {
        tasks: 1,
        operations: 1,
    })?;
    // Commits come as everywhere: what a transaction pins is freed.
    sh("mount", &["-o", "remount,commit=30", MOUNT])?;
    prepare()?;
    kprobe_profile::start(&FUNCTIONS)?;
    kprobe_profile::quiet(&FUNCTIONS)?;

    let mut watch = Command::new("cowprobe")
        .args(["watch", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(watch.stdout.take().context("no pipe")?).lines();
    // The first document says that the window is open.
    lines.next().context("it says nothing")??;
    let lines = thread::spawn(move || lines.last());

    let before = kprobe_profile::read(&FUNCTIONS)?;
    let me = std::env::current_exe()?;
    let mut run = Command::new("cowprobe")
        .args(["run", "-o", RECORD, "--"])
        .arg(me)
        .args(["soak-load", "--seconds", &seconds.to_string()])
        .stderr(Stdio::piped())
        .spawn()?;
    let (run_kib, watch_kib) = sample(&mut run, &watch)?;
    let after = kprobe_profile::read(&FUNCTIONS)?;
    let ran = Ran::from_output(&run.wait_with_output()?);
    sh("kill", &["-INT", &watch.id().to_string()])?;
    let last = lines.join().expect("it does not panic");
    let watched = Ran::from_output(&watch.wait_with_output()?);

    let done = fs::read_to_string(DONE).with_context(|| ran.stderr.clone())?;
    let done: Vec<u64> = done
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    Ok(Soaked {
        record: record().with_context(|| ran.stderr.clone())?,
        ran,
        watched,
        last: serde_json::from_str(&last.context("no last document")??)?,
        done: done.try_into().ok().context("not two numbers")?,
        profile: after.iter().zip(&before).map(|(a, b)| a - b).collect(),
        run_kib,
        watch_kib,
    })
}

/// Resident memory of both until the run ends.
fn sample(run: &mut Child, watch: &Child) -> anyhow::Result<(Vec<u64>, Vec<u64>)> {
    let (mut run_kib, mut watch_kib) = (Vec::new(), Vec::new());
    let mut next = Instant::now() + WARM_UP;
    while run.try_wait()?.is_none() {
        thread::sleep(Duration::from_millis(200));
        if Instant::now() < next {
            continue;
        }
        next += SAMPLED;
        // It may have ended meanwhile.
        if let (Ok(run), Ok(watch)) = (resident_kib(run.id()), resident_kib(watch.id())) {
            run_kib.push(run);
            watch_kib.push(watch);
        }
    }
    Ok((run_kib, watch_kib))
}

fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB"));
    Ok(kib.context("no VmRSS")?.parse()?)
}

fn does_not_grow(kib: &[u64], at_most: u64) -> anyhow::Result<String> {
    let [first, .., last] = kib else {
        bail!("too short: {kib:?}");
    };
    let mut steps = kib.to_vec();
    steps.dedup();
    let detail = format!(
        "{} samples, from {first} to {last} KiB: {steps:?}",
        kib.len()
    );
    ensure!(*last <= first + at_most, "{detail}");
    Ok(detail)
}

impl Soaked {
    fn run_counts(&self) -> anyhow::Result<String> {
        let missed = missed(&self.record);
        self.ran.expect(status(&missed))?;
        let targets = self.record["targets"].as_array().context("no targets")?;
        let counts = self.counts(targets)?;
        Ok(format!(
            "{counts:?} as the kprobe events, {} missed, {:?} as the load; {:.0} operations a second",
            missed.iter().sum::<u64>(),
            self.done,
            self.per_second()?
        ))
    }

    fn watch_counts(&self) -> anyhow::Result<String> {
        let total = &self.last["total"];
        let as_record = serde_json::json!({ "targets": total });
        self.watched.expect(status(&missed(&as_record)))?;
        ensure!(self.last["last"] == true, "{}", self.last);
        let counts = self.counts(total.as_array().context("no targets")?)?;
        Ok(format!(
            "{counts:?}, {} missed",
            missed(&as_record).iter().sum::<u64>()
        ))
    }

    /// Calls and missed calls, which must be those of the others.
    fn counts(&self, targets: &[Value]) -> anyhow::Result<Vec<u64>> {
        let ours = calls_and_missed(&serde_json::json!({ "targets": targets }), &FUNCTIONS)?;
        ensure!(
            ours == self.profile,
            "{ours:?}, by kprobe events {:?}",
            self.profile
        );
        let done = self.done.iter().sum::<u64>();
        ensure!(ours[0] == done, "{ours:?}, by the load {:?}", self.done);
        for target in targets {
            let told = ["missed", "recursion_misses"].map(|n| target[n].as_u64().unwrap_or(0));
            let verdict = if told == [0, 0] { "EXACT" } else { "INEXACT" };
            ensure!(target["calls_verdict"] == verdict, "{target}");
        }
        let (remap, missed) = (
            &targets[0],
            missed(&serde_json::json!({ "targets": targets })),
        );
        for (kind, done) in ["clones", "dedupes"].iter().zip(self.done) {
            let n = remap[*kind].as_u64().context("no count")?;
            ensure!(n <= done && done <= n + missed[0], "{n} {kind} of {done}");
        }
        Ok(ours)
    }

    fn per_second(&self) -> anyhow::Result<f64> {
        let ns = self.record["command"]["wall_ns"]
            .as_f64()
            .context("no time")?;
        #[expect(clippy::cast_precision_loss, reason = "for a reader")]
        let done = self.done.iter().sum::<u64>() as f64;
        Ok(done / ns * 1e9)
    }
}

fn path(role: &str) -> String {
    format!("{MOUNT}/soak.{role}")
}

/// Three files, of which all ranges differ and the first and third are the same.
fn prepare() -> anyhow::Result<()> {
    for role in ["from", "clone", "dedupe"] {
        let file = File::create(path(role))?;
        for range in 0..RANGES {
            let block = [u8::try_from(range % 251)?; 4096];
            file.write_all_at(&block, range * BLOCK)?;
        }
        file.sync_all()?;
    }
    sh("sync", &[]).map(drop)
}

/// Clones and dedupes each range in turn until the time is up, and ends in quiet.
pub(crate) fn load(seconds: u64) -> anyhow::Result<()> {
    let open = |role| File::options().read(true).write(true).open(path(role));
    let (from, clone, dedupe) = (open("from")?, open("clone")?, open("dedupe")?);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut done = [0_u64; 2];
    'all: loop {
        for range in 0..RANGES {
            if Instant::now() >= end {
                break 'all;
            }
            let offset = range * BLOCK;
            clone_block((&from, offset), (&clone, offset))?;
            done[0] += 1;
            dedupe_block((&from, offset), (&dedupe, offset))?;
            done[1] += 1;
        }
    }
    fs::write(DONE, format!("{} {}", done[0], done[1]))?;
    sh("sync", &[])?;
    // Nothing is left for the window's edge.
    kprobe_profile::quiet(&FUNCTIONS).map(drop)
}
