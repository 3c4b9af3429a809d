//! Compiles the BPF object and leaves it in `OUT_DIR`. Without a toolchain for
//! it the object is left empty and the reason is compiled in: the workspace
//! still builds, and the program says at run time why it cannot probe.
//!
//! The toolchain is named by `COWPROBE_EBPF_TOOLCHAIN` and
//! `COWPROBE_BPF_LINKER_DIR`, which `cargo xtask build` sets, or else by the file
//! `ebpf/current` in the cache that `cargo xtask setup` fills.
use std::{env, ffi::OsString, fs, path::PathBuf};

use anyhow::{Context as _, anyhow};
use aya_build::{Package, Toolchain};
use sha2::{Digest as _, Sha256};

#[path = "src/kernel/check.rs"]
mod check;

const TOOLCHAIN: &str = "COWPROBE_EBPF_TOOLCHAIN";
const LINKER_DIR: &str = "COWPROBE_BPF_LINKER_DIR";
/// Where aya-build leaves the binary target of the package `probe-ebpf`.
const OBJECT: &str = "probe-ebpf";

fn main() -> anyhow::Result<()> {
    for name in [TOOLCHAIN, LINKER_DIR, "COWPROBE_CACHE", "XDG_CACHE_HOME"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    let reason = if let Some((toolchain, linker_dir)) = toolchain() {
        compile(&toolchain, linker_dir)?;
        ""
    } else {
        println!("cargo:warning=no eBPF toolchain: this build cannot probe (cargo xtask build)");
        fs::write(out.join(OBJECT), [])?;
        "built without the eBPF toolchain; build it with 'cargo xtask build'"
    };
    println!("cargo:rustc-env=COWPROBE_OBJECT_ABSENT={reason}");
    let object = fs::read(out.join(OBJECT))?;
    println!(
        "cargo:rustc-env=COWPROBE_OBJECT_CHECK={}",
        check::sum(&object)
    );
    let digest = Sha256::digest(&object);
    print!("cargo:rustc-env=COWPROBE_OBJECT_SHA256=");
    for byte in digest {
        print!("{byte:02x}");
    }
    println!();
    Ok(())
}

/// The toolchain's name or directory and the directory of bpf-linker.
fn toolchain() -> Option<(String, OsString)> {
    if let (Ok(toolchain), Some(dir)) = (env::var(TOOLCHAIN), env::var_os(LINKER_DIR)) {
        return Some((toolchain, dir));
    }
    let cache = env::var_os("COWPROBE_CACHE")
        .map(PathBuf::from)
        .or_else(|| {
            let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let base = base.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
            Some(base.join("cowprobe"))
        })?;
    let current = cache.join("ebpf/current");
    println!("cargo:rerun-if-changed={}", current.display());
    let text = fs::read_to_string(current).ok()?;
    let mut lines = text.lines();
    let found = (lines.next()?.to_owned(), OsString::from(lines.next()?));
    PathBuf::from(&found.1)
        .join("bpf-linker")
        .exists()
        .then_some(found)
}

fn compile(toolchain: &str, linker_dir: OsString) -> anyhow::Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(linker_dir.into()).chain(env::split_paths(&path));
    let path = env::join_paths(paths).context("the linker's directory has a colon")?;
    // SAFETY: the build script has one thread. `-Z build-std` needs a nightly compiler or
    // RUSTC_BOOTSTRAP; the settings reach only the nested cargo that compiles the programs.
    unsafe {
        env::set_var("PATH", path);
        env::set_var("RUSTC_BOOTSTRAP", "1");
        // aya-build makes a warning of each line that the nested cargo says.
        env::set_var("CARGO_TERM_QUIET", "true");
    }
    let manifest = env::var("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR is not set")?;
    let root = PathBuf::from(manifest).join("../probe-ebpf");
    let package = Package {
        name: "probe-ebpf",
        root_dir: root
            .to_str()
            .ok_or_else(|| anyhow!("the path is not UTF-8"))?,
        features: &["program"],
        ..Default::default()
    };
    aya_build::build_ebpf([package], Toolchain::Custom(toolchain))
}
