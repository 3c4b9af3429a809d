//! Calls that come in an interrupt, beside the flags that tracefs notes of each hit
//! (`Documentation/trace/ftrace.rst` of Linux 7.2: hardirq/softirq).

use std::{
    fs,
    net::UdpSocket,
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use nix::{
    sys::{
        signal::{SigEvent, SigSet, SigevNotify, Signal},
        time::TimeSpec,
        timer::{Expiration, Timer, TimerSetTimeFlags},
    },
    time::ClockId,
};
use serde_json::Value;

use super::{
    cowprobe::{RECORD, cowprobe, missed, record},
    kprobe_profile,
};

const TIMERS: u64 = 200;
const PACKETS: u64 = 300;
const DATAGRAMS: u64 = 500;

/// In an interrupt, in a softirq, and wherever something is received.
const CALLED: [&str; 3] = ["posix_timer_fn", "udp_rcv", "sock_def_readable"];

/// What of them is in an interrupt and what in a task, if nothing else calls them.
const DONE: [[u64; 2]; 3] = [[TIMERS, 0], [PACKETS, 0], [PACKETS, DATAGRAMS]];

const TRACE: &str = "/sys/kernel/tracing/trace";

/// An interrupt that comes while a probe is at work misses those of its own: then it is
/// done again.
const ATTEMPTS: u32 = 5;

/// `status`: how a run ends here.
pub(crate) fn check(status: i32) -> anyhow::Result<String> {
    for function in &CALLED {
        ensure!(
            fs::read_to_string("/proc/kallsyms")?.contains(&format!(" {function}\n")),
            "no {function}"
        );
    }
    kprobe_profile::start(&CALLED)?;
    let checked = attempts(status);
    kprobe_profile::stop()?;
    checked
}

fn attempts(status: i32) -> anyhow::Result<String> {
    let me = std::env::current_exe()?;
    let me = me.to_str().context("a path that is not UTF-8")?;
    let probes = CALLED.iter().flat_map(|function| ["--probe", function]);
    let arguments = ["run", "-o", RECORD].into_iter().chain(probes);
    let arguments: Vec<_> = arguments.chain(["--", me, "interrupts-load"]).collect();
    for _ in 0..ATTEMPTS {
        fs::write(TRACE, "")?;
        let before = kprobe_profile::read(&CALLED)?;
        let ran = cowprobe(&arguments)?;
        let hits = kprobe_profile::read(&CALLED)?;
        let trace = fs::read_to_string(TRACE)?;
        let record = record().with_context(|| ran.stderr.clone())?;
        let theirs = CALLED.map(|function| split(&trace, function));
        let traced: Vec<_> = theirs.iter().map(|[a, b]| a + b).collect();
        let hits: Vec<_> = hits
            .iter()
            .zip(before)
            .map(|(now, then)| now - then)
            .collect();
        // The referee's own misses are hits without a line.
        if missed(&record).iter().any(|n| *n > 0) || traced != hits {
            continue;
        }
        ran.expect(status)?;
        return agree(&record, theirs);
    }
    bail!("something was missed {ATTEMPTS} times");
}

fn agree(record: &Value, theirs: [[u64; 2]; 3]) -> anyhow::Result<String> {
    let targets = record["targets"].as_array().context("no targets")?;
    for (function, theirs) in CALLED.iter().zip(theirs) {
        let target = targets.iter().find(|t| t["symbol"] == **function);
        let target = target.with_context(|| format!("{function} is not in the record"))?;
        let by = target["executed_by"].as_object().context("no classes")?;
        let each = by.iter().map(|(name, n)| Some((name, n.as_u64()?)));
        let each: Option<Vec<_>> = each.collect();
        let (inside, tasks): (Vec<_>, Vec<_>) = each
            .with_context(|| format!("{target}"))?
            .into_iter()
            .partition(|(name, _)| *name == "interrupt");
        let ours = [inside, tasks].map(|some| some.iter().map(|(_, n)| n).sum::<u64>());
        ensure!(
            ours == theirs,
            "{function} {ours:?}, by tracefs {theirs:?}: {target}"
        );
    }
    for (done, theirs) in DONE.iter().zip(theirs) {
        ensure!(
            (0..2).all(|i| theirs[i] >= done[i]),
            "{theirs:?} of {done:?}"
        );
    }
    Ok(format!("interrupts and tasks, as tracefs: {theirs:?}"))
}

/// Lines of a trace for a function, in an interrupt and in a task.
fn split(trace: &str, function: &str) -> [u64; 2] {
    let event = format!("{function}:");
    let mut counts = [0; 2];
    for line in trace.lines() {
        let mut words = line.split_whitespace();
        // `TASK-PID [CPU] FLAGS TIME: EVENT: (PLACE)`
        let cpu = |word: &&str| word.len() > 4 && word.starts_with('[') && word.ends_with(']');
        let Some(flags) = words.by_ref().find(cpu).and_then(|_| words.next()) else {
            continue;
        };
        if words.nth(1) == Some(&event) {
            counts[usize::from(flags.chars().nth(2) == Some('.'))] += 1;
        }
    }
    counts
}

/// What makes the calls, a known number of each.
pub(crate) fn load() -> anyhow::Result<()> {
    timers()?;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    let mut byte = [0];
    for _ in 0..PACKETS {
        sender.send_to(&[1], receiver.local_addr()?)?;
        receiver.recv(&mut byte)?;
    }
    let (sender, receiver) = UnixDatagram::pair()?;
    for _ in 0..DATAGRAMS {
        sender.send(&[1])?;
        receiver.recv(&mut byte)?;
    }
    Ok(())
}

/// Half of them find their task in user space, the others an idle CPU.
fn timers() -> anyhow::Result<()> {
    const AFTER: Duration = Duration::from_millis(1);
    let signal = Signal::SIGALRM;
    let mut set = SigSet::empty();
    set.add(signal);
    set.thread_block()?;
    let notify = SigevNotify::SigevSignal {
        signal,
        si_value: 0,
    };
    let mut timer = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(notify))?;
    for i in 0..TIMERS {
        let once = Expiration::OneShot(TimeSpec::from_duration(AFTER));
        timer.set(once, TimerSetTimeFlags::empty())?;
        let armed = Instant::now();
        while i % 2 == 0 && armed.elapsed() < 2 * AFTER {}
        set.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_hit_is_told_by_its_flags() {
        let trace = "\
# tracer: nop
#                                _-----=> irqs-off/BH-disabled
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
          <idle>-0       [000] d.h2.    10.000001: udp_rcv: (udp_rcv+0x4/0x40)
         a [1] b-77      [000] ..s1.    10.000002: udp_rcv: (udp_rcv+0x4/0x40)
         referee-77      [000] d.H2.    10.000003: other: (other+0x4/0x40)
         referee-77      [000] .....    10.000004: udp_rcv: (udp_rcv+0x4/0x40)
";
        assert_eq!(split(trace, "udp_rcv"), [2, 1]);
        assert_eq!(split(trace, "other"), [1, 0]);
        assert_eq!(split("", "other"), [0, 0]);
    }
}
