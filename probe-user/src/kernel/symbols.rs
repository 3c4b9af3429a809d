//! Which functions this kernel has, from `/proc/kallsyms`.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufRead, BufReader},
};

/// Where a function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// In the kernel image.
    BuiltIn,
    /// In a loaded module.
    Module(String),
    /// Not a function of this kernel: never there, or inlined.
    Absent,
}

/// The functions that were looked for, and where they are.
#[derive(Debug)]
pub(crate) struct Symbols {
    found: HashMap<String, Presence>,
}

impl Symbols {
    /// Looks for `names`, exactly as they are: `f` does not find `f.cold`.
    pub(crate) fn look_up(names: &[&str]) -> io::Result<Self> {
        let kallsyms = File::open("/proc/kallsyms")?;
        let found = find(BufReader::with_capacity(1 << 16, kallsyms), names)?;
        Ok(Self { found })
    }

    /// Where `name` is.
    pub(crate) fn presence(&self, name: &str) -> Presence {
        self.found.get(name).cloned().unwrap_or(Presence::Absent)
    }
}

/// Whether btrfs is built in or loaded. A kernel with btrfs as a module lacks
/// every one of its functions until then.
pub(crate) fn btrfs_is_there() -> bool {
    fs::read_to_string("/proc/filesystems")
        .is_ok_and(|list| list.lines().any(|line| line.trim() == "btrfs"))
}

/// Reads lines of `ADDRESS TYPE NAME[\t[MODULE]]`.
fn find(mut kallsyms: impl BufRead, names: &[&str]) -> io::Result<HashMap<String, Presence>> {
    let mut found = HashMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if kallsyms.read_until(b'\n', &mut line)? == 0 {
            return Ok(found);
        }
        let mut fields = line.split(u8::is_ascii_whitespace);
        let (_address, kind, name) = (fields.next(), fields.next(), fields.next());
        let (Some([b't' | b'T']), Some(name)) = (kind, name) else {
            continue;
        };
        if let Some(name) = names.iter().find(|n| n.as_bytes() == name) {
            let module = fields.next().filter(|m| !m.is_empty());
            let presence = module.map_or(Presence::BuiltIn, |m| {
                let m = m.strip_prefix(b"[").unwrap_or(m);
                let m = m.strip_suffix(b"]").unwrap_or(m);
                Presence::Module(String::from_utf8_lossy(m).into_owned())
            });
            found.insert((*name).to_owned(), presence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_exactly_and_only_functions_count() {
        let text = b"ffffffff81000000 T _text\n\
            0000000000000000 t __pfx_f\t[btrfs]\n\
            0000000000000000 t f.cold\t[btrfs]\n\
            0000000000000000 t f\t[btrfs]\n\
            0000000000000000 T g\n\
            0000000000000000 d h\n\
            0000000000000000 r __ksymtab_i\t[btrfs]";
        let found = find(&text[..], &["f", "g", "h", "i"]).expect("reads");
        assert_eq!(found.get("f"), Some(&Presence::Module("btrfs".to_owned())));
        assert_eq!(found.get("g"), Some(&Presence::BuiltIn));
        assert_eq!(found.get("h"), None);
        assert_eq!(found.get("i"), None);
    }
}
