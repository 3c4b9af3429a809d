//! The file that a record is written to: tried before anything runs, and replaced
//! in one step, so that a reader never sees half a record and a failure never
//! costs an older one.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use tempfile::NamedTempFile;

use crate::wording::plain;

/// A destination that can be written.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    sink: Sink,
}

/// A file that can be written again and again, each time whole.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    path: PathBuf,
    /// What stood there first lends its owner and mode.
    older: Option<Metadata>,
}

#[derive(Debug)]
enum Sink {
    /// A file beside the destination will take its place.
    Replace(Option<Metadata>),
    /// A pipe, a device, or one of our own streams, written to as it is.
    Stream(File),
}

impl Output {
    /// Opens `path` for a record.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = Self::try_open(path);
        opened.map_err(|error| {
            let (path, why) = (path.display(), plain(&error));
            anyhow!("cannot write {path}: {why}; name a file with -o that can be written")
        })
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            // A symbolic link to nowhere is not ours to replace.
            Err(e) if e.kind() == io::ErrorKind::NotFound && !path.is_symlink() => None,
            Err(e) => return Err(e),
        };
        let Some(found) = found else {
            beside(path)?;
            let (path, sink) = (path.to_owned(), Sink::Replace(None));
            return Ok(Self { path, sink });
        };
        // What the command writes to a stream of ours must not be replaced by the record.
        let (out, err) = (io::stdout(), io::stderr());
        for stream in [out.as_fd(), err.as_fd()] {
            if is_same(stream, &found)? {
                let sink = Sink::Stream(File::from(stream.try_clone_to_owned()?));
                return Ok(Self {
                    path: path.to_owned(),
                    sink,
                });
            }
        }
        if found.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A file that may not be written is not replaced behind its owner's back.
        let file = OpenOptions::new().write(true).open(path)?;
        if !found.is_file() {
            let sink = Sink::Stream(file);
            return Ok(Self {
                path: path.to_owned(),
                sink,
            });
        }
        // The file behind a symbolic link is replaced, not the link.
        let path = fs::canonicalize(path)?;
        beside(&path)?;
        let sink = Sink::Replace(Some(found));
        Ok(Self { path, sink })
    }

    /// The same for more than one record; an error says why there can be one only.
    pub(crate) fn replaced(&self) -> anyhow::Result<Replaced> {
        let Sink::Replace(older) = &self.sink else {
            bail!(
                "{} is no file that can be replaced; name one with -o",
                self.path.display()
            );
        };
        Ok(Replaced {
            path: self.path.clone(),
            older: older.clone(),
        })
    }

    /// Writes the whole record and puts it in place.
    pub(crate) fn commit(self, text: &str) -> anyhow::Result<()> {
        let written = match self.sink {
            Sink::Replace(older) => {
                let path = self.path.clone();
                Replaced { path, older }.write(text)
            }
            Sink::Stream(mut file) => file.write_all(text.as_bytes()),
        };
        let path = self.path.display();
        written.with_context(|| format!("the record is lost: cannot write {path}"))
    }
}

impl Replaced {
    /// Puts a text in place; if that fails, what is there stays.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        let mut file = beside(&self.path)?;
        if let Some(older) = &self.older {
            // As root the owner is kept; another user owns the file already.
            let _ = fchown(file.as_file(), Some(older.uid()), Some(older.gid()));
            file.as_file().set_permissions(older.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        // Until the folder is on the disk, too, a crash of the machine brings back what
        // stood there. Not every filesystem syncs folders; the file itself is safe.
        let _ = File::open(folder(&self.path)).and_then(|dir| dir.sync_all());
        Ok(())
    }
}

fn is_same(stream: BorrowedFd<'_>, found: &Metadata) -> io::Result<bool> {
    let Ok(stream) = stream.try_clone_to_owned() else {
        // A closed stream is nobody's.
        return Ok(false);
    };
    let stream = File::from(stream).metadata()?;
    Ok((stream.dev(), stream.ino()) == (found.dev(), found.ino()))
}

/// A new file in the same directory, removed again unless it is kept.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".partial")
        // As any program's file: what the umask leaves of this.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder(path))
}

/// Where a file is.
fn folder(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
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
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("sets");
        let output = Output::open(&path).expect("opens");
        // A kill at this point leaves nothing behind.
        assert_eq!(names(dir.path()), ["r.json"]);
        assert_eq!(fs::read_to_string(&path).expect("reads"), "old");
        output.commit("new").expect("commits");
        assert_eq!(fs::read_to_string(&path).expect("reads"), "new");
        assert_eq!(
            fs::metadata(&path).expect("is").permissions().mode() & 0o777,
            0o640
        );
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
        fs::remove_file(&file).expect("removes");
        assert!(Output::open(&link).is_err(), "a link to nowhere");
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
