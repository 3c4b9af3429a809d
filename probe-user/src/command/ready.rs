//! Says that everything is attached: to a descriptor, and to who started us.

use std::{
    env,
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{FromRawFd as _, OwnedFd},
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
};

use anyhow::{Context as _, bail};

/// Where it is to be said.
#[derive(Debug)]
pub(super) struct Ready {
    fd: Option<File>,
}

impl Ready {
    /// Takes the descriptor, which the command must not inherit.
    pub(super) fn from(fd: Option<i32>) -> anyhow::Result<Self> {
        let Some(fd) = fd else {
            return Ok(Self { fd: None });
        };
        // SAFETY: fcntl has no condition for this command, whatever the number.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            bail!("--ready-fd: file descriptor {fd} is not open");
        }
        // SAFETY: it is open, and the command line gives it to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            fd: Some(fd.into()),
        })
    }

    /// A line break to the descriptor, which is closed; `READY=1` to the socket that
    /// `NOTIFY_SOCKET` names, as `sd_notify(3)` has it.
    pub(super) fn say(self) -> anyhow::Result<()> {
        if let Some(mut fd) = self.fd {
            fd.write_all(b"\n").context("cannot write to --ready-fd")?;
        }
        if let Some(place) = env::var_os("NOTIFY_SOCKET") {
            notify(&place).context("cannot write to NOTIFY_SOCKET")?;
        }
        Ok(())
    }
}

fn notify(place: &std::ffi::OsStr) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    let bytes = place.as_encoded_bytes();
    // A name that begins with @ is in the abstract namespace.
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(place)?,
    };
    socket.send_to_addr(b"READY=1", &address).map(drop)
}
