//! Debian's kernels: looked up in the archive at run time, because archives drop versions, and kept
//! in the cache once fetched.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::choice::{self, Taken, Wish};
use super::{Kernel, image, modules};
use crate::cache::{self, Made};
use crate::setup::archive::{self, Suite};
use crate::step::Step;
use crate::vm::cpio::Archive;

/// Where kernels are looked for, the newest suite first.
const SUITES: [&str; 3] = ["trixie-backports", "trixie", "bookworm"];

/// A kernel that the archive has.
struct Found {
    release: String,
    packages: Vec<String>,
    suite: Suite,
}

/// Finds, fetches and unpacks a kernel. One in the cache is used if it is what was asked exactly, or
/// if nothing newer can be had; one that was not asked for only if there is no other.
pub(crate) fn ensure(wish: &Wish) -> Result<(Kernel, Made)> {
    if let Some(fitting) = ensure_fitting(wish)? {
        return Ok(fitting);
    }
    let mut instead = wish.fall_back();
    while let Some(wish) = instead {
        if let Some((kernel, made)) = ensure_fitting(&wish)? {
            eprintln!(
                "xtask: warning: the archive has no such kernel (any more); taking {}",
                kernel.name
            );
            return Ok((kernel, made));
        }
        instead = wish.fall_back();
    }
    bail!(
        "the archive has no complete cloud kernel in {}",
        SUITES.join(", ")
    )
}

/// What fulfils the wish; None if neither the cache nor the archive has it.
fn ensure_fitting(wish: &Wish) -> Result<Option<(Kernel, Made)>> {
    let in_cache = in_cache()?;
    let cached = wish.choose(&in_cache);
    let present = |release: &str| Ok(Some((kernel(release)?, Made::Present)));
    // An archive that cannot be asked, or does not deliver, is no reason to stop.
    let instead = |error: anyhow::Error| match &cached {
        Some(release) => {
            eprintln!("xtask: warning: {error:#}; taking {release} from the cache");
            present(release)
        }
        None => Err(error),
    };
    let exact = matches!(wish, Wish::Version(version) if version.is_exact());
    if let (Some(release), true) = (&cached, exact) {
        return present(release);
    }
    let found = match find(wish) {
        Ok(found) => found,
        Err(error) => return instead(error),
    };
    let archived = found.as_ref().map(|found| found.release.clone());
    match (wish.take(&in_cache, archived), found) {
        (Some(Taken::Archived(release)), Some(found)) => {
            match cache::make(&dir()?.join(&release), |work| fetch(&found, work)) {
                Ok(made) => Ok(Some((kernel(&release)?, made))),
                Err(error) => instead(error),
            }
        }
        (Some(Taken::Cached(release)), _) => present(&release),
        (_, _) => Ok(None),
    }
}

/// The newest in the archive that fulfils the wish.
fn find(wish: &Wish) -> Result<Option<Found>> {
    for name in SUITES {
        let suite = Suite::open(name)?;
        let names: BTreeSet<String> = suite.names("linux-")?.into_iter().collect();
        if let Some(release) = wish.choose(&choice::complete(&names)) {
            let packages = choice::packages(&release, &names).expect("it is complete");
            return Ok(Some(Found {
                release,
                packages,
                suite,
            }));
        }
    }
    Ok(None)
}

/// Downloads a kernel's packages and keeps of them what a guest needs.
fn fetch(found: &Found, work: &Path) -> Result<PathBuf> {
    let Found {
        release,
        packages,
        suite,
    } = found;
    let step = Step::start(format!("download kernel {release}"));
    let files = suite.download(&of_one_version(suite, packages)?, &work.join("packages"))?;
    step.done();
    let step = Step::start(format!("unpack kernel {release}"));
    let (root, product) = (work.join("root"), work.join("product"));
    for file in &files {
        archive::unpack(file, &root)?;
    }
    if !root.join("lib").exists() {
        symlink("usr/lib", root.join("lib"))?;
    }
    fs::create_dir(&product)?;
    let packed = [
        format!("lib/modules/{release}/vmlinuz"),
        format!("boot/vmlinuz-{release}"),
    ]
    .iter()
    .map(|path| root.join(path))
    .find(|path| path.is_file())
    .with_context(|| format!("no vmlinuz in the packages of {release}"))?;
    let packed = fs::read(packed)?;
    let vmlinux = image::vmlinux(&packed).unwrap_or_else(|error| {
        eprintln!("xtask: warning: booting {release} as it is packed, which is slower: {error:#}");
        packed
    });
    fs::write(product.join("vmlinux"), vmlinux)?;
    modules::keep(&root, release, &product)?;
    let mut cpio = Archive::new();
    cpio.add_tree(&product.join("lib"), "lib")?;
    let config = format!("boot/config-{release}");
    if root.join(&config).is_file() {
        cpio.add_file(&config, 0o644, &fs::read(root.join(&config))?);
    }
    fs::write(product.join("modules.cpio"), cpio.finish())?;
    step.done();
    Ok(product)
}

/// The packages as `name=version`, in the newest version that all of them have.
fn of_one_version(suite: &Suite, packages: &[String]) -> Result<Vec<String>> {
    let versions = packages
        .iter()
        .map(|name| suite.versions(name))
        .collect::<Result<Vec<Vec<String>>>>()?;
    let (first, rest) = versions
        .split_first()
        .context("a kernel without packages")?;
    let version = first
        .iter()
        .find(|version| rest.iter().all(|others| others.contains(version)))
        .with_context(|| format!("{} have no version in common", packages.join(", ")))?;
    Ok(packages
        .iter()
        .map(|name| format!("{name}={version}"))
        .collect())
}

fn dir() -> Result<PathBuf> {
    Ok(cache::dir()?.join("kernels"))
}

fn in_cache() -> Result<BTreeSet<String>> {
    let Ok(entries) = fs::read_dir(dir()?) else {
        return Ok(BTreeSet::new());
    };
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn kernel(release: &str) -> Result<Kernel> {
    let dir = dir()?.join(release);
    Ok(Kernel {
        name: release.to_owned(),
        image: dir.join("vmlinux"),
        modules: Some(dir),
    })
}
