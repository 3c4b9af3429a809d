//! BPF programs of others on the functions that are counted.

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OtherProgram {
    /// What it is attached by, such as "kprobe", "kretprobe.multi" or "fentry".
    pub(crate) kind: &'static str,
    /// Its name in the kernel: at most 15 characters, and perhaps none.
    pub(crate) name: String,
    pub(crate) id: u32,
}

/// Those on each target, in the order of the targets; an error says why they are not
/// known.
pub(crate) type Others = Result<Vec<Vec<OtherProgram>>, String>;
