//! Writes cpio archives in the "newc" format, the one that the kernel unpacks as its initramfs.
//!
//! The layout is that of Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// An archive under construction. The directories above an entry are added with it.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// An empty archive.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a directory with its parents.
    pub(crate) fn add_directory(&mut self, path: &str) {
        if path.is_empty() || self.directories.contains(path) {
            return;
        }
        self.add_parents(path);
        self.directories.insert(path.to_owned());
        self.entry(path, DIRECTORY | 0o755, (0, 0), b"");
    }

    /// Adds a regular file.
    pub(crate) fn add_file(&mut self, path: &str, permissions: u32, content: &[u8]) {
        self.add_parents(path);
        self.entry(path, REGULAR | permissions, (0, 0), content);
    }

    /// Adds a symbolic link.
    pub(crate) fn add_symlink(&mut self, path: &str, target: &str) {
        self.add_parents(path);
        self.entry(path, SYMLINK | 0o777, (0, 0), target.as_bytes());
    }

    /// Adds a character device.
    pub(crate) fn add_device(&mut self, path: &str, major: u32, minor: u32) {
        self.add_parents(path);
        self.entry(path, CHARACTER_DEVICE | 0o600, (major, minor), b"");
    }

    /// Adds what is in a directory, as `path` and below. What is neither file, directory nor symbolic
    /// link is left out.
    pub(crate) fn add_tree(&mut self, from: &Path, path: &str) -> Result<()> {
        self.add_directory(path);
        let read = || format!("failed to read {}", from.display());
        let mut names = fs::read_dir(from)
            .with_context(read)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<Result<Vec<_>>>()?;
        names.sort();
        for name in names {
            let file = from.join(&name);
            let path = format!("{path}/{}", name.to_string_lossy());
            let found = file.symlink_metadata().with_context(read)?;
            if found.is_dir() {
                self.add_tree(&file, &path)?;
            } else if found.is_symlink() {
                self.add_symlink(&path, &fs::read_link(&file)?.to_string_lossy());
            } else if found.is_file() {
                let content = fs::read(&file)
                    .with_context(|| format!("failed to read {}", file.display()))?;
                self.add_file(&path, found.permissions().mode() & 0o7777, &content);
            }
        }
        Ok(())
    }

    /// The archive's bytes. The kernel takes several archives one behind the other.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), b"");
        self.bytes
    }

    fn add_parents(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.add_directory(parent);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let length = |bytes: usize| u32::try_from(bytes).expect("an initramfs file is below 4 GiB");
        let links = 1;
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            length(content.len()),
            0,
            0,
            device.0,
            device.1,
            length(path.len() + 1),
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Reads an archive back: mode and content by path, in order.
    fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut all = Vec::new();
        let mut at = 0;
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..][..8]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (size, name_size) = (field(6) as usize, field(11) as usize);
            let name = std::str::from_utf8(&bytes[at + 110..][..name_size - 1]).unwrap();
            let start = (at + 110 + name_size).next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert_eq!(start, bytes.len());
                return all;
            }
            all.push((
                name.to_owned(),
                field(1),
                bytes[start..start + size].to_vec(),
            ));
            at = (start + size).next_multiple_of(4);
        }
    }

    #[test]
    fn entries_come_back_with_their_parents_before_them() {
        let mut archive = Archive::new();
        archive.add_file("t/deep/file", 0o640, b"12345");
        archive.add_symlink("t/deep/link", "file");
        archive.add_device("dev/null", 1, 3);
        archive.add_directory("t/deep");
        let read: Vec<_> = entries(&archive.finish());
        let expected: [(&str, u32, &[u8]); 6] = [
            ("t", 0o040_755, b""),
            ("t/deep", 0o040_755, b""),
            ("t/deep/file", 0o100_640, b"12345"),
            ("t/deep/link", 0o120_777, b"file"),
            ("dev", 0o040_755, b""),
            ("dev/null", 0o020_600, b""),
        ];
        assert_eq!(
            read,
            expected.map(|(name, mode, bytes)| (name.to_owned(), mode, bytes.to_vec()))
        );
    }

    #[test]
    fn a_tree_keeps_modes_and_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/run"), "#!").unwrap();
        fs::set_permissions(
            dir.path().join("sub/run"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        std::os::unix::fs::symlink("sub/run", dir.path().join("link")).unwrap();
        let mut archive = Archive::new();
        archive.add_tree(dir.path(), "t").unwrap();
        let read: BTreeMap<_, _> = entries(&archive.finish())
            .into_iter()
            .map(|(name, mode, content)| (name, (mode, content)))
            .collect();
        assert_eq!(read["t/sub/run"], (0o100_755, b"#!".to_vec()));
        assert_eq!(read["t/link"], (0o120_777, b"sub/run".to_vec()));
    }
}
