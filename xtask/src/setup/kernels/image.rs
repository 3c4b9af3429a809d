//! Cuts the vmlinux out of a bzImage: QEMU boots it half a second faster than the bzImage itself.
//!
//! The layout is that of Documentation/arch/x86/boot.rst (header fields since protocol 2.08).

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const SECTOR_BYTES: usize = 512;

/// The vmlinux in a bzImage.
pub(crate) fn vmlinux(image: &[u8]) -> Result<Vec<u8>> {
    let payload = payload(image)?;
    let (tool, has_size) = match payload {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("zstd", true),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => ("xz", true),
        // gzip's own trailer serves as the size.
        [0x1f, 0x8b, ..] => ("gzip", false),
        _ => bail!(
            "unknown compression of the kernel ({:02x?})",
            &payload[..payload.len().min(6)]
        ),
    };
    let (packed, size) = payload.split_at(payload.len().saturating_sub(4));
    let vmlinux = decompress(tool, if has_size { packed } else { payload })?;
    let size = u32::from_le_bytes(
        size.try_into()
            .context("the kernel's payload is too short")?,
    );
    ensure!(
        u32::try_from(vmlinux.len()) == Ok(size),
        "the kernel unpacks to {} bytes where its image says {size}",
        vmlinux.len()
    );
    Ok(vmlinux)
}

/// The compressed kernel in a bzImage, with its size behind it.
fn payload(image: &[u8]) -> Result<&[u8]> {
    let word = |at: usize| -> Result<usize> {
        let bytes = image.get(at..at + 4).context("the image is too short")?;
        let word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        usize::try_from(word).context("a 32-bit host")
    };
    ensure!(
        image.get(MAGIC..MAGIC + 4) == Some(b"HdrS"),
        "this is no x86 kernel image"
    );
    let setup = match image[SETUP_SECTORS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (setup + 1) * SECTOR_BYTES + word(PAYLOAD_OFFSET)?;
    image
        .get(start..start + word(PAYLOAD_LENGTH)?)
        .context("the image ends before its payload")
}

/// What a compression tool makes of `packed`.
pub(crate) fn decompress(tool: &str, packed: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new(tool)
        .args(["-d", "-c", "-q"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start {tool}; install it with cargo xtask setup"))?;
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let output = std::thread::scope(|scope| {
        // A write that fails shows in the tool's status.
        scope.spawn(move || stdin.write_all(packed));
        child.wait_with_output()
    })?;
    ensure!(
        output.status.success(),
        "{tool} failed to decompress ({})",
        output.status
    );
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bzImage with the payload behind `setup_sectors` sectors (0 stands for 4).
    fn image(setup_sectors: u8, payload: &[u8]) -> Vec<u8> {
        let setup = if setup_sectors == 0 {
            4
        } else {
            usize::from(setup_sectors)
        };
        let mut image = vec![0; (setup + 1) * SECTOR_BYTES + 16];
        image[SETUP_SECTORS] = setup_sectors;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET] = 16;
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length);
        image.extend_from_slice(payload);
        image.extend_from_slice(b"what follows the payload");
        image
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let packed = Command::new("gzip")
            .arg("-c")
            .arg(file.path())
            .output()
            .unwrap();
        packed.stdout
    }

    #[test]
    fn the_payload_is_cut_where_the_header_says() {
        for sectors in [0, 4, 39] {
            assert_eq!(payload(&image(sectors, b"payload")).unwrap(), b"payload");
        }
    }

    #[test]
    fn a_gzip_kernel_unpacks_to_itself() {
        assert_eq!(
            vmlinux(&image(0, &gzip("the kernel"))).unwrap(),
            b"the kernel"
        );
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let short = payload(&image(0, b"payload")[..2576 + 3]).unwrap_err();
        assert_eq!(short.to_string(), "the image ends before its payload");
        assert_eq!(
            payload(b"ELF").unwrap_err().to_string(),
            "this is no x86 kernel image"
        );
        let odd = vmlinux(&image(0, b"LZO.")).unwrap_err().to_string();
        assert!(odd.starts_with("unknown compression"), "{odd}");
    }
}
