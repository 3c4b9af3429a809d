//! Where filesystems are mounted, by `/proc/self/mountinfo`: which super block is behind
//! a path, and which fsid a btrfs has.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd as _,
        unix::{
            ffi::OsStringExt as _,
            fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
        },
    },
    path::{Path, PathBuf},
};

use probe_ebpf::Filesystem;
use rustix::fs::{major, minor};

use super::machine::block_device;
use crate::model::{BlockDevice, Mount};

const MOUNTINFO: &str = "/proc/self/mountinfo";
const BTRFS: &str = "btrfs";
/// `_IOR(0x94, 31, struct btrfs_ioctl_fs_info_args)`, whose fsid is at byte 16
/// (`include/uapi/linux/btrfs.h` of Linux 7.2).
const BTRFS_IOC_FS_INFO: libc::c_ulong = 0x8400_941f;
const FS_INFO_BYTES: usize = 1024;
const FSID_AT: usize = 16;

/// What tells, by POLLPRI, that mounts changed.
pub(crate) fn open_mountinfo() -> io::Result<File> {
    File::open(MOUNTINFO)
}

/// All btrfs that are mounted where this process sees it.
pub(crate) fn mounts() -> io::Result<Vec<Mount>> {
    let table = fs::read(MOUNTINFO)?;
    let rows = rows(&table).filter(|row| row.kind == BTRFS);
    Ok(rows.map(Row::into_mount).collect())
}

/// The btrfs on which a path is; `None` if it is on another filesystem, or nowhere.
pub(crate) fn mount_of(path: &Path) -> io::Result<Option<Mount>> {
    let Ok(file) = open_path(path) else {
        return Ok(None);
    };
    let Some(id) = mount_id(&file) else {
        return Ok(None);
    };
    let table = fs::read(MOUNTINFO)?;
    let row = rows(&table).find(|row| row.id == id && row.kind == BTRFS);
    Ok(row.map(Row::into_mount))
}

/// A row of mountinfo (`Documentation/filesystems/proc.rst`, 3.5).
struct Row {
    id: u64,
    filesystem: Filesystem,
    point: PathBuf,
    kind: String,
    source: String,
    options: [String; 2],
}

impl Row {
    fn into_mount(self) -> Mount {
        Mount {
            fsid: fsid(&self.point, self.id),
            filesystem: self.filesystem,
            point: self.point,
            block: block(&self.source),
            source: self.source,
            options: self.options,
        }
    }
}

/// The device behind a source, if it is one.
fn block(source: &str) -> Option<BlockDevice> {
    let found = fs::metadata(source).ok()?;
    let is_one = found.file_type().is_block_device();
    is_one.then(|| block_device(major(found.rdev()), minor(found.rdev())))?
}

fn rows(table: &[u8]) -> impl Iterator<Item = Row> {
    table.split(|&b| b == b'\n').filter_map(row)
}

fn row(line: &[u8]) -> Option<Row> {
    let mut words = line.split(|&b| b == b' ');
    let text = |word: &[u8]| str::from_utf8(word).ok().map(str::to_owned);
    let id = text(words.next()?)?.parse().ok()?;
    let numbers = text(words.nth(1)?)?;
    let (major, minor) = numbers.split_once(':')?;
    let point = unescaped(words.nth(1)?);
    let of_mount = words.next()?;
    let mut words = words.skip_while(|word| *word != b"-").skip(1);
    let (kind, source, of_super) = (words.next()?, words.next()?, words.next()?);
    Some(Row {
        id,
        filesystem: Filesystem::of_numbers(major.parse().ok()?, minor.parse().ok()?),
        point: PathBuf::from(std::ffi::OsString::from_vec(point)),
        kind: text(kind)?,
        source: String::from_utf8_lossy(&unescaped(source)).into_owned(),
        options: [text(of_mount)?, text(of_super)?],
    })
}

/// Spaces and the like stand as `\040`.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| after.get(..3)).flatten();
        let value = octal
            .and_then(|digits| str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(value) = value {
            out.push(value);
            rest = &after[3..];
        } else {
            out.push(byte);
            rest = after;
        }
    }
    out
}

fn open_path(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)
}

/// Which mount a file was opened through.
fn mount_id(file: &File) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    id.trim().parse().ok()
}

/// Asks the btrfs that is mounted there, unless another mount hides it.
fn fsid(point: &Path, id: u64) -> Option<String> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(point)
        .ok()?;
    if mount_id(&file) != Some(id) {
        return None;
    }
    let mut info = [0_u8; FS_INFO_BYTES];
    // SAFETY: the kernel writes at most so many bytes as the number of the request says.
    let asked = unsafe { libc::ioctl(file.as_raw_fd(), BTRFS_IOC_FS_INFO, info.as_mut_ptr()) };
    (asked == 0).then(|| in_groups(&info[FSID_AT..FSID_AT + 16]))
}

fn in_groups(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&place) {
            text.push('-');
        }
        for half in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(half), 16));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read() {
        let line = br"77 30 0:45 /sub /mnt\040a/b rw,noatime shared:9 master:2 - btrfs /dev/vdb rw";
        let row = row(line).expect("a row");
        assert_eq!((row.id, row.kind.as_str()), (77, "btrfs"));
        assert_eq!(row.filesystem, Filesystem::of_numbers(0, 45));
        assert_eq!(row.point, Path::new("/mnt a/b"));
        assert_eq!(row.source, "/dev/vdb");
        assert_eq!(row.options, ["rw,noatime", "rw"]);
        for broken in [
            &b""[..],
            b"77 30",
            b"77 30 0:45 / / rw - btrfs",
            b"77 30 0-45 / / rw - btrfs /dev/vdb rw",
            b"a b c d e f",
        ] {
            assert!(super::row(broken).is_none());
        }
    }

    #[test]
    fn octal_stands_for_a_byte() {
        for (word, bytes) in [
            (&br"a\040b"[..], &b"a b"[..]),
            (br"\134", b"\\"),
            (br"\9", br"\9"),
            (br"a\", br"a\"),
            (br"\777", br"\777"),
        ] {
            assert_eq!(unescaped(word), bytes);
        }
    }

    #[test]
    fn an_fsid_is_in_groups() {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(in_groups(&bytes), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn what_is_no_btrfs_is_none() {
        assert_eq!(mount_of(Path::new("/proc")).expect("reads"), None);
        assert_eq!(mount_of(Path::new("/no/such")).expect("reads"), None);
    }
}
