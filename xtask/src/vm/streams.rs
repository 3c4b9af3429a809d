//! The streams out of a guest, each read to its end by a thread of its own.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::Sender;
use std::thread::{Scope, ScopedJoinHandle};

use anyhow::{Context, Result};

use super::Output;

/// Our end of a stream.
pub(super) struct Port {
    source: File,
    copy: Option<Box<dyn Write + Send>>,
}

/// All that came out of a boot.
pub(super) struct Collected {
    pub(super) console: Vec<u8>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) verdict: Vec<u8>,
    /// QEMU's own messages.
    pub(super) said: Vec<u8>,
    /// Whether what was in `/out` could be unpacked.
    pub(super) files: Result<()>,
    /// Whether QEMU ended before the time limit.
    pub(super) in_time: bool,
    /// How QEMU ended.
    pub(super) status: io::Result<ExitStatus>,
}

impl Port {
    /// Takes our end of a pipe or socket.
    pub(super) fn new(end: impl Into<OwnedFd>) -> Self {
        Self {
            source: File::from(end.into()),
            copy: None,
        }
    }

    /// Also copies to our own stdout what comes.
    pub(super) fn shown_on_stdout(mut self, output: Output) -> Self {
        self.copy = (output == Output::Shown).then(|| Box::new(io::stdout()) as _);
        self
    }

    /// Also copies to our own stderr what comes.
    pub(super) fn shown_on_stderr(mut self, output: Output) -> Self {
        self.copy = (output == Output::Shown).then(|| Box::new(io::stderr()) as _);
        self
    }
}

/// Collects all that comes; `alive` is dropped at the end.
pub(super) fn collect<'s>(
    scope: &'s Scope<'s, '_>,
    mut port: Port,
    alive: Sender<()>,
) -> ScopedJoinHandle<'s, Vec<u8>> {
    scope.spawn(move || {
        let _alive = alive;
        let mut all = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        // A socket whose other end was killed may be reset: what came until then is what there is.
        while let Ok(count @ 1..) = port.source.read(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
            if let Some(copy) = &mut port.copy {
                let copied = copy.write_all(&buffer[..count]).and_then(|()| copy.flush());
                if copied.is_err() {
                    // Our reader is gone; the guest is not to suffer for it.
                    port.copy = None;
                }
            }
        }
        all
    })
}

/// Unpacks the tar that comes into a directory; with no directory there is no tar.
pub(super) fn unpack<'s>(
    scope: &'s Scope<'s, '_>,
    mut port: Port,
    into: Option<PathBuf>,
    alive: Sender<()>,
) -> ScopedJoinHandle<'s, Result<()>> {
    scope.spawn(move || {
        let _alive = alive;
        let unpacked = match into {
            Some(dir) => tar::Archive::new(&port.source)
                .unpack(&dir)
                .with_context(|| format!("failed to unpack into {}", dir.display())),
            None => Ok(()),
        };
        // Read to the end in any case, so that the guest never waits for us.
        io::copy(&mut port.source, &mut io::sink()).ok();
        unpacked
    })
}

/// What a reader has read.
pub(super) fn join<T>(reader: ScopedJoinHandle<'_, T>) -> T {
    reader.join().expect("a reader does not panic")
}
