//! The BPF object inside this program.

use sha2::{Digest as _, Sha256};

/// The ELF object that the build script made; empty if it had no toolchain.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probe-ebpf"));

/// Why there is no object in this build.
const ABSENT: &str = env!("COWPROBE_OBJECT_ABSENT");

/// The object, or why this build has none.
pub(super) fn bytes() -> Result<&'static [u8], &'static str> {
    present(OBJECT, ABSENT)
}

fn present<'a>(object: &'a [u8], absent: &'a str) -> Result<&'a [u8], &'a str> {
    if object.is_empty() {
        Err(absent)
    } else {
        Ok(object)
    }
}

/// SHA-256 of the object in hexadecimal, `None` if there is none.
pub(crate) fn sha256() -> Option<String> {
    use std::fmt::Write as _;
    let digest = Sha256::digest(bytes().ok()?);
    Some(digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_object_is_refused_with_the_reason() {
        assert_eq!(present(b"", "no toolchain"), Err("no toolchain"));
        assert_eq!(present(b"\x7fELF", ""), Ok(&b"\x7fELF"[..]));
        assert_eq!(OBJECT.is_empty(), !ABSENT.is_empty());
    }
}
