//! Whether somebody probes a function just now, whoever it is: what is timed then is
//! slower by that.

use std::fs;

/// Kprobes and kretprobes, perf's and BPF's among them (`kernel/kprobes.c` of Linux 7.2,
/// `report_probe`): address, kind, `SYMBOL+0xOFFSET`, then module and state.
const KPROBES: &str = "/sys/kernel/debug/kprobes/list";
/// Functions with a call of ftrace at their beginning: fprobes (kprobe.multi), fentry,
/// function tracers (`Documentation/trace/ftrace.rst`). Not every kernel has it.
const FTRACED: &str = "/sys/kernel/tracing/enabled_functions";

/// The first of the functions that is probed; an error says why it is not known.
pub(crate) fn probed(functions: &[&str]) -> Result<Option<String>, String> {
    let kprobes = fs::read_to_string(KPROBES);
    let ftraced = fs::read_to_string(FTRACED);
    let known = match &kprobes {
        Ok(list) => of_kprobes(list, functions),
        Err(error) => return Err(format!("cannot read {KPROBES}: {error}")),
    };
    let known = known.or_else(|| of_ftraced(&ftraced.unwrap_or_default(), functions));
    Ok(known.map(str::to_owned))
}

fn of_kprobes<'a>(list: &str, functions: &[&'a str]) -> Option<&'a str> {
    let places = list.lines().filter_map(|l| l.split_whitespace().nth(2));
    let mut names = places.map(|place| place.split('+').next().unwrap_or(place));
    names.find_map(|name| functions.iter().copied().find(|f| *f == name))
}

fn of_ftraced<'a>(list: &str, functions: &[&'a str]) -> Option<&'a str> {
    let mut names = list.lines().filter_map(|l| l.split_whitespace().next());
    names.find_map(|name| functions.iter().copied().find(|f| *f == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        let functions = ["btrfs_inhibit", "btrfs_remap_file_range"];
        let probe = |place: &str| format!("ffffffffc04013d0  r  {place}  btrfs [FTRACE]\n");
        for (place, found) in [
            ("btrfs_remap_file_range+0x0", Some(functions[1])),
            ("btrfs_remap_file_range+0x5", Some(functions[1])),
            ("btrfs_remap_file_range_prep+0x0", None),
            ("do_sys_open+0x0", None),
        ] {
            let list = probe("other+0x0") + &probe(place);
            assert_eq!(of_kprobes(&list, &functions), found, "{place}");
        }
        let list = "other (1) R\nbtrfs_inhibit [btrfs] (1) R  D M \ttramp: 0xffffffffc0\n";
        assert_eq!(of_ftraced(list, &functions), Some(functions[0]));
        assert_eq!(of_ftraced("btrfs_inhibited (1)\n", &functions), None);
        assert_eq!(of_kprobes("", &functions), None);
    }
}
