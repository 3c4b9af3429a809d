//! A function that calls itself: `inode_permission` of a file on overlayfs asks for
//! the permission of the file below (`ovl_permission`, `fs/overlayfs/inode.c` of
//! Linux 7.2).

use super::filesystem::sh;

/// The function.
pub(crate) const NESTED: &str = "inode_permission";

/// A shell's command that makes it nest some 2,000 times.
pub(crate) const OPENS: &str =
    "i=0; while [ $i -lt 200 ]; do : < /tmp/o/m/a/b/c/f; i=$((i+1)); done";

/// Mounts one over a tmpfs.
pub(crate) fn mount() -> anyhow::Result<()> {
    sh("modprobe", &["overlay"])?;
    let script = "mkdir -p /tmp/o && mount -t tmpfs tmpfs /tmp/o && cd /tmp/o && mkdir l u w m && \
        mkdir -p l/a/b/c && touch l/a/b/c/f && \
        mount -t overlay -o lowerdir=l,upperdir=u,workdir=w overlay m";
    sh("sh", &["-c", script]).map(drop)
}

pub(crate) fn unmount() -> anyhow::Result<()> {
    sh("sh", &["-c", "umount /tmp/o/m && umount /tmp/o"]).map(drop)
}
