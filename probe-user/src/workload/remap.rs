//! The remap workload: N ranges of 4 KiB, cloned one by one from one file into
//! another, and deduped one by one against a third of the same content.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

use super::ioctl::{clone_range, dedupe_range};

/// The length of a range in bytes: btrfs' sector size on x86-64.
const RANGE_BYTES: usize = 4096;
/// `BTRFS_SUPER_MAGIC`, include/uapi/linux/magic.h, as statfs(2) reports it.
const BTRFS_SUPER_MAGIC: i64 = 0x9123_683e;

/// What the three files are for.
const ROLES: [&str; 3] = ["src", "clone", "dedupe"];

/// The three files of the workload, open.
#[derive(Debug)]
pub(crate) struct Files {
    ranges: u32,
    src: File,
    clone: File,
    dedupe: File,
}

/// What came of one kind of operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How many ranges were not as they should be afterwards.
    pub(crate) unexpected: u32,
    /// The first of them.
    pub(crate) first: Option<String>,
}

impl Files {
    /// Writes the files in `dir` and syncs the filesystem.
    pub(crate) fn create(dir: &Path, ranges: u32) -> anyhow::Result<Self> {
        let files = Self::at(dir, ranges, OpenOptions::new().create(true).truncate(true))?;
        if let Err(error) = files.fill() {
            // What is half there must not pass for prepared.
            for role in ROLES {
                let _ = fs::remove_file(path(dir, role));
            }
            let bytes = 3 * u64::from(ranges) * RANGE_BYTES as u64;
            return Err(error).with_context(|| {
                format!("cannot write the files of the workload, {bytes} bytes; they are removed")
            });
        }
        Ok(files)
    }

    fn fill(&self) -> io::Result<()> {
        for range in 0..self.ranges {
            let content = content(range);
            self.src.write_all_at(&content, offset(range))?;
            self.dedupe.write_all_at(&content, offset(range))?;
            self.clone.write_all_at(&[0; RANGE_BYTES], offset(range))?;
        }
        // Room for what was written is looked for no later than here.
        // SAFETY: the fd is open; syncfs(2) has no other condition.
        match unsafe { libc::syncfs(self.src.as_raw_fd()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Opens the files that `create` left in `dir` and nothing has cloned to yet.
    pub(crate) fn open(dir: &Path, ranges: u32) -> anyhow::Result<Self> {
        let files = Self::at(dir, ranges, &mut OpenOptions::new())?;
        let bytes = u64::from(ranges) * RANGE_BYTES as u64;
        for file in [&files.src, &files.clone, &files.dedupe] {
            let length = file.metadata()?.len();
            ensure!(
                length == bytes,
                "prepared for {} operations, not {ranges}; run with --prepare first",
                length / RANGE_BYTES as u64
            );
        }
        for range in 0..ranges {
            let mut bytes = [0; RANGE_BYTES];
            files.clone.read_exact_at(&mut bytes, offset(range))?;
            ensure!(
                bytes == [0; RANGE_BYTES],
                "the prepared files were used; run with --prepare again"
            );
        }
        Ok(files)
    }

    /// Clones every range, then reads each back.
    pub(crate) fn clone_all(&self) -> Outcome {
        let results: Vec<_> = (0..self.ranges)
            .map(|r| clone_range(&self.src, &self.clone, offset(r), RANGE_BYTES as u64))
            .collect();
        self.judge(&self.clone, results)
    }

    /// Dedupes every range, then reads each back.
    pub(crate) fn dedupe_all(&self) -> Outcome {
        let results: Vec<_> = (0..self.ranges)
            .map(|r| {
                let bytes = RANGE_BYTES as u64;
                match dedupe_range(&self.src, &self.dedupe, offset(r), bytes)? {
                    all if all == bytes => Ok(()),
                    part => Err(io::Error::other(format!("{part} of {bytes} bytes deduped"))),
                }
            })
            .collect();
        self.judge(&self.dedupe, results)
    }

    fn judge(&self, file: &File, results: Vec<io::Result<()>>) -> Outcome {
        let mut outcome = Outcome {
            unexpected: 0,
            first: None,
        };
        for (range, result) in (0..self.ranges).zip(results) {
            let mut bytes = [0; RANGE_BYTES];
            let checked = result
                .and_then(|()| file.read_exact_at(&mut bytes, offset(range)))
                .and_then(|()| {
                    let right = bytes == content(range);
                    let wrong = || io::Error::other("the content is wrong afterwards");
                    right.then_some(()).ok_or_else(wrong)
                });
            if let Err(error) = checked {
                outcome.unexpected += 1;
                outcome
                    .first
                    .get_or_insert_with(|| format!("range {range}: {error}"));
            }
        }
        outcome
    }

    fn at(dir: &Path, ranges: u32, options: &mut OpenOptions) -> anyhow::Result<Self> {
        // Before a file is touched.
        ensure!(
            File::open(dir)
                .and_then(|d| is_btrfs(&d))
                .with_context(|| {
                    format!("cannot open {}; name a directory on btrfs", dir.display())
                })?,
            "{} is not on btrfs; name a directory on a mounted btrfs",
            dir.display()
        );
        // Reading back must not write an access time, which would be counted.
        options.read(true).write(true).custom_flags(libc::O_NOATIME);
        let open = |role: &str| {
            let path = path(dir, role);
            let file = options.open(&path);
            file.with_context(|| {
                format!("cannot open {}; run with --prepare first", path.display())
            })
        };
        Ok(Self {
            ranges,
            src: open(ROLES[0])?,
            clone: open(ROLES[1])?,
            dedupe: open(ROLES[2])?,
        })
    }
}

/// The file of a role.
fn path(dir: &Path, role: &str) -> PathBuf {
    dir.join(format!("cowprobe-remap.{role}"))
}

fn offset(range: u32) -> u64 {
    u64::from(range) * RANGE_BYTES as u64
}

/// What a range holds: unlike every other range, so that a wrong one shows.
fn content(range: u32) -> [u8; RANGE_BYTES] {
    let fill = u8::try_from(range % 251 + 1).expect("at most 251");
    let mut bytes = [fill; RANGE_BYTES];
    bytes[..4].copy_from_slice(&range.to_le_bytes());
    bytes
}

fn is_btrfs(file: &File) -> io::Result<bool> {
    // SAFETY: a structure of integers; all zero is valid.
    let mut statfs: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a whole statfs.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut statfs) } {
        0 => Ok(statfs.f_type == BTRFS_SUPER_MAGIC),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ranges_have_the_same_content() {
        let mut seen = std::collections::HashSet::new();
        assert!((0..2000).all(|r| seen.insert(content(r))));
        assert_eq!(offset(3), 12_288);
    }

    #[test]
    fn elsewhere_than_on_btrfs_it_refuses() {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a tmpfs");
        let error = Files::create(dir.path(), 1).expect_err("not btrfs");
        assert!(error.to_string().contains("is not on btrfs"), "{error}");
    }
}
