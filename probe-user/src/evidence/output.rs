//! The file that a record is written to: opened before anything runs, and
//! replaced in one step, so that a reader never sees half a record and a failure
//! never costs an older one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};
use tempfile::NamedTempFile;

use crate::wording::plain;

/// An open destination.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// A file beside the destination, which takes its place when it is complete.
    Beside(NamedTempFile),
    /// A pipe or a device, written to as it is.
    Stream(File),
}

impl Output {
    /// Opens `path` for a record.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let sink = Self::sink(path).map_err(|error| {
            let (path, why) = (path.display(), plain(&error));
            anyhow!("cannot write {path}: {why}; name a file with -o that can be written")
        })?;
        // The file behind a symbolic link is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { path, sink })
    }

    fn sink(path: &Path) -> io::Result<Sink> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                Ok(Sink::Stream(OpenOptions::new().write(true).open(path)?))
            }
            Ok(_) => {
                // A file that may not be written is not replaced behind its owner's back.
                OpenOptions::new().write(true).open(path)?;
                beside(&fs::canonicalize(path)?)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => beside(path),
            Err(e) => Err(e),
        }
    }

    /// Writes the whole record and puts it in place.
    pub(crate) fn commit(self, text: &str) -> anyhow::Result<()> {
        let Self { path, sink } = self;
        let write = || -> io::Result<()> {
            match sink {
                Sink::Beside(mut file) => {
                    file.write_all(text.as_bytes())?;
                    file.as_file().sync_all()?;
                    file.persist(&path)?;
                    Ok(())
                }
                Sink::Stream(mut file) => file.write_all(text.as_bytes()),
            }
        };
        write().with_context(|| format!("the record is lost: cannot write {}", path.display()))
    }
}

fn beside(path: &Path) -> io::Result<Sink> {
    use std::os::unix::fs::PermissionsExt as _;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let file = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".partial")
        // As any program's file: what the umask leaves of this.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(parent.unwrap_or(Path::new(".")))?;
    Ok(Sink::Beside(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("reads");
        let mut names: Vec<_> = entries
            .map(|e| e.expect("reads").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_older_record_stays_until_the_new_one_is_complete() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r.json");
        fs::write(&path, "old").expect("writes");
        drop(Output::open(&path).expect("opens"));
        assert_eq!(fs::read_to_string(&path).expect("reads"), "old");
        let output = Output::open(&path).expect("opens");
        assert_eq!(fs::read_to_string(&path).expect("reads"), "old");
        output.commit("new").expect("commits");
        assert_eq!(fs::read_to_string(&path).expect("reads"), "new");
        assert_eq!(names(dir.path()), ["r.json"]);
    }

    #[test]
    fn a_symbolic_link_stays_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("r.json"), dir.path().join("l.json"));
        fs::write(&file, "old").expect("writes");
        std::os::unix::fs::symlink("r.json", &link).expect("links");
        Output::open(&link)
            .expect("opens")
            .commit("new")
            .expect("commits");
        assert_eq!(fs::read_to_string(&file).expect("reads"), "new");
        assert!(link.is_symlink());
    }

    #[test]
    fn what_cannot_be_written_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        for path in [
            dir.path().to_owned(),
            dir.path().join("none/r.json"),
            "/".into(),
        ] {
            let error = Output::open(&path).expect_err("refused");
            assert!(error.to_string().starts_with("cannot write "), "{error}");
        }
        assert_eq!(names(dir.path()), [""; 0]);
    }

    #[test]
    fn a_full_disk_is_said() {
        let output = Output::open(Path::new("/dev/full")).expect("opens");
        let error = output.commit("text").expect_err("full");
        let error = crate::wording::causes(&error);
        assert!(
            error.contains("the record is lost") && error.contains("no space left"),
            "{error}"
        );
    }
}
