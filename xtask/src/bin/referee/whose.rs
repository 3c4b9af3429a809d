//! Who executed a call: as bpftrace sees it by `PF_KTHREAD`, and what a workload
//! spawns.

use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{
    FUNCTIONS,
    clone::Pair,
    cowprobe::{RECORD, Ran, cowprobe, missed, record, status},
    filesystem::{self, Load, MOUNT, sh},
    interrupts,
    latency::maps_of,
    report::{Check, Report},
};

const LOAD: Load = Load {
    tasks: 1,
    operations: 500,
};

const CHECKS: &[Check] = &[
    ("threads of the kernel", threads_of_the_kernel),
    ("200 children and daemons", descendants),
    ("workers of io_uring", io_uring),
    ("another task", another_task),
    ("no cgroup is left", nothing_left),
    ("--pid", by_pid),
    ("--cgroup", by_cgroup),
    ("in an interrupt", || interrupts::check(0)),
    ("forks where no cgroup can be made", forks),
];

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.plan(CHECKS.len());
    report.run(CHECKS);
    filesystem::unmount()
}

/// A target's calls by class, which must sum to its calls.
fn classes(target: &Value) -> anyhow::Result<Vec<(String, u64)>> {
    let by = target["executed_by"]
        .as_object()
        .with_context(|| format!("{target}"))?;
    let each = by.iter().map(|(name, n)| {
        Ok((
            name.clone(),
            n.as_u64().with_context(|| format!("{name} is {n}"))?,
        ))
    });
    let each = each.collect::<anyhow::Result<Vec<_>>>()?;
    let sum: u64 = each.iter().map(|(_, n)| n).sum();
    ensure!(target["calls"] == sum, "the classes have {sum}: {target}");
    Ok(each)
}

fn of(target: &Value, names: &[&str]) -> anyhow::Result<u64> {
    let all = classes(target)?;
    let some = all.iter().filter(|(name, _)| names.contains(&&**name));
    Ok(some.map(|(_, n)| n).sum())
}

const KERNEL: [&str; 4] = ["commit", "cleaner", "kworker", "kthread"];

/// With a commit each second, so that the transaction thread has work.
fn threads_of_the_kernel() -> anyhow::Result<String> {
    filesystem::fresh(LOAD)?;
    sh("mount", &["-o", "remount,commit=1", MOUNT])?;
    let place = if std::path::Path::new("/sys/kernel/btf/btrfs").exists() {
        "btrfs"
    } else {
        "vmlinux"
    };
    let each = FUNCTIONS.iter().enumerate().map(|(i, function)| {
        format!(
            "fentry:{place}:{function} {{ if (((struct task_struct *)curtask)->flags & 0x200000) \
             {{ @kernel{i} = count(); }} else {{ @tasks{i} = count(); }} }}"
        )
    });
    let script = each.collect::<Vec<_>>().join(" ");
    let dir = filesystem::directory(0);
    let work = format!(
        "cowprobe bench remap --prepared -n {} {dir} && for i in 1 2 3 4 5 6; do echo $i > {MOUNT}/f$i; sleep 0.6; done",
        LOAD.operations
    );
    std::fs::write("/tmp/work.sh", format!("{work}; sync; sleep 3\n"))?;
    let command = format!("sleep 4; cowprobe run -o {RECORD} -- sh /tmp/work.sh; sleep 1");
    let maps = maps_of(&script, &command)?;
    let record = record()?;
    let mut said = Vec::new();
    for (i, target) in record["targets"]
        .as_array()
        .context("no targets")?
        .iter()
        .enumerate()
    {
        let map = |name: &str| {
            maps.get(&format!("@{name}{i}"))
                .and_then(Value::as_u64)
                .unwrap_or(0)
        };
        let ours = [of(target, &KERNEL)?, of(target, &["workload", "other"])?];
        let theirs = [map("kernel"), map("tasks")];
        ensure!(
            ours == theirs,
            "{} {ours:?}, by bpftrace {theirs:?}: {target}",
            FUNCTIONS[i]
        );
        said.push(ours);
    }
    ensure!(said[2][0] > 0, "the kernel's threads did nothing: {said:?}");
    ensure!(said[0] == [0, 1000], "{said:?}");
    let remap = &record["targets"][0];
    ensure!(of(remap, &["workload"])? == 1000, "{remap}");
    Ok(format!("kernel and tasks, as bpftrace: {said:?}"))
}

fn descendants() -> anyhow::Result<String> {
    filesystem::fresh(LOAD)?;
    Pair::new()?;
    let me = std::env::current_exe()?;
    let me = me.to_str().context("a path that is not UTF-8")?;
    // Children, grandchildren whose parent is gone, and sessions of their own.
    let script = format!(
        "i=0; while [ $i -lt 100 ]; do {me} clone-once; (setsid {me} clone-once &) ; i=$((i+1)); done; sleep 4"
    );
    let ran = cowprobe(&["run", "-o", RECORD, "--", "sh", "-c", &script])?;
    let record = record()?;
    ran.expect(status(&missed(&record)))?;
    let remap = &record["targets"][0];
    ensure!(
        of(remap, &["workload"])? + missed(&record)[0] >= 200,
        "{remap}"
    );
    ensure!(
        of(remap, &["workload"])? == remap["calls"].as_u64().unwrap_or(0),
        "{remap}"
    );
    Ok("200 clones, all of the workload".to_owned())
}

/// What one of the 200 does.
pub(crate) fn clone_once() -> anyhow::Result<()> {
    Ok(Pair::open()?.clone_from(0)?)
}

