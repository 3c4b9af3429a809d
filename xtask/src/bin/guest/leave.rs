//! The way out of the guest.

use std::process::ExitCode;

use nix::sys::reboot::{RebootMode, reboot};

/// Leaves QEMU at once where it has its debug-exit device, else powers off. Does not return as PID 1.
pub(crate) fn leave() -> ExitCode {
    nix::unistd::sync();
    debug_exit();
    match reboot(RebootMode::RB_POWER_OFF) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("guest: failed to power off: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to the port of QEMU's isa-debug-exit device. The status is of no importance: the verdict has
/// its own port, because an exit status has no room for all of them.
#[cfg(target_arch = "x86_64")]
fn debug_exit() {
    const PORT: u16 = 0xf4;
    // SAFETY: iopl changes nothing but which instructions this process may use.
    if unsafe { nix::libc::iopl(3) } != 0 {
        return;
    }
    // SAFETY: this process may use port instructions now, and `out` touches no memory.
    unsafe {
        std::arch::asm!(
            "out dx, eax",
            in("dx") PORT,
            in("eax") 1_u32,
            options(nomem, nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn debug_exit() {}
