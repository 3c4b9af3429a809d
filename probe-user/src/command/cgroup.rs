//! A cgroup for the workload: whoever descends from it is in it, whatever it forks
//! and whoever adopts it.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, ensure};

use crate::wording::plain;

const PREFIX: &str = "cowprobe-";
const PROCS: &str = "cgroup.procs";

/// An empty cgroup below our own; removed when it is dropped.
#[derive(Debug)]
pub(super) struct Cgroup {
    parent: PathBuf,
    path: PathBuf,
    dir: File,
}

impl Cgroup {
    /// Makes it; an error says why it cannot be had.
    pub(super) fn make() -> Result<Self, String> {
        let parent = own()?;
        remove_stale(&parent);
        let path = parent.join(format!("{PREFIX}{}", process::id()));
        let failed = |e: io::Error| format!("cannot make {}: {}", path.display(), plain(&e));
        fs::create_dir(&path).map_err(failed)?;
        match File::open(&path) {
            Ok(dir) => Ok(Self { parent, path, dir }),
            Err(e) => {
                let _ = fs::remove_dir(&path);
                Err(failed(e))
            }
        }
    }

    /// Where a process that writes "0" puts itself in.
    pub(super) fn entrance(&self) -> io::Result<File> {
        File::options().write(true).open(self.path.join(PROCS))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Who goes on after the command goes back to where it came from.
        for _ in 0..100 {
            let left = fs::read_to_string(self.path.join(PROCS)).unwrap_or_default();
            for pid in left.lines() {
                let _ = fs::write(self.parent.join(PROCS), pid);
            }
            if fs::remove_dir(&self.path).is_ok() || left.is_empty() {
                return;
            }
        }
    }
}

/// One that is there already, for its tasks and those below it.
pub(super) fn open(path: &Path) -> anyhow::Result<File> {
    let shown = path.display();
    let dir = File::open(path).with_context(|| format!("--cgroup {shown}"))?;
    ensure!(
        path.join(PROCS).exists(),
        "--cgroup {shown}: no cgroup; name a directory below that of cgroup2"
    );
    Ok(dir)
}

/// Our own, where the hierarchy of version 2 is mounted.
fn own() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|e| format!("{path}: {}", plain(&e)));
    let mounts = read("/proc/self/mountinfo")?;
    let mount = mount_of(&mounts).ok_or("no cgroup2 is mounted")?;
    let of = read("/proc/self/cgroup")?;
    let path = of.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.ok_or("this process is in no cgroup2")?;
    if path.split('/').any(|part| part == "..") {
        return Err("our cgroup is outside of what is mounted".to_owned());
    }
    Ok(Path::new(mount).join(path.trim_start_matches('/')))
}

/// The first mount of cgroup2 (`Documentation/filesystems/proc.rst`, 3.5).
fn mount_of(mountinfo: &str) -> Option<&str> {
    let line = mountinfo
        .lines()
        .find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4)
}

/// What a cowprobe left that was killed: it is empty, or it is not removed.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup2_is_found_among_others() {
        let text = "24 1 0:22 / /proc rw - proc proc rw\n\
            30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:4 - cgroup2 cgroup rw\n";
        assert_eq!(mount_of(text), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mount_of("24 1 0:22 / /a rw - cgroup cgroup rw,cpu\n"), None);
    }
}
