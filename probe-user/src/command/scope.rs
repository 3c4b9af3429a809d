//! Which filesystems are meant: looked for from time to time, since the command may make
//! and mount one.

use std::{fs::File, io, path::PathBuf};

use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    cli::ScopeArgs,
    kernel::{mount_of, mounts, open_mountinfo},
    model::Scope,
};

/// A scope that is looked for.
#[derive(Debug)]
pub(super) struct Scoping {
    asked: Vec<Asked>,
    /// Tells that mounts changed, if it can.
    mountinfo: Option<AsyncFd<File>>,
    scope: Scope,
}

/// One of the flags.
#[derive(Debug)]
struct Asked {
    words: String,
    what: What,
    found: bool,
}

#[derive(Debug)]
enum What {
    Mount(PathBuf),
    Fsid(String),
}

impl Scoping {
    /// What the command line asks for, if it does.
    pub(super) fn from(args: &ScopeArgs) -> Option<Self> {
        let mounts = args.mount.iter().map(|path| Asked {
            words: format!("--mount {}", path.display()),
            what: What::Mount(path.clone()),
            found: false,
        });
        let fsids = args.fsid.iter().map(|fsid| Asked {
            words: format!("--fsid {fsid}"),
            what: What::Fsid(fsid.clone()),
            found: false,
        });
        let asked: Vec<Asked> = mounts.chain(fsids).collect();
        if asked.is_empty() {
            return None;
        }
        let mountinfo = open_mountinfo().ok();
        let mut scoping = Self {
            scope: Scope {
                asked: asked.iter().map(|a| a.words.clone()).collect(),
                ..Scope::default()
            },
            asked,
            mountinfo: mountinfo.and_then(watched),
        };
        scoping.look();
        Some(scoping)
    }

    /// Filesystems cannot be told apart.
    pub(super) fn refuse(&mut self, why: String) {
        self.scope.refused = Some(why);
    }

    /// What was found until now.
    pub(super) const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Looks which of them is mounted now. Once found it stays meant.
    pub(super) fn look(&mut self) {
        let seen = mounts().unwrap_or_default();
        for asked in &mut self.asked {
            let found = match &asked.what {
                What::Mount(path) => mount_of(path).ok().flatten(),
                What::Fsid(fsid) => {
                    let is = |of: &&crate::model::Mount| of.fsid.as_ref() == Some(fsid);
                    seen.iter().find(is).cloned()
                }
            };
            if let Some(mount) = found {
                asked.found = true;
                self.scope.found.insert(mount.filesystem);
                self.scope.seen.insert(mount.filesystem, mount);
            }
        }
        for mount in seen {
            self.scope.seen.entry(mount.filesystem).or_insert(mount);
        }
        let missing = self.asked.iter().filter(|asked| !asked.found);
        self.scope.missing = missing.map(|asked| asked.words.clone()).collect();
    }

    /// Returns when mounts have changed, and been looked at.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        let Some(mountinfo) = &self.mountinfo else {
            return std::future::pending().await;
        };
        mountinfo.ready(Interest::PRIORITY).await?.clear_ready();
        self.look();
        Ok(())
    }
}

/// Mountinfo is always readable: what is waited for is that it changed.
fn watched(mountinfo: File) -> Option<AsyncFd<File>> {
    // SAFETY: the file is the one owner of its descriptor, and stays inside.
    unsafe { AsyncFd::register_with_interest(mountinfo, Interest::PRIORITY) }.ok()
}
