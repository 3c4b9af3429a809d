//! The manifest of a bundle, `SHA256SUMS`: as sha256sum(1) writes and checks it.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use sha2::{Digest as _, Sha256};

use crate::wording::hex;

/// Its name.
pub(crate) const MANIFEST: &str = "SHA256SUMS";

/// The hash of a file, in hexadecimal digits; read piece by piece.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            n => hash.update(&piece[..n]),
        }
    }
    Ok(hex(&hash.finalize()))
}

/// The same of a text.
#[cfg(test)]
pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A line for each file, by name.
pub(crate) fn manifest(hashes: &BTreeMap<String, String>) -> String {
    hashes.iter().fold(String::new(), |mut text, (name, hash)| {
        let _ = writeln!(text, "{hash}  {name}");
        text
    })
}

/// The hash of each file that a manifest names; an error says which line is none.
pub(crate) fn listed(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    for (place, line) in text.split_terminator('\n').enumerate() {
        let wrong = |why: &str| format!("{MANIFEST}, line {}: {why}", place + 1);
        let (hash, name) = line
            .split_once("  ")
            .ok_or_else(|| wrong("not HASH  NAME"))?;
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if hash.len() != 64 || !hash.bytes().all(digit) {
            return Err(wrong("no SHA-256 in small hexadecimal digits"));
        }
        if name.is_empty() || name.contains('/') || name == MANIFEST {
            return Err(wrong("not the name of a file beside it"));
        }
        if all.insert(name.to_owned(), hash.to_owned()).is_some() {
            return Err(wrong("the name is there twice"));
        }
    }
    if !text.ends_with('\n') && !text.is_empty() {
        return Err(format!(
            "{MANIFEST}: the last line has no end; it is cut off"
        ));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_sha256sum_writes() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("a.tsv");
        std::fs::write(&file, "abc").expect("writes");
        let hash = sha256(&file).expect("reads");
        assert_eq!(hash, sha256_of(b"abc"));
        // FIPS 180-2, appendix B.1.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash, known);
        let hashes = BTreeMap::from([("a.tsv".to_owned(), hash)]);
        let text = manifest(&hashes);
        assert_eq!(text, format!("{known}  a.tsv\n"));
        assert_eq!(listed(&text), Ok(hashes));
    }

    #[test]
    fn what_is_none_is_refused() {
        let hash = "0".repeat(64);
        for (text, why) in [
            ("x\n".to_owned(), "line 1: not HASH"),
            (format!("{hash}  a\nabc  b\n"), "line 2: no SHA-256"),
            (format!("{hash}  ../a\n"), "not the name"),
            (format!("{hash}  a\n{hash}  a\n"), "twice"),
            (format!("{hash}  a"), "cut off"),
        ] {
            let error = listed(&text).expect_err("refused");
            assert!(error.contains(why), "{error}");
        }
    }
}
