//! Which of the kernels at hand a wish means.

use std::collections::BTreeSet;

use super::FLAVOUR;
use super::version::Version;

/// Which Debian kernel is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The newest.
    Newest,
    /// This one, or the newest of this series.
    Version(Version),
}

/// Where a release is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// From the cache.
    Cached(String),
    /// From the archive.
    Archived(String),
}

impl Wish {
    /// Reads `newest` or a version; None if it is neither.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "newest" => Some(Self::Newest),
            _ => Version::parse(text).map(Self::Version),
        }
    }

    /// The newest of `releases` that fulfils the wish.
    pub(crate) fn choose(&self, releases: &BTreeSet<String>) -> Option<String> {
        let fits = |version: &Version| match self {
            // An older one would be a surprise: it lacks what is to be probed.
            Self::Newest => *version >= Version::parse("7").expect("7 is a version"),
            Self::Version(wish) => version.begins_with(wish),
        };
        releases
            .iter()
            .filter_map(|release| Some((Version::of_release(release)?, release)))
            .filter(|(version, _)| fits(version))
            .max()
            .map(|(_, release)| release.clone())
    }

    /// What fulfils the wish: the newer one of the cache's and the archive's, and the cache's if they
    /// are the same. None if nothing does.
    pub(crate) fn take(
        &self,
        cached: &BTreeSet<String>,
        archived: Option<String>,
    ) -> Option<Taken> {
        let version = |release: &String| Version::of_release(release);
        match (self.choose(cached), archived) {
            (Some(cached), Some(archived)) if version(&archived) > version(&cached) => {
                Some(Taken::Archived(archived))
            }
            (Some(cached), _) => Some(Taken::Cached(cached)),
            (None, archived) => archived.map(Taken::Archived),
        }
    }

    /// What to take when nothing fulfils the wish: the newest of the same series, else the newest.
    pub(crate) fn fall_back(&self) -> Option<Self> {
        match self {
            Self::Newest => None,
            Self::Version(wish) if *wish != wish.series() => Some(Self::Version(wish.series())),
            Self::Version(_) => Some(Self::Newest),
        }
    }
}

/// The packages that make up a kernel: one or three, by its age.
pub(crate) fn packages(release: &str, names: &BTreeSet<String>) -> Option<Vec<String>> {
    let all_of = |kinds: &[&str]| -> Option<Vec<String>> {
        let wanted: Vec<String> = kinds
            .iter()
            .map(|kind| format!("linux-{kind}-{release}"))
            .collect();
        wanted
            .iter()
            .all(|name| names.contains(name))
            .then_some(wanted)
    };
    if Version::of_release(release)?.is_split() {
        return all_of(&["binary", "modules", "base"]);
    }
    all_of(&["image"]).or_else(|| {
        let unsigned = format!("linux-image-{release}-unsigned");
        names.contains(&unsigned).then_some(vec![unsigned])
    })
}

/// The releases whose packages are all there.
pub(crate) fn complete(names: &BTreeSet<String>) -> BTreeSet<String> {
    names
        .iter()
        .filter_map(|name| name.strip_prefix("linux-image-"))
        .map(|name| name.strip_suffix("-unsigned").unwrap_or(name))
        .filter(|release| release.ends_with(FLAVOUR) && packages(release, names).is_some())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn check(wish: &str, expected: Option<&str>) {
        let releases = set(&[
            "6.12.117+deb13-cloud-amd64",
            "7.2.6+deb13-cloud-amd64",
            "7.2.12+deb13-cloud-amd64",
            "7.3.4+deb13-cloud-amd64",
        ]);
        let chosen = Wish::parse(wish).unwrap().choose(&releases);
        assert_eq!(chosen.as_deref(), expected, "{wish}");
    }

    #[test]
    fn the_newest_that_fits_is_chosen() {
        check("newest", Some("7.3.4+deb13-cloud-amd64"));
        check("7.2", Some("7.2.12+deb13-cloud-amd64"));
        check("7.2.6", Some("7.2.6+deb13-cloud-amd64"));
        check("6.12", Some("6.12.117+deb13-cloud-amd64"));
        check("7.2.11", None);
        check("6.1", None);
    }

    #[test]
    fn the_newest_is_no_old_one() {
        let old = set(&["6.1.0-50-cloud-amd64", "6.12.117+deb13-cloud-amd64"]);
        assert_eq!(Wish::Newest.choose(&old), None);
    }

    #[test]
    fn what_the_cache_has_is_taken_unless_the_archive_has_a_newer_one() {
        let [old, new, other] = ["7.2.6", "7.2.12", "7.3.4"].map(|v| format!("{v}+deb13{FLAVOUR}"));
        let take = |cached: &[&str], archive: &[&str]| {
            let wish = Wish::parse("7.2").unwrap();
            wish.take(&set(cached), wish.choose(&set(archive)))
        };
        let cached = |release: &String| Some(Taken::Cached(release.clone()));
        let archived = |release: &String| Some(Taken::Archived(release.clone()));
        // The archive has dropped the series: no reason to take another one.
        assert_eq!(take(&[&new], &[&other]), cached(&new));
        assert_eq!(take(&[&old, &other], &[]), cached(&old));
        assert_eq!(take(&[&old], &[&new, &other]), archived(&new));
        assert_eq!(take(&[&new], &[&new]), cached(&new));
        assert_eq!(take(&[&new], &[&old]), cached(&new));
        assert_eq!(take(&[&other], &[&old]), archived(&old));
        assert_eq!(take(&[&other], &[&other]), None);
    }

    #[test]
    fn a_version_that_is_gone_falls_back_step_by_step() {
        let first = Wish::parse("7.2.11").unwrap().fall_back();
        assert_eq!(first, Wish::parse("7.2"));
        assert_eq!(first.unwrap().fall_back(), Some(Wish::Newest));
        assert_eq!(Wish::Newest.fall_back(), None);
    }

    #[test]
    fn only_complete_kernels_count() {
        let names = set(&[
            "linux-image-7.1.13+deb13-cloud-amd64",
            "linux-binary-7.1.13+deb13-cloud-amd64",
            "linux-image-7.3.4+deb13-cloud-amd64",
            "linux-binary-7.3.4+deb13-cloud-amd64",
            "linux-modules-7.3.4+deb13-cloud-amd64",
            "linux-base-7.3.4+deb13-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64",
            "linux-image-6.12.117+deb13-cloud-amd64-unsigned",
            "linux-image-cloud-amd64",
        ]);
        let complete = complete(&names);
        assert_eq!(
            complete,
            set(&[
                "6.12.117+deb13-cloud-amd64",
                "6.18.15+deb13-cloud-amd64",
                "7.3.4+deb13-cloud-amd64"
            ])
        );
        let unsigned = packages("6.12.117+deb13-cloud-amd64", &names).unwrap();
        assert_eq!(
            unsigned,
            ["linux-image-6.12.117+deb13-cloud-amd64-unsigned"]
        );
        assert_eq!(
            packages("7.3.4+deb13-cloud-amd64", &names).unwrap().len(),
            3
        );
    }
}
