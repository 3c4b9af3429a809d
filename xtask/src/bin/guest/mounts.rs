//! The guest's file systems, and the way into the Debian image.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};

/// Type and place, in order.
const FILE_SYSTEMS: [(&str, &str); 12] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/tmp"),
    ("tracefs", "/sys/kernel/tracing"),
    ("debugfs", "/sys/kernel/debug"),
    ("bpf", "/sys/fs/bpf"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("securityfs", "/sys/kernel/security"),
    ("configfs", "/sys/kernel/config"),
];

/// Without these, nothing works.
const REQUIRED: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What the Debian image shares with the initramfs.
const SHARED: [&str; 8] = [
    "/proc",
    "/sys",
    "/dev",
    "/tmp",
    "/t",
    "/out",
    "/lib/modules",
    "/usr/local/bin",
];

const DISK: &str = "/dev/vda";
const ROOT: &str = "/rootfs";

/// Mounts everything; what this kernel does not have is left out.
pub(crate) fn mount_all() -> Result<()> {
    for (kind, place) in FILE_SYSTEMS {
        // The kernel makes the places below /sys itself, and refuses others.
        let made = fs::create_dir_all(place);
        let mounted = mount(
            Some(kind),
            place,
            Some(kind),
            MsFlags::empty(),
            None::<&str>,
        );
        if REQUIRED.contains(&place) {
            made.with_context(|| format!("failed to make {place}"))?;
            mounted.with_context(|| format!("failed to mount {place}"))?;
        }
    }
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        let link = Path::new("/dev").join(link);
        if !link.exists() {
            std::os::unix::fs::symlink(target, link)?;
        }
    }
    for place in ["/t", "/out", "/mnt", "/root"] {
        fs::create_dir_all(place)?;
    }
    Ok(())
}

/// Mounts the Debian image and makes it this process's root.
pub(crate) fn enter_rootfs() -> Result<()> {
    let patience = Instant::now() + Duration::from_secs(5);
    while !Path::new(DISK).exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::create_dir_all(ROOT)?;
    mount(
        Some(DISK),
        ROOT,
        Some("ext4"),
        MsFlags::empty(),
        None::<&str>,
    )
    .with_context(|| format!("failed to mount the Debian image {DISK}"))?;
    for place in SHARED {
        let inside = format!("{ROOT}{place}");
        fs::create_dir_all(&inside)?;
        if Path::new(place).is_dir() {
            let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(
                Some(place),
                inside.as_str(),
                None::<&str>,
                flags,
                None::<&str>,
            )
            .with_context(|| format!("failed to bind {place} into the Debian image"))?;
        }
    }
    nix::unistd::chroot(ROOT).context("failed to enter the Debian image")?;
    std::env::set_current_dir("/")?;
    Ok(())
}
