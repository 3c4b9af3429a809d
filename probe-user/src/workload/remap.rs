//! The remap workload: N ranges, cloned one by one from one file into another, and
//! deduped one by one against a third of the same content.

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

/// The shortest range in bytes, of which all are multiples: btrfs' sector size on x86-64.
pub(crate) const SECTOR_BYTES: u32 = 4096;
/// `BTRFS_SUPER_MAGIC`, include/uapi/linux/magic.h, as statfs(2) reports it.
const BTRFS_SUPER_MAGIC: i64 = 0x9123_683e;

/// What the three files are for.
const ROLES: [&str; 3] = ["src", "clone", "dedupe"];

/// The three files of the workload, open.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    size: Size,
    src: File,
    clone: File,
    dedupe: File,
}

/// How many ranges, and how long each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) ranges: u32,
    pub(crate) range_bytes: u32,
}

/// What is done to each range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Clone,
    Dedupe,
}

/// What the kernel said to one kind of operation, not yet looked at.
#[derive(Debug)]
pub(crate) struct Operated {
    kind: Kind,
    elapsed_ns: u64,
    /// The number of bytes that each is of.
    results: Vec<io::Result<u64>>,
}

/// What came of one kind of operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How long all operations took together, and nothing else: `CLOCK_MONOTONIC_RAW`.
    pub(crate) elapsed_ns: u64,
    /// How many ranges were not as they should be afterwards.
    pub(crate) unexpected: u32,
    /// The first of them.
    pub(crate) first: Option<String>,
}

impl Files {
    /// Writes the files in `dir` and syncs the filesystem.
    pub(crate) fn create(dir: &Path, size: Size) -> anyhow::Result<Self> {
        let files = Self::at(dir, size, OpenOptions::new().create(true).truncate(true))?;
        if let Err(error) = files.fill() {
            // What is half there must not pass for prepared.
            files.remove();
            let bytes = size.all_bytes();
            return Err(error).with_context(|| {
                format!("cannot write the files of the workload, {bytes} bytes; they are removed")
            });
        }
        Ok(files)
    }

    /// Removes the files.
    pub(crate) fn remove(&self) {
        for role in ROLES {
            let _ = fs::remove_file(path(&self.dir, role));
        }
    }

    fn fill(&self) -> io::Result<()> {
        let zeros = self.size.zeros();
        for range in 0..self.size.ranges {
            let (content, offset) = (self.size.content(range), self.size.offset(range));
            self.src.write_all_at(&content, offset)?;
            self.dedupe.write_all_at(&content, offset)?;
            self.clone.write_all_at(&zeros, offset)?;
        }
        // Room for what was written is looked for no later than here.
        // SAFETY: the fd is open; syncfs(2) has no other condition.
        match unsafe { libc::syncfs(self.src.as_raw_fd()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Opens the files that `create` left in `dir` and nothing has cloned to yet.
    pub(crate) fn open(dir: &Path, size: Size) -> anyhow::Result<Self> {
        let files = Self::at(dir, size, &mut OpenOptions::new())?;
        for file in [&files.src, &files.clone, &files.dedupe] {
            let length = file.metadata()?.len();
            ensure!(
                length == size.bytes(),
                "prepared for {} operations, not {}; run with --prepare first",
                length / u64::from(size.range_bytes),
                size.ranges
            );
        }
        let mut bytes = size.zeros();
        for range in 0..size.ranges {
            files.clone.read_exact_at(&mut bytes, size.offset(range))?;
            ensure!(
                bytes == size.zeros(),
                "the prepared files were used; run with --prepare again"
            );
        }
        Ok(files)
    }

    /// Does it to every range.
    pub(crate) fn operate(&self, kind: Kind) -> Operated {
        let length = u64::from(self.size.range_bytes);
        let ranges = 0..self.size.ranges;
        let mut results = Vec::with_capacity(self.size.ranges as usize);
        let begin_ns = raw_ns();
        match kind {
            Kind::Clone => results.extend(ranges.map(|range| {
                let offset = self.size.offset(range);
                clone_range(&self.src, &self.clone, offset, length).map(|()| length)
            })),
            Kind::Dedupe => results.extend(ranges.map(|range| {
                let offset = self.size.offset(range);
                dedupe_range(&self.src, &self.dedupe, offset, length)
            })),
        }
        let elapsed_ns = raw_ns() - begin_ns;
        Operated {
            kind,
            elapsed_ns,
            results,
        }
    }

    /// Where the result of a kind is.
    pub(crate) fn result_path(&self, kind: Kind) -> PathBuf {
        match kind {
            Kind::Clone => path(&self.dir, ROLES[1]),
            Kind::Dedupe => path(&self.dir, ROLES[2]),
        }
    }

    const fn file(&self, kind: Kind) -> &File {
        match kind {
            Kind::Clone => &self.clone,
            Kind::Dedupe => &self.dedupe,
        }
    }

    /// Looks at the results, and reads each range back.
    pub(crate) fn judge(&self, operated: Operated) -> Outcome {
        let Operated {
            kind,
            elapsed_ns,
            results,
        } = operated;
        let file = self.file(kind);
        let mut outcome = Outcome {
            elapsed_ns,
            unexpected: 0,
            first: None,
        };
        let length = u64::from(self.size.range_bytes);
        let mut bytes = self.size.zeros();
        for (range, result) in (0..self.size.ranges).zip(results) {
            let whole = |done: u64| match done {
                done if done == length => Ok(()),
                part => Err(io::Error::other(format!("{part} of {length} bytes"))),
            };
            let checked = result
                .and_then(whole)
                .and_then(|()| file.read_exact_at(&mut bytes, self.size.offset(range)))
                .and_then(|()| {
                    let right = bytes == self.size.content(range);
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

    fn at(dir: &Path, size: Size, options: &mut OpenOptions) -> anyhow::Result<Self> {
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
            dir: dir.to_owned(),
            size,
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

impl Size {
    /// All ranges together.
    const fn bytes(self) -> u64 {
        self.ranges as u64 * self.range_bytes as u64
    }

    /// The three files together.
    pub(super) const fn all_bytes(self) -> u64 {
        3 * self.bytes()
    }

    const fn offset(self, range: u32) -> u64 {
        range as u64 * self.range_bytes as u64
    }

    /// What a range holds: unlike every other range, so that a wrong one shows.
    fn content(self, range: u32) -> Vec<u8> {
        let fill = u8::try_from(range % 251 + 1).expect("at most 251");
        let mut bytes = vec![fill; self.range_bytes as usize];
        bytes[..4].copy_from_slice(&range.to_le_bytes());
        bytes
    }

    fn zeros(self) -> Vec<u8> {
        vec![0; self.range_bytes as usize]
    }
}

/// The clock that nothing adjusts.
fn raw_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
    let [seconds, ns] = [time.tv_sec, time.tv_nsec].map(i64::unsigned_abs);
    seconds * 1_000_000_000 + ns
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
        let size = Size {
            ranges: 2000,
            range_bytes: SECTOR_BYTES,
        };
        assert!((0..size.ranges).all(|r| seen.insert(size.content(r))));
        assert_eq!((size.offset(3), size.bytes()), (12_288, 8_192_000));
    }

    #[test]
    fn elsewhere_than_on_btrfs_it_refuses() {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a tmpfs");
        let size = Size {
            ranges: 1,
            range_bytes: SECTOR_BYTES,
        };
        let error = Files::create(dir.path(), size).expect_err("not btrfs");
        assert!(error.to_string().contains("is not on btrfs"), "{error}");
    }
}
