//! Debian's archive, read through apt with a private state for each suite, so that the machine's own
//! package lists and dpkg database stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cache;
use crate::process;
use crate::step::Step;

/// Who signs the suites.
pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The file whose time says when the lists were fetched.
const STAMP: &str = "updated";

/// Package lists older than this are fetched again.
const LISTS_KEEP: Duration = Duration::from_hours(24);

/// A part of the archive whose packages can be listed and fetched.
#[derive(Debug)]
pub(crate) enum Suite {
    /// What the machine's own apt is set up for.
    Host,
    /// A suite by name, with its private state.
    Private {
        /// The suite's name.
        name: &'static str,
        /// The directory of its state.
        state: PathBuf,
    },
}

impl Suite {
    /// Opens a suite by name; its package lists are fetched when missing or a day old.
    pub(crate) fn open(name: &'static str) -> Result<Self> {
        let state = cache::dir()?.join("archive").join(name);
        let suite = Self::Private { name, state };
        suite.refresh()?;
        Ok(suite)
    }

    /// The versions of a package, newest first.
    pub(crate) fn versions(&self, package: &str) -> Result<Vec<String>> {
        Ok(parse_madison(&process::read(
            self.apt("apt-cache", "madison").arg(package),
        )?))
    }

    /// The packages whose name starts so.
    pub(crate) fn names(&self, start: &str) -> Result<Vec<String>> {
        let listed = process::read(self.apt("apt-cache", "pkgnames").arg(start))?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// The packages that a package depends on, by name.
    pub(crate) fn depends(&self, packages: &[&str]) -> Result<Vec<String>> {
        let listed = process::read(
            self.apt("apt-cache", "depends")
                .arg("--no-recommends")
                .args(packages),
        )?;
        Ok(listed
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .map(str::to_owned)
            .collect())
    }

    /// Downloads packages, each `name` or `name=version`, into a directory of their own and answers
    /// with the files.
    pub(crate) fn download(&self, packages: &[String], into: &Path) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(into)?;
        process::run(
            self.apt("apt-get", "download")
                .args(packages)
                .current_dir(into),
        )
        .with_context(|| format!("failed to download {}", packages.join(" ")))?;
        let mut files = fs::read_dir(into)?
            .map(|entry| Ok(entry?.path()))
            .filter(|path| {
                path.as_ref()
                    .is_ok_and(|p| p.extension().is_some_and(|e| e == "deb"))
            })
            .collect::<Result<Vec<_>>>()?;
        files.sort();
        ensure!(
            files.len() == packages.len(),
            "apt-get downloaded {} of {packages:?}",
            files.len()
        );
        Ok(files)
    }

    fn refresh(&self) -> Result<()> {
        let Self::Private { name, state } = self else {
            return Ok(());
        };
        let source = format!("{}\n", source_line(name)?);
        if lists_of(state, &source) == Lists::Fresh {
            return Ok(());
        }
        let _lock = cache::lock(&format!("archive-{name}"))?;
        let lists = lists_of(state, &source);
        if lists == Lists::Fresh {
            return Ok(());
        }
        for dir in ["lists/partial", "cache/archives/partial", "dpkg"] {
            fs::create_dir_all(state.join(dir))?;
        }
        cache::write(&state.join("dpkg/status"), "")?;
        cache::write(&state.join("sources.list"), &source)?;
        let step = Step::start(format!("fetch the package lists of {name}"));
        match process::run(self.apt("apt-get", "update").arg("--error-on=any")) {
            Ok(()) => {
                cache::write(&state.join(STAMP), "")?;
                step.done();
            }
            Err(error) if lists == Lists::Old => {
                let what = error.to_string();
                let what = what.lines().nth(1).unwrap_or(&what).trim();
                eprintln!("xtask: warning: using older package lists of {name}: {what}");
            }
            Err(error) => {
                cache::remove(&state.join(STAMP))?;
                return Err(error).with_context(|| {
                    format!(
                        "failed to fetch the package lists of {name}; check the network, or set \
                         COWPROBE_DEBIAN_MIRROR to a Debian archive that has it"
                    )
                });
            }
        }
        Ok(())
    }

