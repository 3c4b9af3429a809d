//! Where the flags of a task are: the only layout that the programs need.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use super::btf::member_offset_bytes;

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
/// Both names are within the first KiB of the strings on 6.18 and 7.3, which are 2 MiB:
/// it takes longer to read them than to attach a probe.
const STRINGS: usize = 64 << 10;

/// The offset of `flags` in `struct task_struct`; an error says why it is not known.
pub(super) fn flags_offset() -> Result<u32, String> {
    let unreadable = |_: io::Error| format!("no {VMLINUX}");
    let file = File::open(VMLINUX).map_err(unreadable)?;
    let types = section(&file, 8, usize::MAX).map_err(unreadable)?;
    for most in [STRINGS, usize::MAX] {
        let strings = section(&file, 16, most).map_err(unreadable)?;
        let offset = member_offset_bytes(&types, &strings, "task_struct", "flags");
        if let Some(offset) = offset.and_then(|offset| u32::try_from(offset).ok()) {
            return Ok(offset);
        }
    }
    Err(format!("no flags of task_struct in {VMLINUX}"))
}

/// At most so much of the section whose offset stands at `at` in the header
/// (Documentation/bpf/btf.rst of Linux 7.2).
fn section(file: &File, at: usize, most: usize) -> io::Result<Vec<u8>> {
    let mut header = [0; 24];
    file.read_exact_at(&mut header, 0)?;
    let word = |at: usize| {
        let bytes = header[at..at + 4].try_into().expect("four bytes");
        u32::from_ne_bytes(bytes)
    };
    let length = usize::try_from(word(at + 4)).unwrap_or(most).min(most);
    // What is longer than any is broken.
    if length > 1 << 30 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, u64::from(word(4)) + u64::from(word(at)))?;
    Ok(bytes)
}
