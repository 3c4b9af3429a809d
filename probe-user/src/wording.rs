//! How errors and bytes read: one line, without what a user has no use for.

use std::{fmt::Write as _, io};

/// An operating system's error as a shell says it: without Rust's "(os error 2)",
/// or a path that the sentence has already named.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = match error.raw_os_error().or_else(|| inner_errno(error)) {
        Some(errno) => io::Error::from_raw_os_error(errno).to_string(),
        None => error.to_string(),
    };
    let text = text.find(" (os error ").map_or(&*text, |at| &text[..at]);
    text.to_lowercase()
}

/// The causes of an error, from the outermost, each said once: libraries often
/// print their source and return it as well.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = match cause.downcast_ref::<io::Error>() {
            Some(error) => plain(error),
            None => cause.to_string(),
        };
        if !said.iter().any(|s| s.contains(&text)) {
            said.push(text);
        }
    }
    said.join(": ")
}

/// Bytes as small hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The errno of an error that another one wraps.
fn inner_errno(error: &io::Error) -> Option<i32> {
    let mut source = std::error::Error::source(error.get_ref()?);
    while let Some(error) = source {
        if let Some(errno) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(errno);
        }
        source = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_errno_is_words_alone() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(plain(&error), "no such file or directory");
        assert_eq!(plain(&io::ErrorKind::IsADirectory.into()), "is a directory");
        let wrapped = tempfile::tempfile_in("/no/such/dir").expect_err("no directory");
        assert_eq!(plain(&wrapped), "no such file or directory");
    }

    #[test]
    fn each_cause_is_said_once() {
        let error = Err::<(), _>(io::Error::from_raw_os_error(libc::EPERM))
            .context("failed to create map X")
            .context("map error: failed to create map X")
            .expect_err("an error");
        let text = "map error: failed to create map X: operation not permitted";
        assert_eq!(causes(&error), text);
    }
}
