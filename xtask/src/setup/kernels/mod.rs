//! The kernels that a guest can boot: Debian's, an image file, or a named image of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::packages;
use crate::cache::{self, Made};

mod choice;
mod debian;
mod image;
pub(crate) mod modules;
mod version;

pub(crate) use choice::Wish;
use version::Version;

/// The flavour of Debian's kernels that is used: small, and with all that the probes need.
const FLAVOUR: &str = "-cloud-amd64";

/// A kernel that is ready to boot.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// Its release, or the name of the image.
    pub(crate) name: String,
    /// The uncompressed vmlinux, or a bzImage.
    pub(crate) image: PathBuf,
    /// The directory that holds its modules, as `lib/modules/<name>` and as `modules.cpio`; None if all
    /// is built in.
    pub(crate) modules: Option<PathBuf>,
}

/// What `--kernel` names.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// One of Debian's kernels.
    Debian(Wish),
    /// A file: vmlinux or bzImage, plain or compressed by zstd.
    File(PathBuf),
}

impl Request {
    /// Reads what `--kernel` names: a version, a file, or a name in the directory of images.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if let Some(wish) = Wish::parse(text) {
            return Ok(Self::Debian(wish));
        }
        if Path::new(text).is_file() {
            return Ok(Self::File(PathBuf::from(text)));
        }
        let images = images_dir();
        let named = ["vmlinux-", "bzImage-", ""]
            .iter()
            .flat_map(|kind| ["", ".zst"].map(|end| images.join(format!("{kind}{text}{end}"))))
            .find(|file| file.is_file());
        match named {
            Some(file) => Ok(Self::File(file)),
            None => bail!(
                "no kernel {text:?}: it is no version, no file, and not in {}; try newest, 7.3, a path, \
                 or set COWPROBE_KERNELS to a directory of images",
                images.display()
            ),
        }
    }

    /// Fetches and unpacks the kernel, unless it is in the cache.
    pub(crate) fn ensure(&self) -> Result<(Kernel, Made)> {
        packages::ensure(packages::KERNEL)?;
        match self {
            Self::Debian(wish) => debian::ensure(wish),
            Self::File(file) => of_file(file),
        }
    }

    /// Whether a kernel that was taken is of the series that was asked for: Debian's archive drops
    /// series, and another one is taken then.
    pub(crate) fn is_met_by(&self, kernel: &Kernel) -> bool {
        match self {
            Self::Debian(Wish::Version(wish)) => Version::of_release(&kernel.name)
                .is_some_and(|version| version.begins_with(&wish.series())),
            Self::Debian(Wish::Newest) | Self::File(_) => true,
        }
    }
}

fn images_dir() -> PathBuf {
    std::env::var_os("COWPROBE_KERNELS").map_or_else(
        || crate::repository().join("../shared/kernels"),
        PathBuf::from,
    )
}

fn of_file(file: &Path) -> Result<(Kernel, Made)> {
    let file = file
        .canonicalize()
        .with_context(|| format!("failed to find {}", file.display()))?;
    let base = file
        .file_name()
        .expect("a file has a name")
        .to_string_lossy();
    let name = base
        .trim_end_matches(".zst")
        .trim_start_matches("vmlinux-")
        .trim_start_matches("bzImage-")
        .to_owned();
    let kernel = |image| Kernel {
        name: name.clone(),
        image,
        modules: None,
    };
    if !base.ends_with(".zst") {
        return Ok((kernel(file), Made::Present));
    }
    let key = cache::fingerprint(&[], std::slice::from_ref(&file))?;
    let image = cache::dir()?.join("images").join(format!("{name}-{key}"));
    let made = cache::make(&image, |work| {
        let plain = work.join("image");
        let bytes = image::decompress("zstd", &fs::read(&file)?)?;
        fs::write(&plain, bytes)?;
        Ok(plain)
    })?;
    Ok((kernel(image), made))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wish: &str, taken: &str, expected: bool) {
        let kernel = Kernel {
            name: format!("{taken}+deb13{FLAVOUR}"),
            image: PathBuf::new(),
            modules: None,
        };
        let request = Request::Debian(Wish::parse(wish).unwrap());
        assert_eq!(request.is_met_by(&kernel), expected, "{wish}, {taken}");
    }

    #[test]
    fn another_series_is_not_what_was_asked_for() {
        check("7.2", "7.2.12", true);
        check("7.2.11", "7.2.12", true);
        check("7.2", "7.3.4", false);
        check("6.1", "6.12.117", false);
        check("newest", "7.3.4", true);
    }
}
