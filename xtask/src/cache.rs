//! The directory where everything that is fetched or made is kept, shared by several clones.
//!
//! Nothing half-made is ever visible in it: a product is made in a staging directory of the same
//! file system and renamed into place, under a lock, so that two processes never make the same.

use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Whether a product was there or had to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// It was there.
    Present,
    /// It was made now.
    Made,
}

/// The cache's directory, made if missing.
pub(crate) fn dir() -> Result<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let dir = set("COWPROBE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("cowprobe")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/cowprobe")))
        .context("no place for the cache: set COWPROBE_CACHE to a directory")?;
    fs::create_dir_all(&dir).with_context(|| {
        format!(
            "failed to make the cache {}; set COWPROBE_CACHE to another place",
            dir.display()
        )
    })?;
    std::path::absolute(&dir).context("failed to make the cache's path absolute")
}

/// Waits until no other process holds the lock called `name`, and holds it until the file is dropped.
pub(crate) fn lock(name: &str) -> Result<File> {
    let path = dir()?.join("locks").join(flat(name));
    fs::create_dir_all(path.parent().expect("it has a directory"))?;
    let file = File::create(&path).with_context(|| format!("failed to open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("xtask: waiting for another process that makes {name}");
            file.lock()
                .with_context(|| format!("failed to lock {}", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("failed to lock {}", path.display()));
        }
    }
    Ok(file)
}

/// Makes `target` unless it is there. `make` gets an empty directory to work in and answers with the
/// path in it (or in the same file system) that becomes `target`.
pub(crate) fn make(target: &Path, make: impl FnOnce(&Path) -> Result<PathBuf>) -> Result<Made> {
    if target.exists() {
        return Ok(Made::Present);
    }
    let cache = dir()?;
    let name = flat(
        &target
            .strip_prefix(&cache)
            .unwrap_or(target)
            .to_string_lossy(),
    );
    let _lock = lock(&name)?;
    if target.exists() {
        return Ok(Made::Present);
    }
    // A staging directory has the product's name, so that what an interrupted run left goes here.
    let work = cache.join("staging").join(&name);
    remove(&work)?;
    fs::create_dir_all(&work).with_context(|| format!("failed to make {}", work.display()))?;
    let product = make(&work)?;
    fs::create_dir_all(target.parent().expect("a product has a directory"))?;
    fs::rename(&product, target)
        .with_context(|| format!("failed to put {} in its place", target.display()))?;
    remove(&work)?;
    Ok(Made::Made)
}

/// Writes a small file so that a reader sees either the old or the new text.
pub(crate) fn write(target: &Path, text: &str) -> Result<()> {
    let dir = target.parent().expect("a file has a directory");
    fs::create_dir_all(dir).with_context(|| format!("failed to make {}", dir.display()))?;
    let file = tempfile::NamedTempFile::new_in(dir)?;
    fs::write(file.path(), text)?;
    file.persist(target)
        .with_context(|| format!("failed to write {}", target.display()))?;
    Ok(())
}

/// Removes a file or a whole directory; one that is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let gone = match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    gone.with_context(|| format!("failed to remove {}", path.display()))
}

/// A short name for a set of inputs: texts, and files by path, size and time.
pub(crate) fn fingerprint(texts: &[&str], files: &[PathBuf]) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    texts.hash(&mut hasher);
    for file in files {
        let found =
            fs::metadata(file).with_context(|| format!("failed to look at {}", file.display()))?;
        (file, found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn flat(name: &str) -> String {
    name.replace(['/', ' '], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_changes_with_each_input() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let of = |text: &str| fingerprint(&[text], &[file.path().to_owned()]).unwrap();
        let before = of("a");
        assert_eq!(before, of("a"));
        assert_ne!(before, of("b"));
        fs::write(file.path(), "longer").unwrap();
        assert_ne!(before, of("a"));
    }

    #[test]
    fn write_replaces_whole_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/current");
        write(&file, "a long first text\n").unwrap();
        write(&file, "short\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "short\n");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }
}
