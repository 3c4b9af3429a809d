//! From the command line to targets: the three, and those of `--probe`.

use anyhow::{bail, ensure};

use crate::{
    cli::TargetArgs,
    kernel::is_blacklisted,
    model::{Found, Need, Presence, Target},
};

/// How many functions `--probe` may add.
const MOST_OTHERS: usize = 32;

/// The targets that the command line names, the three first.
pub(super) fn targets(args: &TargetArgs) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::from(Target::three());
    for name in &args.probe {
        let other = other(name)?;
        ensure!(
            !targets
                .iter()
                .any(|t| t.symbol == other.symbol && t.module == other.module),
            "{name} is probed already; name it once"
        );
        targets.push(other);
    }
    let others = targets.len() - Target::three().len();
    ensure!(
        others <= MOST_OTHERS,
        "{others} functions with --probe; {MOST_OTHERS} are possible, so leave some out"
    );
    if let Some(both) = args.required.iter().find(|r| args.diagnostic.contains(r)) {
        bail!("{both} cannot be both --required and --diagnostic; choose one");
    }
    for (names, need) in [
        (&args.required, Need::Required),
        (&args.diagnostic, Need::Diagnostic),
    ] {
        for name in names {
            let target = targets.iter_mut().find(|t| t.name() == *name);
            match target {
                Some(target) => target.need = need,
                None => bail!("{name} is no target; add it with --probe {name}"),
            }
        }
    }
    Ok(targets)
}

fn other(name: &str) -> anyhow::Result<Target> {
    let (module, symbol) = match name.split_once(':') {
        Some((module, symbol)) => (Some(module), symbol),
        None => (None, name),
    };
    let is_word = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b))
    };
    ensure!(
        is_word(symbol) && module.is_none_or(is_word),
        "{name:?} is no function's name; write SYMBOL or MODULE:SYMBOL"
    );
    Ok(Target::other(module, symbol))
}

/// Where a target is, of all that there is of its name. An error if a count of it
/// could not be whole, or would be of more than one function.
pub(super) fn place(target: &Target, found: &Found) -> anyhow::Result<Presence> {
    let name = target.name();
    let mut places = found.places.iter();
    let places: Vec<&Presence> = match &target.module {
        Some(module) => places.filter(|p| p.place() == module).collect(),
        None => places.by_ref().collect(),
    };
    if !found.twins.is_empty() {
        let mut twins = found.twins.clone();
        twins.sort();
        twins.dedup();
        let twins = twins.join(", ");
        bail!(
            "{name} has copies under other names ({twins}), so its count would not be whole; probe each by its own name"
        );
    }
    match places[..] {
        [] if !found.places.is_empty() => {
            let names = choices(found.places.iter(), target);
            bail!("{name} is not there; name one of {names}")
        }
        [] => Ok(Presence::Absent),
        [place] => Ok(place.clone()),
        [first, .., last] if first == last => {
            bail!(
                "there are {} functions {name} in {}; they cannot be told apart",
                places.len(),
                first.place()
            )
        }
        _ => {
            let names = choices(places.into_iter(), target);
            bail!("there are several functions {name}; name one of {names}")
        }
    }
}

/// The same symbol in each of its places.
fn choices<'a>(places: impl Iterator<Item = &'a Presence>, target: &Target) -> String {
    let names = places.map(|place| format!("{}:{}", place.place(), target.symbol));
    names.collect::<Vec<_>>().join(", ")
}

/// An error if two targets are the same function.
pub(super) fn refuse_twice(targets: &[Target], presence: &[Presence]) -> anyhow::Result<()> {
    let all = || targets.iter().zip(presence);
    for (i, (target, place)) in all().enumerate() {
        let same = |(t, p): &(&Target, &Presence)| t.symbol == target.symbol && *p == place;
        ensure!(
            *place == Presence::Absent || !all().skip(i + 1).any(|other| same(&other)),
            "{} is probed already; name it once",
            target.name()
        );
    }
    Ok(())
}

