//! What the kernel was built from, and the machine under it, from /proc and /sys. All of
//! it is read without a privilege but that of a file's owner; what cannot be read is not
//! known.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use sha2::{Digest as _, Sha256};

use super::system::line;
use crate::{
    model::{BlockDevice, Build, Hardware},
    wording::hex,
};

/// Longer than any configuration.
const LONGEST_CONFIG: u64 = 16 << 20;

/// An ELF note's name and type (`include/uapi/linux/elf.h`, `NT_GNU_BUILD_ID`).
const BUILD_ID: (&[u8], u32) = (b"GNU\0", 3);

/// Of the running kernel.
pub(crate) fn build(release: &str) -> Build {
    let config = config(release);
    let version = line("/proc/version");
    let tainted = line("/proc/sys/kernel/tainted");
    Build {
        compiler: version.as_deref().and_then(compiler).map(str::to_owned),
        config_sha256: config.as_ref().map(|(hash, _)| hash.clone()),
        config_source: config.map(|(_, source)| source),
        kernel_build_id: build_id("/sys/kernel/notes"),
        btrfs_build_id: build_id("/sys/module/btrfs/notes/.note.gnu.build-id"),
        taint: tainted.and_then(|bits| bits.parse().ok()),
    }
}

/// Of the machine as it is now.
pub(crate) fn hardware() -> Hardware {
    const CPUS: &str = "/sys/devices/system/cpu";
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = of_key(&meminfo, "MemTotal").and_then(|n| n.strip_suffix(" kB"));
    let flags = of_key(&cpuinfo, "flags");
    let cpus = |name: &str| line(&format!("{CPUS}/{name}"));
    Hardware {
        cpu_model: of_key(&cpuinfo, "model name").map(str::to_owned),
        microcode: of_key(&cpuinfo, "microcode").map(str::to_owned),
        virtual_machine: flags.map(|f| f.split(' ').any(|flag| flag == "hypervisor")),
        cpus_online: cpus("online"),
        cpus_possible: cpus("possible"),
        smt_active: cpus("smt/active").as_deref().and_then(switch),
        numa_nodes: line("/sys/devices/system/node/online"),
        numa_balancing: line("/proc/sys/kernel/numa_balancing")
            .as_deref()
            .and_then(switch),
        memory_kib: memory.and_then(|kib| kib.parse().ok()),
        clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        scaling_driver: of_cpus(CPUS, "scaling_driver"),
        scaling_governor: of_cpus(CPUS, "scaling_governor"),
        energy_performance_preference: of_cpus(CPUS, "energy_performance_preference"),
        turbo: turbo(
            cpus("intel_pstate/no_turbo").as_deref(),
            cpus("cpufreq/boost").as_deref(),
        ),
        mitigations: mitigations(format!("{CPUS}/vulnerabilities")),
    }
}

/// The machine's name.
pub(crate) fn host_name() -> Option<String> {
    line("/proc/sys/kernel/hostname")
}

/// The block device with these numbers.
pub(super) fn block_device(major: u32, minor: u32) -> Option<BlockDevice> {
    let dir = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let name = dir.file_name()?.to_string_lossy().into_owned();
    let read = |name: &str| line(dir.join(name).to_str()?);
    // A partition's queue is that of the whole device.
    let rotational = read("queue/rotational").or_else(|| read("../queue/rotational"));
    let sectors: Option<u64> = read("size").and_then(|n| n.parse().ok());
    let devices = fs::read_to_string("/proc/devices").unwrap_or_default();
    Some(BlockDevice {
        name,
        driver: driver(&devices, major).map(str::to_owned),
        bytes: sectors.and_then(|n| n.checked_mul(512)),
        rotational: rotational.as_deref().and_then(switch),
    })
}

/// Who has a major number among the block devices of /proc/devices.
fn driver(devices: &str, major: u32) -> Option<&str> {
    let (_, blocks) = devices.split_once("Block devices:")?;
    let rows = blocks.lines().filter_map(|row| row.trim().split_once(' '));
    let mut of_major = rows.filter(|(number, _)| number.parse() == Ok(major));
    of_major.next().map(|(_, name)| name)
}

/// In /proc/version: `… (user@host) (COMPILER, LINKER) #1 …`, with brackets inside, too.
fn compiler(version: &str) -> Option<&str> {
    let (_, rest) = version.split_once(") (")?;
    let mut depth = 1_u32;
    let end = rest.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    Some(&rest[..end])
}

/// The hash of the configuration's text, and where it is.
fn config(release: &str) -> Option<(String, String)> {
    let live = PathBuf::from("/proc/config.gz");
    let files = [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
    ];
    let found = match File::open(&live) {
        Ok(file) => sha256_of(GzDecoder::new(file))
            .ok()
            .map(|hash| (hash, live)),
        Err(_) => files.into_iter().find_map(|path| {
            let hash = sha256_of(File::open(&path).ok()?).ok()?;
            Some((hash, path.into()))
        }),
    };
    found.map(|(hash, path)| (hash, path.display().to_string()))
}

