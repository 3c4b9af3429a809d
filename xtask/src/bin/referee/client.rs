//! A benchmark that says when to count, as the public reproducer of seed 000 does:
//! the FIFOs' names come by the environment, an order is a line, and the answer's
//! first four bytes are looked at.

use std::{
    env,
    fs::File,
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use super::{clone::Pair, filesystem::MOUNT};

/// Where the orders go.
pub(crate) const CTL: &str = "REMAP_RANGE_PERF_CTL_FIFO";
/// Where the answers come from.
pub(crate) const ACK: &str = "REMAP_RANGE_PERF_ACK_FIFO";

/// How many clones there were in many windows; written at the client's end.
pub(crate) const CLONES: &str = "/tmp/clones";

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scenario {
    /// Clones in two windows, and outside of both.
    TwoWindows,
    /// A clone in each of many windows, one between them, beside writes.
    ManyPairs,
    /// Orders that are none, and those that change nothing.
    Garbage,
    /// More answers than a pipe holds, unread.
    NoReader,
    /// Clones at once, and later.
    Delayed,
    /// Orders after the last.
    Stop,
    /// Clones for 10 ms in each of many windows, and nowhere else.
    ShortWindows,
}

impl Scenario {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TwoWindows => "two-windows",
            Self::ManyPairs => "many-pairs",
            Self::Garbage => "garbage",
            Self::NoReader => "no-reader",
            Self::Delayed => "delayed",
            Self::Stop => "stop",
            Self::ShortWindows => "short-windows",
        }
    }
}

struct Client {
    orders: File,
    answers: Option<File>,
    pair: Pair,
}

impl Client {
    fn open() -> anyhow::Result<Self> {
        let file = |name: &str| -> anyhow::Result<File> {
            let path = env::var_os(name).with_context(|| format!("no {name}"))?;
            Ok(File::options().read(true).write(true).open(path)?)
        };
        Ok(Self {
            orders: file(CTL)?,
            answers: Some(file(ACK)?),
            pair: Pair::new()?,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.orders.write_all(bytes)?)
    }

    /// Orders, and waits for the answer.
    fn order(&mut self, order: &str) -> anyhow::Result<()> {
        self.write(format!("{order}\n").as_bytes())?;
        let answers = self.answers.as_mut().context("no answers")?;
        let mut answer = [0; 5];
        answers.read_exact(&mut answer)?;
        ensure!(&answer[..4] == b"ack\n", "the answer is {answer:?}");
        Ok(())
    }

    fn clones(&self, count: u32) -> anyhow::Result<()> {
        for _ in 0..count {
            self.pair.clone_from(0)?;
        }
        Ok(())
    }
}

/// `windows`: how many there are where there are many.
pub(crate) fn run(scenario: Scenario, windows: usize) -> anyhow::Result<()> {
    let mut client = Client::open()?;
    match scenario {
        Scenario::TwoWindows => {
            client.clones(1000)?;
            client.order("enable")?;
            client.clones(1000)?;
            client.order("disable")?;
            client.clones(1000)?;
            client.order("ping")?;
            client.order("enable")?;
            client.clones(500)?;
            client.order("disable")?;
            client.clones(500)
        }
        Scenario::ManyPairs => {
            let mut writer = Command::new("sh")
                .args([
                    "-c",
                    &format!("while :; do echo x > {MOUNT}/w; echo y >> {MOUNT}/v; done"),
                ])
                .stderr(Stdio::null())
                .spawn()?;
            let result = (0..windows).try_for_each(|_| {
                client.order("enable")?;
                client.clones(1)?;
                client.order("disable")?;
                client.clones(1)
            });
            writer.kill()?;
            writer.wait()?;
            result?;
            Ok(std::fs::write(CLONES, windows.to_string())?)
        }
        Scenario::Garbage => {
            client.order("disable")?;
            client.write(b"enabled\n\n\0  \n\xff\xfe\n")?;
            client.write(&[b'x'; 10_000])?;
            client.write(b"\n")?;
            client.clones(3)?;
            client.order("enable")?;
            client.order("disable")?;
            client.order("  enable ")?;
            client.order("enable")?;
            client.clones(10)?;
            client.write(b"disable\0")?;
            let mut answer = [0; 5];
            client
                .answers
                .as_mut()
                .context("no answers")?
                .read_exact(&mut answer)?;
            client.clones(3)
        }
        Scenario::NoReader => {
            client.order("enable")?;
            client.clones(10)?;
            client.order("disable")?;
            client.answers = None;
            client.write(&b"ping\n".repeat(20_000))
        }
        Scenario::Delayed => {
            client.clones(20)?;
            thread::sleep(Duration::from_secs(4));
            client.clones(7)
        }
        Scenario::ShortWindows => {
            let mut clones = 0_u64;
            for _ in 0..windows {
                client.order("enable")?;
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(10) {
                    client.clones(1)?;
                    clones += 1;
                }
                client.order("disable")?;
            }
            Ok(std::fs::write(CLONES, clones.to_string())?)
        }
        Scenario::Stop => {
            client.clones(5)?;
            client.order("snapshot")?;
            client.order("stop")?;
            client.clones(5)?;
            client.order("enable")?;
            client.clones(5)
        }
    }
}
