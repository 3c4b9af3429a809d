//! `cargo xtask demo`: from a fresh clone to the table of the three functions.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::setup::kernels::Request;
use crate::step::{self, Step};
use crate::vm::{Machine, Output, VmSpec};
use crate::{build_cmd, repository};

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kernel to boot: a version, a file, or the name of an image
    #[arg(long, value_name = "VERSION|IMAGE", default_value = "newest")]
    kernel: String,
}

/// What runs in the guest. The files are prepared and synced before the window opens, and the long
/// commit interval keeps the transaction thread out of it: what is counted is the 2,000 operations.
const SCRIPT: &str = "set -e
echo '# cowprobe check'
cowprobe check
mkfs.btrfs -q -f /dev/ram0 >/dev/null 2>&1
mount -t btrfs -o commit=300 /dev/ram0 /mnt
cowprobe bench remap --prepare /mnt
echo
echo '# cowprobe run -o record.json -- cowprobe bench remap --prepared /mnt'
cowprobe run -o /out/record.json -- cowprobe bench remap --prepared /mnt 2>&1
";

/// Makes what is missing, boots the kernel, counts 1,000 clones and 1,000 dedupes, and says how long
/// each step took.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let out = build_cmd::target_dir().join("demo");
    let request = Request::parse(&args.kernel)?;
    let machine = Machine::prepare(&request, false)?;
    let mut spec = VmSpec::new(SCRIPT);
    spec.out = Some(out.clone());
    spec.output = Output::Shown;
    let record = out.join("record.json");
    if record.exists() {
        fs::remove_file(&record)
            .with_context(|| format!("failed to remove {}", record.display()))?;
    }
    let step = Step::start(format!("boot {} and count", machine.kernel.name));
    let result = machine.boot(&spec)?;
    step.done();
    println!();
    for step in step::finished() {
        println!("{:>7.1} s  {}", step.took.as_secs_f64(), step.name);
    }
    ensure!(
        result.status == 0,
        "the guest's command failed with status {}",
        result.status
    );
    ensure!(record.is_file(), "the guest left no record");
    let shown = record.strip_prefix(repository()).unwrap_or(&record);
    println!("the record is in {}", shown.display());
    Ok(ExitCode::SUCCESS)
}
