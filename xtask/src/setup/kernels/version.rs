//! Kernel versions as Debian's packages name them: their order, and which one a wish means.

use std::fmt;

/// The numbers of a version: 7.3.4, or 6.1.0-42 where Debian counts its own rebuilds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(Vec<u32>);

impl Version {
    /// Reads a wish such as `7.3` or `6.1.0-42`; None if it is no version.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.split(['.', '-'])
            .map(|part| part.parse().ok())
            .collect::<Option<Vec<u32>>>()
            .map(Self)
    }

    /// The version in a release such as `7.3.4+deb13-cloud-amd64`.
    pub(crate) fn of_release(release: &str) -> Option<Self> {
        let release = release.strip_suffix(super::FLAVOUR)?;
        Self::parse(release.split('+').next()?)
    }

    /// Whether this version is `wish`, or one that `wish` is the beginning of.
    pub(crate) fn begins_with(&self, wish: &Self) -> bool {
        self.0.starts_with(&wish.0)
    }

    /// The series, such as 7.2 of 7.2.12.
    pub(crate) fn series(&self) -> Self {
        Self(self.0.iter().take(2).copied().collect())
    }

    /// Whether it names one kernel and not a series.
    pub(crate) fn is_exact(&self) -> bool {
        self.0.len() > 2
    }

    /// Whether Debian splits this kernel into several packages.
    pub(crate) fn is_split(&self) -> bool {
        self.0 >= vec![6, 19]
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn order_is_by_number() {
        let mut all: Vec<Version> = ["7.2.12", "6.12.117", "7.3.4", "7.2.6", "6.1.0-42"]
            .map(version)
            .into();
        all.sort();
        let all: Vec<String> = all.iter().map(Version::to_string).collect();
        assert_eq!(all, ["6.1.0.42", "6.12.117", "7.2.6", "7.2.12", "7.3.4"]);
    }

    #[test]
    fn a_wish_matches_whole_numbers() {
        assert!(version("7.2.12").begins_with(&version("7.2")));
        assert!(version("7.2.12").begins_with(&version("7")));
        assert!(!version("7.2.12").begins_with(&version("7.2.1")));
        assert!(!version("6.12.117").begins_with(&version("6.1")));
    }

    #[test]
    fn releases_and_other_names() {
        let of = Version::of_release;
        assert_eq!(of("7.3.4+deb13-cloud-amd64"), Some(version("7.3.4")));
        assert_eq!(of("6.1.0-42-cloud-amd64"), Some(version("6.1.0-42")));
        assert_eq!(of("7.4-rc3-cloud-amd64"), None);
        assert_eq!(of("cloud-amd64"), None);
        assert_eq!(Version::parse("7.2.12-cow"), None);
        assert_eq!(Version::parse("newest"), None);
        assert!(version("6.19.6").is_split() && !version("6.18.15").is_split());
    }
}
