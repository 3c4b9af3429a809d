//! A btrfs of the workload's own, on a device that is made for such use: memory that brd or
//! zram gives, or a new file.

use std::{
    ffi::{CString, OsStr},
    fs::{self, File, OpenOptions},
    os::{
        fd::AsRawFd as _,
        unix::{
            ffi::OsStrExt as _,
            fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
        },
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};
use tempfile::{NamedTempFile, TempDir};

use super::remap::Size;

/// Where the filesystem is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// A block device.
    Block(PathBuf),
    /// A new file of so many bytes, behind a loop device.
    New(u64),
}

/// Drivers whose devices hold nothing that lasts, as /proc/devices names them.
const DRIVERS: [&str; 2] = ["ramdisk", "zram"];
/// What btrfs takes beside the files: 109 MiB is the least that mkfs.btrfs accepts.
const ROOM: u64 = 128 << 20;
/// The transaction thread shall not commit in a timed loop.
const OPTIONS: &str = "commit=300";

/// A mounted filesystem, which goes when this does.
#[derive(Debug)]
pub(crate) struct Filesystem {
    dir: TempDir,
    /// What it is, in words.
    pub(crate) words: String,
}

impl Filesystem {
    /// Makes one in which files of this size have room. What was on the device is lost.
    pub(crate) fn make(device: &Device, size: Size) -> anyhow::Result<Self> {
        let needed = size.all_bytes() + ROOM;
        let enough = |name: &str, bytes: u64| {
            ensure!(
                bytes >= needed,
                "{name} has {bytes} bytes, and {needed} are needed; take a larger one, or fewer \
                 operations (-n)"
            );
            Ok(())
        };
        let (path, name, bytes, file) = match device {
            Device::Block(path) => {
                let path = fs::canonicalize(path)
                    .with_context(|| format!("cannot use {}", path.display()))?;
                let name = path.display().to_string();
                let bytes = usable(&path)?;
                enough(&name, bytes)?;
                (path, name, bytes, None)
            }
            Device::New(bytes) => {
                enough("the new file", *bytes)?;
                let file = new_file(*bytes)?;
                (
                    file.path().to_owned(),
                    "a new file".to_owned(),
                    *bytes,
                    Some(file),
                )
            }
        };
        run(
            "mkfs.btrfs",
            ["-q".as_ref(), "-f".as_ref(), path.as_os_str()],
        )?;
        let dir = tempfile::Builder::new()
            .prefix("cowprobe-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()
            .context("cannot make a folder to mount on; set TMPDIR")?;
        let options = match file {
            Some(_) => format!("{OPTIONS},loop"),
            None => OPTIONS.to_owned(),
        };
        let before: [&OsStr; 4] = [
            "-t".as_ref(),
            "btrfs".as_ref(),
            "-o".as_ref(),
            options.as_ref(),
        ];
        let places = [path.as_os_str(), dir.path().as_os_str()];
        run("mount", before.into_iter().chain(places))?;
        // The loop device holds the file, whose name goes with `file`, and lets go of it
        // when it is unmounted.
        drop(file);
        let place = dir.path().display();
        let words = format!("{name}, {bytes} bytes: a new btrfs, mounted at {place}, {OPTIONS}");
        Ok(Self { dir, words })
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Filesystem {
    fn drop(&mut self) {
        let Ok(place) = CString::new(self.dir.path().as_os_str().as_bytes()) else {
            return;
        };
        // Somebody may look into it: then it goes when they do.
        for flags in [0, libc::MNT_DETACH] {
            // SAFETY: the pointer is to a string that ends.
            if unsafe { libc::umount2(place.as_ptr(), flags) } == 0 {
                break;
            }
        }
    }
}

/// The bytes of a block device that may be overwritten.
fn usable(path: &Path) -> anyhow::Result<u64> {
    let name = path.display();
    let found = fs::metadata(path).with_context(|| format!("cannot use {name}"))?;
    ensure!(
        found.file_type().is_block_device(),
        "{name} is no block device; name one of brd or zram, or new:SIZE"
    );
    let (major, minor) = (libc::major(found.rdev()), libc::minor(found.rdev()));
    let devices = fs::read_to_string("/proc/devices").context("cannot read /proc/devices")?;
    let driver = driver(&devices, major);
    ensure!(
        driver.is_some_and(|driver| DRIVERS.contains(&driver)),
        "{name} is of the driver {}; only brd and zram, or new:SIZE: what is on it would be lost",
        driver.unwrap_or("nobody knows")
    );
    let sys = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    ensure!(
        !sys.join("partition").exists(),
        "{name} is a partition; name the whole device"
    );
    // Fails for what is mounted, swapped to, or below another device (O_EXCL, open(2)).
    let claimed = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL)
        .open(path);
    match claimed {
        Ok(_) => {}
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
            bail!("{name} is in use (mounted, swapped to, or held by another); name another one")
        }
        Err(e) => return Err(e).with_context(|| format!("cannot use {name}")),
    }
    let sectors = fs::read_to_string(sys.join("size"))
        .with_context(|| format!("cannot ask for the size of {name}"))?;
    // Of 512 bytes, whatever the device's own are.
    let bytes = sectors.trim().parse::<u64>()? * 512;
    ensure!(
        bytes > 0,
        "{name} has no size yet; write one to {}/disksize",
        sys.display()
    );
    Ok(bytes)
}

/// The name of a block device's driver in /proc/devices.
fn driver(devices: &str, major: u32) -> Option<&str> {
    let (_, block) = devices.split_once("Block devices:\n")?;
    block.lines().find_map(|line| {
        let (number, name) = line.trim().split_once(' ')?;
        (number.parse() == Ok(major)).then_some(name)
    })
}

/// A file all of whose bytes are there: a loop device has no way to say that they are not.
fn new_file(bytes: u64) -> anyhow::Result<NamedTempFile> {
    let file = tempfile::Builder::new().prefix("cowprobe-").tempfile();
    let file = file.context("cannot make a file; set TMPDIR")?;
    allocate(file.as_file(), bytes)
        .with_context(|| format!("cannot make a file of {bytes} bytes; set TMPDIR"))?;
    Ok(file)
}

fn allocate(file: &File, bytes: u64) -> std::io::Result<()> {
    let length = bytes
        .try_into()
        .map_err(|_| std::io::ErrorKind::FileTooLarge)?;
    // SAFETY: the fd is open; posix_fallocate(3) has no other condition.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

/// Runs a program to its end; an error has what it said.
fn run<'a>(program: &str, args: impl IntoIterator<Item = &'a OsStr>) -> anyhow::Result<()> {
    let out = Command::new(program).args(args).output();
    let out = out.with_context(|| format!("cannot start {program}; is it installed?"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    let said = said.lines().find(|line| !line.trim().is_empty());
    ensure!(
        out.status.success(),
        "{program}: {}: {}",
        out.status,
        said.unwrap_or("it said nothing").trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        ranges: 1,
        range_bytes: 4096,
    };

    #[test]
    fn a_driver_is_that_of_block_devices() {
        let devices = "Character devices:\n  1 mem\n\nBlock devices:\n  1 ramdisk\n259 blkext\n";
        assert_eq!(driver(devices, 1), Some("ramdisk"));
        assert_eq!(driver(devices, 259), Some("blkext"));
        assert_eq!(driver(devices, 8), None);
        assert_eq!(driver("", 1), None);
    }

    #[test]
    fn what_is_no_such_device_is_refused() {
        let file = NamedTempFile::new().expect("a file");
        for (path, words) in [
            (Path::new("/no/such"), "cannot use /no/such"),
            (Path::new("/dev/null"), "/dev/null is no block device"),
            (file.path(), "is no block device; name one of brd or zram"),
        ] {
            let made = Filesystem::make(&Device::Block(path.to_owned()), SIZE);
            let why = made.expect_err("refused").to_string();
            assert!(why.contains(words), "{why}");
        }
        let made = Filesystem::make(&Device::New(ROOM), SIZE);
        let why = made.expect_err("too small").to_string();
        assert!(why.contains("134230016 are needed"), "{why}");
    }
}
