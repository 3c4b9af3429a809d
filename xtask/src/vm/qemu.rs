//! QEMU as a child: its arguments, the sockets behind the guest's ports, and its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::Signal;

use super::streams::Port;
use super::{Machine, VmSpec};
use crate::plan::{PORT_ERR, PORT_FILES, PORT_OUT, PORT_VERDICT};

/// The guest's ports beside its console.
const PORTS: [&str; 4] = [PORT_OUT, PORT_ERR, PORT_FILES, PORT_VERDICT];

/// A running QEMU.
pub(super) struct Qemu {
    child: Child,
    ports: BTreeMap<&'static str, UnixStream>,
}

/// Starts QEMU. It dies with the thread that calls this, however that ends.
pub(super) fn start(machine: &Machine, spec: &VmSpec, initrd: &File) -> Result<Qemu> {
    let mut command = Command::new("qemu-system-x86_64");
    arguments(&mut command, machine, spec);
    let initrd: OwnedFd = initrd.try_clone()?.into();
    command
        .arg("-initrd")
        .arg(format!("/proc/self/fd/{}", initrd.as_raw_fd()));
    let mut ports = BTreeMap::new();
    let mut inherited = vec![initrd];
    command.arg("-device").arg("virtio-serial-pci");
    for name in PORTS.into_iter().chain(["console"]) {
        let (ours, theirs) = UnixStream::pair()?;
        command
            .arg("-chardev")
            .arg(format!("socket,id={name},fd={}", theirs.as_raw_fd()));
        match name {
            "console" => command.args(["-serial", "chardev:console"]),
            port => command
                .arg("-device")
                .arg(format!("virtserialport,chardev={port},name={port}")),
        };
        ports.insert(name, ours);
        inherited.push(theirs.into());
    }
    let before = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        for end in &inherited {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes prctl and fcntl system calls, which are
    // async-signal-safe; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(before) };
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("failed to start qemu-system-x86_64; `cargo xtask setup` installs it")?;
    Ok(Qemu { child, ports })
}

impl Qemu {
    /// Our end of one of the guest's ports.
    pub(super) fn port(&mut self, name: &str) -> Port {
        Port::new(self.ports.remove(name).expect("each port is taken once"))
    }

    /// QEMU's own messages.
    pub(super) fn messages(&mut self) -> Port {
        Port::new(
            self.child
                .stderr
                .take()
                .expect("stderr is a pipe, taken once"),
        )
    }

    /// Waits for QEMU's end, which is forced unless it ended by itself.
    pub(super) fn end(mut self, by_itself: bool) -> io::Result<ExitStatus> {
        if !by_itself {
            self.child.kill()?;
        }
        self.child.wait()
    }
}

fn arguments(command: &mut Command, machine: &Machine, spec: &VmSpec) {
    // Multi-threaded emulation is less reliable with several CPUs, and no faster with one.
    command.args(["-accel", "tcg,thread=single", "-cpu", "max", "-M", "q35"]);
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]);
    command.args([
        "-m",
        &spec.mem_mib.to_string(),
        "-smp",
        &spec.smp.to_string(),
    ]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
    if spec.icount {
        command.args(["-icount", "shift=0,sleep=off"]);
    }
    if let Some(image) = machine.rootfs.as_ref().filter(|_| spec.rootfs) {
        let image = image.display();
        command.arg("-drive");
        command.arg(format!("file={image},if=virtio,format=raw,snapshot=on"));
    }
    command.arg("-kernel").arg(&machine.kernel.image);
    command.arg("-append").arg(kernel_arguments(spec));
}

fn kernel_arguments(spec: &VmSpec) -> String {
    let disks = spec.ram_disks;
    // brd's parameters are here too, for kernels that have it built in.
    format!(
        "console=ttyS0 panic=-1 quiet loglevel=4 brd.rd_nr={} brd.rd_size={} {}",
        disks.count, disks.size_kib, spec.append
    )
}