fn io_uring() -> anyhow::Result<String> {
    let function = "btrfs_file_write_iter";
    let script = format!(
        "fio --name=w --directory={MOUNT} --size=1m --bs=4k --rw=write --ioengine=io_uring --force_async=1 --output=/dev/null"
    );
    let ran = cowprobe(&[
        "run", "--probe", function, "-o", RECORD, "--", "sh", "-c", &script,
    ])?;
    let record = record().with_context(|| ran.stderr.clone())?;
    ran.expect(status(&missed(&record)))?;
    let target = &record["targets"][3];
    let (ours, calls) = (of(target, &["workload"])?, target["calls"].as_u64());
    ensure!(ours >= 256 && Some(ours) == calls, "{target}");
    Ok(format!("{ours} writes, all of the workload"))
}

fn another_task() -> anyhow::Result<String> {
    let mut other = another(&clones()?)?;
    let ran = cowprobe(&["run", "-o", RECORD, "--", "sleep", "2"]);
    other.kill()?;
    other.wait()?;
    thread::sleep(Duration::from_millis(500));
    let record = record()?;
    ran?.expect(status(&missed(&record)))?;
    let remap = &record["targets"][0];
    let [workload, others] = [of(remap, &["workload"])?, of(remap, &["other"])?];
    ensure!(workload == 0 && others > 0, "{remap}");
    Ok(format!(
        "{others} clones of another task, none of the workload"
    ))
}

fn nothing_left() -> anyhow::Result<String> {
    // Who goes on after the command is let go.
    let ran = cowprobe(&["run", "--", "sh", "-c", "sleep 5 & true"])?;
    ran.expect(0)?;
    let left = sh("find", &["/sys/fs/cgroup", "-name", "cowprobe-*"])?;
    ensure!(left.is_empty(), "{left}");
    Ok("also with a daemon that goes on".to_owned())
}

/// A loop of clones that runs already, in a shell whose clones are its children's.
fn another(script: &str) -> anyhow::Result<std::process::Child> {
    Pair::new()?;
    let mut command = Command::new("sh");
    Ok(command.args(["-c", script]).stdin(Stdio::null()).spawn()?)
}

fn clones() -> anyhow::Result<String> {
    let me = std::env::current_exe()?;
    Ok(format!("while :; do {} clone-once; done", me.display()))
}

/// The clones of a run, which must all be the workload's.
fn all_of_workload(ran: anyhow::Result<Ran>) -> anyhow::Result<u64> {
    let record = record()?;
    ran?.expect(status(&missed(&record)))?;
    let remap = &record["targets"][0];
    let [workload, others] = [of(remap, &["workload"])?, of(remap, &["other"])?];
    ensure!(workload > 0 && others == 0, "{remap}");
    Ok(workload)
}

fn by_pid() -> anyhow::Result<String> {
    // A child that is there before, and its children.
    let mut other = another(&format!("sh -c '{}'; true", clones()?))?;
    thread::sleep(Duration::from_millis(500));
    let pid = other.id().to_string();
    let ran = cowprobe(&["run", "--pid", &pid, "-o", RECORD, "--", "sleep", "3"]);
    sh("pkill", &["-P", &pid])?;
    other.kill()?;
    other.wait()?;
    let workload = all_of_workload(ran)?;
    watch_ends()?;
    let ran = cowprobe(&["run", "--pid", "999999", "--", "true"])?;
    ran.expect(2)?;
    ran.expect_line(&["there is no such process"])?;
    Ok(format!(
        "{workload} clones of its grandchildren, none of others"
    ))
}

/// With the last of the processes that it was given.
fn watch_ends() -> anyhow::Result<()> {
    let sleep = |seconds: &str| Command::new("sleep").arg(seconds).spawn();
    let (mut one, mut other) = (sleep("3")?, sleep("1")?);
    let pids = format!("{},{}", one.id(), other.id());
    let reaped = thread::spawn(move || other.wait());
    let ran = cowprobe(&["watch", "--json", "--pid", &pids])?;
    ran.expect(0)?;
    ensure!(one.try_wait()?.is_some(), "it ended before {pids}");
    reaped.join().ok().context("not reaped")??;
    Ok(())
}

fn by_cgroup() -> anyhow::Result<String> {
    let dir = "/sys/fs/cgroup/mine/below";
    std::fs::create_dir_all(dir)?;
    let script = format!("echo $$ > {dir}/cgroup.procs; {}", clones()?);
    let mut other = another(&script)?;
    thread::sleep(Duration::from_millis(500));
    let ran = cowprobe(&[
        "run",
        "--cgroup",
        "/sys/fs/cgroup/mine",
        "-o",
        RECORD,
        "--",
        "sleep",
        "3",
    ]);
    other.kill()?;
    other.wait()?;
    let workload = all_of_workload(ran)?;
    let ran = cowprobe(&["run", "--cgroup", "/tmp", "--", "true"])?;
    ran.expect(2)?;
    ran.expect_line(&["no cgroup"])?;
    Ok(format!("{workload} clones below it, none of others"))
}

/// The same children, daemons and workers of `io_uring` again; it leaves no cgroups behind.
fn forks() -> anyhow::Result<String> {
    sh("umount", &["/sys/fs/cgroup"])?;
    let children = descendants();
    let workers = io_uring();
    let others = another_task();
    sh("mount", &["-t", "cgroup2", "none", "/sys/fs/cgroup"])?;
    Ok(format!("{}; {}; {}", children?, workers?, others?))
}
