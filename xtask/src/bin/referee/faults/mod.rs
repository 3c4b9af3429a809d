//! What goes wrong in a user's hands: one line that says what to do, the right
//! exit status, nothing lost, nothing left attached.

use std::{fs, path::Path};

use anyhow::ensure;

use super::{
    attached::Attached,
    cowprobe::RECORD,
    report::{Check, Report},
};

mod command;
mod input;
mod kernel;
mod names;
mod watch;
mod without;

pub(crate) use kernel::{ENABLED, failing_clones};

/// A file that a command makes, to show that it ran.
const MARK: &str = "/tmp/the-command-ran";

const CHECKS: &[Check] = &[
    ("not root", input::not_root),
    ("capabilities are enough", without::capabilities_are_enough),
    ("unknown subcommand", input::unknown_subcommand),
    ("no command", input::no_command),
    ("expectations", input::expectations),
    ("a full standard error", input::full_standard_error),
    ("neither /proc nor /sys", input::nothing_mounted),
    ("what cannot be traced", names::untraceable),
    ("command not found", input::command_not_found),
    ("command not executable", input::command_not_executable),
    ("unwritable output", input::unwritable_output),
    ("full disk", input::full_disk),
    ("bench: full filesystem", input::full_filesystem),
    ("unknown function", names::unknown),
    ("inlined function", names::inlined),
    ("blacklisted function", names::blacklisted),
    ("function with copies", names::with_twins),
    ("several functions of a name", names::of_several),
    ("33 probes", names::too_many),
    ("without CAP_BPF", without::cap_bpf),
    ("without CAP_PERFMON", without::cap_perfmon),
    ("without CAP_SYS_ADMIN", without::cap_sys_admin),
    ("with kptr_restrict=2", without::pointers),
    ("without tracefs", without::tracefs),
    ("without BTF", without::btf),
    ("the command fails", command::the_command_fails),
    ("the command is killed", command::the_command_is_killed),
    (
        "streams are the command's own",
        command::streams_are_untouched,
    ),
    ("TERM reaches the command", command::term_is_passed_on),
    (
        "a signal withholds the command",
        command::a_signal_withholds_the_command,
    ),
    ("nohup is kept", command::nohup_is_kept),
    (
        "a closed stderr costs nothing",
        command::a_closed_stderr_costs_nothing,
    ),
    ("check leaves nothing", command::check_leaves_nothing),
    ("kill -9 leaves nothing", command::kill_leaves_nothing),
    (
        "kill -9 while the command is held",
        command::an_early_kill_withholds_the_command,
    ),
    ("watch: signals", watch::signals_end_it_with_totals),
    ("watch: a script", watch::a_script_ends_it),
    ("watch: closed pipe", watch::a_closed_pipe_ends_it),
    ("watch: full disk", watch::a_full_disk_is_said),
    ("watch: JSON", watch::json_is_a_document_a_line),
    ("watch: USR1", watch::a_prompt_prints_now),
    ("watch: a second signal", watch::a_second_signal_aborts),
    ("watch: timeout", watch::a_signal_that_comes_twice_is_one),
    ("failures are errors", kernel::failures_are_errors),
    ("kprobes are off", kernel::kprobes_are_off),
    ("kprobes go off", kernel::kprobes_go_off_in_the_window),
    (
        "the module is loaded again",
        kernel::the_module_is_loaded_again,
    ),
];

pub(crate) fn run(report: &mut Report) {
    report.plan(2 + CHECKS.len());
    report.check(
        "btrfs not loaded",
        without_leftovers(input::btrfs_not_loaded),
    );
    report.check(
        "wait for the module",
        without_leftovers(kernel::the_module_is_waited_for),
    );
    for (name, check) in CHECKS {
        report.check(name, without_leftovers(*check));
    }
}

/// Runs a check and compares what is attached, and what lies about, before and
/// after.
fn without_leftovers(check: fn() -> anyhow::Result<String>) -> anyhow::Result<String> {
    let _ = fs::remove_file(MARK);
    let _ = fs::remove_file(RECORD);
    let before = Attached::list()?;
    let detail = check()?;
    before.expect_again()?;
    for entry in fs::read_dir("/tmp")? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        ensure!(!name.ends_with(".partial"), "left behind: {name}");
    }
    Ok(detail)
}

/// Fails if the command ran that should not have.
fn nothing_ran() -> anyhow::Result<()> {
    ensure!(!Path::new(MARK).exists(), "the command ran all the same");
    Ok(())
}
