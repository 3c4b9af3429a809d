//! Where the kernel keeps what tells who makes a call: in a task, and in a CPU's count
//! of interrupts. The layout that every program needs.

use probe_ebpf::{COUNT_BY_INT, COUNT_BY_LONG};

use super::{blob::Blob, btf::Btf};

const STRUCTURE: &str = "task_struct";
/// The count by itself: to Linux 6.1, and since 6.15.
const COUNT: &str = "__preempt_count";
/// The structure that holds it between them, and its member there
/// (`arch/x86/include/asm/current.h` of Linux 6.12).
const HOT: (&str, &str) = ("pcpu_hot", "preempt_count");

/// Offsets in `struct task_struct`, in bytes, and where interrupts are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskLayout {
    pub(super) flags: u32,
    pub(super) tgid: u32,
    /// `None` if it is not known.
    pub(super) count: Option<InterruptCount>,
}

/// The per-CPU variable that counts what keeps a CPU from being preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterruptCount {
    /// The type id of the variable.
    pub(super) variable: u32,
    /// Of the count in it, in bytes.
    pub(super) offset: u32,
    /// [`COUNT_BY_INT`] or [`COUNT_BY_LONG`].
    pub(super) form: u32,
}

impl TaskLayout {
    /// Of the running kernel; an error says why it is not known.
    pub(super) fn read() -> Result<Self, String> {
        let blob = Blob::of("vmlinux")?;
        let btf = Btf::parse(&blob, None).map_err(|e| format!("the kernel's BTF: {e}"))?;
        Self::of(&btf).ok_or_else(|| format!("no {STRUCTURE} as it is known in the kernel's BTF"))
    }

    fn of(btf: &Btf<'_>) -> Option<Self> {
        let members = btf.struct_members(STRUCTURE)?;
        let offset = |name: &[u8]| {
            let member = members.iter().find(|m| m.name == name)?;
            u32::try_from(member.offset_bytes).ok()
        };
        Some(Self {
            flags: offset(b"flags")?,
            tgid: offset(b"tgid")?,
            count: InterruptCount::of(btf),
        })
    }
}

impl InterruptCount {
    fn of(btf: &Btf<'_>) -> Option<Self> {
        let (name, (offset, type_id)) = match btf.variable(COUNT) {
            Some((_, type_id)) => (COUNT, (0, type_id)),
            None => (HOT.0, btf.member(HOT.0, HOT.1)?),
        };
        // It became a long when bits in it were moved, in Linux 7.3.
        let form = match btf.size_bytes(type_id)? {
            4 => COUNT_BY_INT,
            8 => COUNT_BY_LONG,
            _ => return None,
        };
        Some(Self {
            variable: u32::try_from(btf.variable(name)?.0).ok()?,
            offset: u32::try_from(offset).ok()?,
            form,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::btf::tests::{Strings, blob, info},
        *,
    };

    /// A kernel with a task, and what else is given.
    fn layout(more: impl Fn(&mut Strings) -> Vec<Vec<u32>>) -> Option<TaskLayout> {
        let mut strings = Strings::default();
        let mut types = vec![
            vec![0, info(1, 0), 4, 32], // 1 int
            vec![0, info(1, 0), 8, 64], // 2 long
            vec![
                strings.put(STRUCTURE), // 3
                info(4, 2),
                64,
                strings.put("flags"),
                1,
                44 * 8,
                strings.put("tgid"),
                1,
                48 * 8,
            ],
        ];
        types.extend(more(&mut strings));
        let data = blob(&types.concat(), &strings.bytes);
        TaskLayout::of(&Btf::parse(&data, None).expect("parses"))
    }

    #[test]
    fn the_count_is_found_where_each_kernel_has_it() {
        let check = |found: Option<TaskLayout>, count: Option<(u32, u32, u32)>| {
            let count = count.map(|(variable, offset, form)| InterruptCount {
                variable,
                offset,
                form,
            });
            let (flags, tgid) = (44, 48);
            assert_eq!(found, Some(TaskLayout { flags, tgid, count }));
        };
        check(layout(|_| Vec::new()), None);
        let by_itself = |type_id: u32| {
            layout(move |strings| vec![vec![strings.put(COUNT), info(14, 0), type_id, 1]])
        };
        check(by_itself(1), Some((4, 0, COUNT_BY_INT)));
        check(by_itself(2), Some((4, 0, COUNT_BY_LONG)));
        // A structure is no count.
        check(by_itself(3), None);
        let in_structure = layout(|strings| {
            let (hot, count) = (strings.put(HOT.0), strings.put(HOT.1));
            vec![
                vec![0, info(4, 2), 16, 0, 2, 0, count, 1, 8 * 8], // 4, unnamed
                vec![hot, info(4, 1), 64, 0, 4, 0],                // 5
                vec![hot, info(14, 0), 5, 1],                      // 6
            ]
        });
        check(in_structure, Some((6, 8, COUNT_BY_INT)));
    }
}
