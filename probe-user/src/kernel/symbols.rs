//! Which functions this kernel has, from `/proc/kallsyms`.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufRead, BufReader},
};

use crate::model::{Found, Presence};

/// The functions that were looked for, and where they are.
#[derive(Debug)]
pub(crate) struct Symbols {
    found: HashMap<String, Found>,
}

impl Symbols {
    /// Looks for `names`, exactly as they are: `f` does not find `f.cold`.
    pub(crate) fn look_up(names: &[&str]) -> io::Result<Self> {
        let kallsyms = File::open("/proc/kallsyms")?;
        let found = find(BufReader::with_capacity(1 << 16, kallsyms), names)?;
        Ok(Self { found })
    }

    /// What there is of `name`.
    pub(crate) fn found(&self, name: &str) -> Found {
        self.found.get(name).cloned().unwrap_or_default()
    }
}

/// Whether btrfs is built in or loaded. A kernel with btrfs as a module lacks
/// every one of its functions until then.
pub(crate) fn btrfs_is_there() -> io::Result<bool> {
    let list = fs::read_to_string("/proc/filesystems")?;
    Ok(list.lines().any(|line| line.trim() == "btrfs"))
}

/// Where btrfs' functions are, if btrfs is there: what is built in has no state of
/// loading.
pub(crate) fn btrfs_presence() -> Presence {
    if fs::exists("/sys/module/btrfs/initstate").unwrap_or(false) {
        Presence::Module("btrfs".to_owned())
    } else {
        Presence::BuiltIn
    }
}

/// Whether the kernel refuses kprobes on a function; unknown without debugfs.
pub(crate) fn is_blacklisted(name: &str) -> bool {
    fs::read_to_string("/sys/kernel/debug/kprobes/blacklist").is_ok_and(|list| {
        list.lines()
            .any(|line| line.split_ascii_whitespace().nth(1) == Some(name))
    })
}

/// Reads lines of `ADDRESS TYPE NAME[\t[MODULE]]`.
fn find(mut kallsyms: impl BufRead, names: &[&str]) -> io::Result<HashMap<String, Found>> {
    let mut found: HashMap<String, Found> = HashMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if kallsyms.read_until(b'\n', &mut line)? == 0 {
            return Ok(found);
        }
        let mut fields = line.split(u8::is_ascii_whitespace);
        let (_address, kind, symbol) = (fields.next(), fields.next(), fields.next());
        let (Some([b't' | b'T']), Some(symbol)) = (kind, symbol) else {
            continue;
        };
        for name in names {
            let Some(rest) = symbol.strip_prefix(name.as_bytes()) else {
                continue;
            };
            let of_name = || (*name).to_owned();
            if rest.is_empty() {
                let module = fields.next().filter(|m| !m.is_empty());
                let places = &mut found.entry(of_name()).or_default().places;
                places.push(module.map_or(Presence::BuiltIn, presence_in));
                break;
            }
            if is_twin(rest) {
                let twin = String::from_utf8_lossy(symbol).into_owned();
                found.entry(of_name()).or_default().twins.push(twin);
            }
        }
    }
}

fn presence_in(module: &[u8]) -> Presence {
    let module = module.strip_prefix(b"[").unwrap_or(module);
    let module = module.strip_suffix(b"]").unwrap_or(module);
    Presence::Module(String::from_utf8_lossy(module).into_owned())
}

/// Whether a name's end says that it is a whole function of its own. `.cold` and
/// `.part` are pieces that the function itself jumps to.
fn is_twin(rest: &[u8]) -> bool {
    [&b".isra."[..], b".constprop.", b".llvm."]
        .iter()
        .any(|end| rest.starts_with(end))
        && !rest.ends_with(b".cold")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_btrfs() -> Presence {
        Presence::Module("btrfs".to_owned())
    }

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
        assert_eq!(found["f"].places, [in_btrfs()]);
        assert_eq!(found["g"].places, [Presence::BuiltIn]);
        assert_eq!(found["f"].twins, [""; 0]);
        assert_eq!(found.get("h"), None);
        assert_eq!(found.get("i"), None);
    }

    #[test]
    fn twins_and_namesakes_are_all_found() {
        let text =
            b"0 t f.isra.0\t[btrfs]\n0 t f.constprop.0\t[btrfs]\n0 t f.isra.0.cold\t[btrfs]\n\
            0 t g\n0 t g\t[btrfs]\n0 t g\t[xfs]\n0 t f_more.isra.0\n";
        let found = find(&text[..], &["f", "g", "f.isra.0"]).expect("reads");
        assert_eq!(found["f"].places, []);
        assert_eq!(found["f"].twins, ["f.isra.0", "f.constprop.0"]);
        assert_eq!(found["f.isra.0"].places, [in_btrfs()]);
        let xfs = Presence::Module("xfs".to_owned());
        assert_eq!(found["g"].places, [Presence::BuiltIn, in_btrfs(), xfs]);
    }
}