fn sha256_of(text: impl io::Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    text.take(LONGEST_CONFIG).read_to_end(&mut bytes)?;
    Ok(hex(&Sha256::digest(&bytes)))
}

fn build_id(path: &str) -> Option<String> {
    note(&fs::read(path).ok()?, BUILD_ID).map(hex)
}

/// What a note holds, among notes one after the other: three words for the lengths of
/// its name and value and its type, then both, each filled up to whole words
/// (`elf(5)`).
fn note<'a>(notes: &'a [u8], (name, kind): (&[u8], u32)) -> Option<&'a [u8]> {
    let mut rest = notes;
    loop {
        let word = |place: usize| {
            let bytes = rest.get(4 * place..4 * place + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let [name_len, len] = [word(0)?, word(1)?].map(|n| n as usize);
        let here = word(2)?;
        let named = rest.get(12..)?.get(..name_len)?;
        let at = 12 + name_len.next_multiple_of(4);
        let value = rest.get(at..)?.get(..len)?;
        if (named, here) == (name, kind) {
            return Some(value);
        }
        rest = rest.get(at + len.next_multiple_of(4)..)?;
    }
}

/// The value of the first `key : value` of such a file.
fn of_key<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let found = pairs.find(|(name, _)| name.trim_end() == key);
    found.map(|(_, value)| value.trim())
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        // Of numa_balancing 2 and 3 are modes.
        "1" | "2" | "3" => Some(true),
        _ => None,
    }
}

/// Intel's own switch says that it is off.
fn turbo(no_turbo: Option<&str>, boost: Option<&str>) -> Option<bool> {
    let intel = no_turbo.and_then(switch).map(|off| !off);
    intel.or_else(|| boost.and_then(switch))
}

/// The values that some CPU has in `cpufreq`.
fn of_cpus(cpus: &str, name: &str) -> Vec<String> {
    let entries = fs::read_dir(cpus).into_iter().flatten().flatten();
    let values = entries.filter_map(|entry| {
        let file = entry.path().join("cpufreq").join(name);
        line(file.to_str()?)
    });
    values.collect::<BTreeSet<_>>().into_iter().collect()
}

fn mitigations(dir: impl AsRef<Path>) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let each = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name, line(entry.path().to_str()?)?))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_may_have_brackets_in_its_name() {
        for (version, name) in [
            (
                "Linux version 7.3.4 (a@b) (x86_64-linux-gnu-gcc-15 (Debian 15.2.0-3) 15.2.0, \
                 GNU ld (GNU Binutils) 2.45) #1 SMP PREEMPT_DYNAMIC (x)",
                Some(
                    "x86_64-linux-gnu-gcc-15 (Debian 15.2.0-3) 15.2.0, GNU ld (GNU Binutils) 2.45",
                ),
            ),
            ("Linux version 7.2 (a@b) (clang 21) #1", Some("clang 21")),
            ("Linux version 7.2 (a@b) (clang 21", None),
            ("", None),
        ] {
            assert_eq!(compiler(version), name, "{version}");
        }
    }

    #[test]
    fn a_note_is_found_behind_others() {
        let of = |name: &[u8], kind: usize, value: &[u8]| {
            let mut bytes = Vec::new();
            for n in [name.len(), value.len(), kind] {
                let n = u32::try_from(n).expect("short");
                bytes.extend(n.to_ne_bytes());
            }
            for part in [name, value] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let notes = [
            of(b"Xen\0", 3, b"abcde"),
            of(b"GNU\0", 1, b"x"),
            of(b"GNU\0", 3, &[0xab, 1, 2]),
        ]
        .concat();
        assert_eq!(note(&notes, BUILD_ID), Some(&[0xab, 1, 2][..]));
        for end in 0..notes.len() - 1 {
            assert_eq!(note(&notes[..end], BUILD_ID), None, "cut at {end}");
        }
        let mut vast = notes;
        vast[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(note(&vast, BUILD_ID), None);
    }

    #[test]
    fn values_are_found_by_their_keys() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 3: fast\nmodel\t: 7\n";
        assert_eq!(of_key(text, "model name"), Some("A CPU @ 3: fast"));
        assert_eq!(of_key(text, "model"), Some("7"));
        assert_eq!(of_key(text, "mode"), None);
    }

    #[test]
    fn a_driver_is_one_of_block_devices() {
        let devices = "Character devices:\n  1 mem\n\nBlock devices:\n  1 ramdisk\n259 blkext\n";
        assert_eq!(driver(devices, 1), Some("ramdisk"));
        assert_eq!(driver(devices, 259), Some("blkext"));
        assert_eq!(driver(devices, 25), None);
        assert_eq!(driver("", 1), None);
    }

    #[test]
    fn intels_switch_of_turbo_is_upside_down() {
        assert_eq!(turbo(Some("1"), None), Some(false));
        assert_eq!(turbo(Some("0"), Some("0")), Some(true));
        assert_eq!(turbo(None, Some("1")), Some(true));
        assert_eq!(turbo(None, None), None);
    }
}