/// Why a function that was asked for by name cannot be probed.
pub(super) fn absence(target: &Target, in_btf: bool) -> String {
    let name = target.name();
    if is_blacklisted(&target.symbol) {
        format!("{name} is on this kernel's kprobe blacklist; probe one of its callers")
    } else if in_btf {
        format!("{name} was inlined into its callers here; probe one of these")
    } else {
        format!(
            "this kernel has no function {name}, or inlined it into its callers; look for it in /proc/kallsyms"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Hook;

    fn args(probe: &[&str]) -> TargetArgs {
        TargetArgs {
            probe: probe.iter().map(|&p| p.to_owned()).collect(),
            required: Vec::new(),
            diagnostic: Vec::new(),
            max_in_flight: 4096,
            hook: Hook::Auto,
        }
    }

    #[test]
    fn up_to_32_functions_are_added() {
        let names: Vec<String> = (0..33).map(|n| format!("f{n}")).collect();
        let names: Vec<&str> = names.iter().map(|n| &**n).collect();
        assert_eq!(targets(&args(&names[..32])).expect("fits").len(), 35);
        let error = targets(&args(&names)).expect_err("too many");
        assert!(
            error
                .to_string()
                .starts_with("33 functions with --probe; 32")
        );
    }

    #[test]
    fn a_name_is_a_word_and_stands_once() {
        for bad in ["", ":", "a:", ":b", "a b", "a;b", "f+0x10", "a:b:c"] {
            assert!(targets(&args(&[bad])).is_err(), "{bad:?}");
        }
        assert!(targets(&args(&["f", "f"])).is_err());
        assert!(targets(&args(&["btrfs_remap_file_range"])).is_err());
        let found = targets(&args(&["btrfs:f", "xfs:f", "g.isra.0"])).expect("good");
        assert_eq!(found[3].module.as_deref(), Some("btrfs"));
        assert_eq!(found[5].name(), "g.isra.0");
    }

    #[test]
    fn required_and_diagnostic_name_targets() {
        let mut args = args(&["f"]);
        args.diagnostic = vec!["f".to_owned(), "btrfs_inhibit_eb_writeback".to_owned()];
        let needs: Vec<_> = targets(&args)
            .expect("good")
            .iter()
            .map(|t| t.need)
            .collect();
        let (required, diagnostic) = (Need::Required, Need::Diagnostic);
        assert_eq!(needs, [required, diagnostic, required, diagnostic]);
        args.required = vec!["f".to_owned()];
        let error = targets(&args).expect_err("a contradiction");
        assert!(error.to_string().starts_with("f cannot be both"), "{error}");
        args.diagnostic.clear();
        args.required = vec!["g".to_owned()];
        let error = targets(&args).expect_err("no target");
        assert_eq!(error.to_string(), "g is no target; add it with --probe g");
    }

    #[test]
    fn one_function_is_one_target() {
        let module = Presence::Module("btrfs".to_owned());
        let names = ["btrfs_remap_file_range", "btrfs:btrfs_remap_file_range"];
        let same = names.map(|name| other(name).expect("a name"));
        assert!(refuse_twice(&same, &[module.clone(), module.clone()]).is_err());
        assert!(refuse_twice(&same, &[Presence::BuiltIn, module]).is_ok());
        assert!(refuse_twice(&same, &[Presence::Absent, Presence::Absent]).is_ok());
    }

    #[test]
    fn a_count_is_of_one_whole_function() {
        let module = |name: &str| Presence::Module(name.to_owned());
        let check = |name: &str,
                     places: &[Presence],
                     twins: &[&str],
                     expected: Result<Presence, &str>| {
            let found = Found {
                places: places.to_vec(),
                twins: twins.iter().map(|&t| t.to_owned()).collect(),
            };
            let got = place(&other(name).expect("a name"), &found);
            match (got, expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (got, expected) => panic!("{got:?}, not {expected:?}"),
            }
        };
        check("f", &[], &[], Ok(Presence::Absent));
        check("f", &[Presence::BuiltIn], &[], Ok(Presence::BuiltIn));
        check(
            "xfs:f",
            &[module("btrfs"), module("xfs")],
            &[],
            Ok(module("xfs")),
        );
        check(
            "nfs:f",
            &[module("btrfs"), module("xfs")],
            &[],
            Err("one of btrfs:f, xfs:f"),
        );
        check(
            "f",
            &[module("btrfs"), module("xfs")],
            &[],
            Err("one of btrfs:f, xfs:f"),
        );
        check(
            "f",
            &[Presence::BuiltIn, Presence::BuiltIn],
            &[],
            Err("2 functions f in vmlinux"),
        );
        check(
            "f",
            &[Presence::BuiltIn],
            &["f.constprop.0"],
            Err("(f.constprop.0)"),
        );
        check(
            "f",
            &[],
            &["f.isra.0", "f.isra.1"],
            Err("f.isra.0, f.isra.1"),
        );
    }
}