    fn apt(&self, program: &str, action: &str) -> Command {
        let mut command = Command::new(program);
        command.args([action, "-q", "-o", "APT::Sandbox::User=root"]);
        if let Self::Private { state, .. } = self {
            for (option, file) in [
                ("Dir::Etc::sourcelist", state.join("sources.list")),
                ("Dir::Etc::sourceparts", PathBuf::from("/dev/null")),
                ("Dir::State::Lists", state.join("lists")),
                ("Dir::State::status", state.join("dpkg/status")),
                ("Dir::Cache", state.join("cache")),
            ] {
                command
                    .arg("-o")
                    .arg(format!("{option}={}", file.display()));
            }
            command.args(["-o", "Acquire::Languages=none"]);
            command.args([
                "-o",
                "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            ]);
        }
        command
    }
}

/// The state of a suite's package lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lists {
    /// None, or those of another archive.
    Missing,
    /// Of use when nothing newer can be had.
    Old,
    /// Not to be fetched again.
    Fresh,
}

fn lists_of(state: &Path, source: &str) -> Lists {
    let same = fs::read_to_string(state.join("sources.list")).is_ok_and(|text| text == source);
    let fetched = fs::metadata(state.join(STAMP)).and_then(|stamp| stamp.modified());
    match fetched.map(|time| time.elapsed().unwrap_or_default()) {
        Ok(age) if same && age < LISTS_KEEP => Lists::Fresh,
        Ok(_) if same => Lists::Old,
        _ => Lists::Missing,
    }
}

/// The line that names a suite in apt's sources, at the archive that the machine itself uses.
pub(crate) fn source_line(suite: &str) -> Result<String> {
    ensure!(
        Path::new(KEYRING).is_file(),
        "no {KEYRING}: install the package debian-archive-keyring"
    );
    Ok(format!(
        "deb [signed-by={KEYRING}] {} {suite} main",
        archive_uri()?
    ))
}

/// Unpacks a package's files into a directory.
pub(crate) fn unpack(package: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    process::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(into))
}

fn archive_uri() -> Result<String> {
    if let Ok(uri) = std::env::var("COWPROBE_DEBIAN_MIRROR") {
        return Ok(uri);
    }
    let targets = |release_info: &[&str], format: &str| {
        process::read(
            Command::new("apt-get")
                .arg("indextargets")
                .args(release_info)
                .args(["--format", format, "Created-By: Packages"]),
        )
    };
    if let Some(uri) = labelled_debian(&targets(&[], "$(ORIGIN)\t$(LABEL)\t$(REPO_URI)")?) {
        return Ok(uri);
    }
    // Without package lists apt knows who is who only by the address.
    let listed = targets(&["--no-release-info"], "$(REPO_URI)")?;
    let Some(uri) = listed.lines().find(|uri| !uri.contains("security")) else {
        bail!("apt knows no archive here; set COWPROBE_DEBIAN_MIRROR to a Debian archive");
    };
    Ok(uri.to_owned())
}

/// The first archive that says it is Debian's, of lines of origin, label and address. Neither a third
/// party's nor Debian's archive of security updates says so.
fn labelled_debian(listed: &str) -> Option<String> {
    listed
        .lines()
        .find_map(|line| line.strip_prefix("Debian\tDebian\t"))
        .map(str::to_owned)
}

fn parse_madison(listed: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for version in listed.lines().filter_map(|line| line.split('|').nth(1)) {
        let version = version.trim().to_owned();
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn madison_gives_each_version_once_newest_first() {
        let listed = "  rust-src | 1.97.1+dfsg1-1~bpo13+1 | uri trixie-backports/main amd64 Packages\n\
                      \x20 rust-src | 1.95.0+dfsg1-2~bpo13+1 | uri trixie-backports/main amd64 Packages\n\
                      \x20 rust-src | 1.95.0+dfsg1-2~bpo13+1 | uri trixie-backports/main Sources\n";
        assert_eq!(
            parse_madison(listed),
            ["1.97.1+dfsg1-1~bpo13+1", "1.95.0+dfsg1-2~bpo13+1"]
        );
        assert!(parse_madison("").is_empty());
    }

    #[test]
    fn debian_is_known_by_its_label_wherever_it_is_listed() {
        let others = ". nodistro\t. nodistro\thttps://third-party.example/node/\n\
                      Debian\tDebian-Security\thttp://security.example/debian/\n\
                      Debian Backports\tDebian Backports\thttp://mirror/debian/\n";
        let debian = "Debian\tDebian\thttp://main.example/debian/\n";
        assert_eq!(
            labelled_debian(&format!("{others}{debian}")).as_deref(),
            Some("http://main.example/debian/")
        );
        assert_eq!(labelled_debian(others), None);
        assert_eq!(labelled_debian(""), None);
    }
}
