//! Who executes a call.

/// Who executes a call, not for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// A task of the workload.
    Workload,
    /// btrfs' transaction thread.
    Commit,
    /// btrfs' cleaner.
    Cleaner,
    /// A worker of the kernel.
    Kworker,
    /// Another thread of the kernel.
    Kthread,
    /// Another task, or, where nothing is told, any.
    Other,
    /// An interrupt or a softirq, whichever task it found.
    Interrupt,
}

impl Class {
    /// All, in the order of their numbers.
    pub const ALL: [Self; CLASSES] = [
        Self::Workload,
        Self::Commit,
        Self::Cleaner,
        Self::Kworker,
        Self::Kthread,
        Self::Other,
        Self::Interrupt,
    ];

    /// Of a thread of the kernel, by its name (`fs/btrfs/disk-io.c` and
    /// `kernel/workqueue.c` of Linux 7.2; a name is cut at 15 characters).
    #[must_use]
    #[inline]
    pub const fn of_kthread(comm: &[u8; 16]) -> Self {
        if starts_with(comm, *b"btrfs-tr") {
            Self::Commit
        } else if starts_with(comm, *b"btrfs-cl") {
            Self::Cleaner
        } else if starts_with(comm, *b"kworker/") {
            Self::Kworker
        } else {
            Self::Kthread
        }
    }
}

/// The first eight bytes are compared at once.
const fn starts_with(comm: &[u8; 16], eight: [u8; 8]) -> bool {
    let first = u128::from_le_bytes(*comm) & u64::MAX as u128;
    first == u64::from_le_bytes(eight) as u128
}

/// How many classes there are.
pub const CLASSES: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_told_by_name() {
        for (comm, class) in [
            (*b"btrfs-transacti\0", Class::Commit),
            (*b"btrfs-cleaner\0\0\0", Class::Cleaner),
            (*b"kworker/0:1\0\0\0\0\0", Class::Kworker),
            (*b"kworker\0\0\0\0\0\0\0\0\0", Class::Kthread),
            (*b"btrfs-balance\0\0\0", Class::Kthread),
            ([0; 16], Class::Kthread),
        ] {
            assert_eq!(Class::of_kthread(&comm), class);
        }
        for (number, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, number);
        }
    }
}
