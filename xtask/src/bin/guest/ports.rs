//! The virtio-serial ports to the host, found by their names.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How long a port may take to show up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens a port for writing. Only one opener at a time is allowed.
pub(crate) fn open(name: &str) -> Result<File> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(path) = find(name) {
            return File::options()
                .write(true)
                .open(&path)
                .with_context(|| format!("failed to open {}", path.display()));
        }
        if Instant::now() > until {
            anyhow::bail!("the port {name:?} is missing: no virtio console in this kernel?");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn find(name: &str) -> Option<PathBuf> {
    fs::read_dir("/sys/class/virtio-ports")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|port| fs::read_to_string(port.join("name")).is_ok_and(|n| n.trim_end() == name))
        .map(|port| PathBuf::from("/dev").join(port.file_name().unwrap_or_default()))
        .filter(|device| device.exists())
}
