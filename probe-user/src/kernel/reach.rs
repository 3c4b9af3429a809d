//! The way from a function's arguments to the filesystem that it is called on: through
//! pointers to a super block, and to `s_dev` in it. Layouts are those of the kernel's
//! and of btrfs' BTF; only the ways are known here.

use probe_ebpf::{NO_HOP, POINTER_HOPS};

use super::{blob::Blob, btf::Btf};
use crate::model::Target;

/// Arguments in registers.
const ARGUMENTS: usize = 6;

/// From a structure to the next: a member that is a pointer, or a structure inside and a
/// member of that which is one (`fs/btrfs` and `include/linux/fs.h` of Linux 7.2).
const STEPS: [(&str, &[&str], &str); 9] = [
    ("file", &["f_inode"], "inode"),
    ("kiocb", &["ki_filp"], "file"),
    ("dentry", &["d_sb"], "super_block"),
    ("inode", &["i_sb"], "super_block"),
    ("btrfs_inode", &["vfs_inode", "i_sb"], "super_block"),
    ("btrfs_fs_info", &["sb"], "super_block"),
    ("btrfs_root", &["fs_info"], "btrfs_fs_info"),
    ("btrfs_trans_handle", &["fs_info"], "btrfs_fs_info"),
    ("extent_buffer", &["fs_info"], "btrfs_fs_info"),
];
const SUPER_BLOCK: &str = "super_block";
const DEVICE: &str = "s_dev";

/// A way, as the programs take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Which argument, from 0.
    pub(super) argument: u32,
    /// The offsets of the pointers on the way.
    pub(super) hops: [u32; POINTER_HOPS],
    /// The offset of `s_dev`.
    pub(super) device_offset: u32,
}

/// That of each target; `None` for one of whose arguments none leads there. An error
/// says what is not known of this kernel.
pub(crate) fn reaches(targets: &[Target]) -> Result<Vec<Option<Reach>>, String> {
    let (kernel, module) = (Blob::of("vmlinux")?, Blob::of_module("btrfs")?);
    let base = Btf::parse(&kernel, None).map_err(|e| format!("the kernel's BTF: {e}"))?;
    let split = module.as_deref().map(|blob| Btf::parse(blob, Some(&base)));
    let split = split
        .transpose()
        .map_err(|e| format!("the BTF of btrfs: {e}"))?;
    let btf = split.as_ref().unwrap_or(&base);
    let known = btf.member(SUPER_BLOCK, DEVICE);
    known.ok_or_else(|| format!("no {DEVICE} of {SUPER_BLOCK} in the kernel's BTF"))?;
    Ok(targets.iter().map(|t| reach(btf, &t.symbol)).collect())
}

fn reach(btf: &Btf<'_>, function: &str) -> Option<Reach> {
    let arguments = btf.arguments(function)?;
    let mut ways = arguments.iter().take(ARGUMENTS).enumerate();
    ways.find_map(|(place, type_id)| {
        let structure = btf.pointed_to(*type_id)?;
        way(btf, structure, u32::try_from(place).ok()?)
    })
}

fn way(btf: &Btf<'_>, structure: &[u8], argument: u32) -> Option<Reach> {
    let mut at = std::str::from_utf8(structure).ok()?;
    let mut hops = [NO_HOP; POINTER_HOPS];
    let mut taken = hops.iter_mut();
    while at != SUPER_BLOCK {
        let (_, members, next) = STEPS.iter().find(|(from, ..)| *from == at)?;
        let (outer, inner) = members.split_first()?;
        let (mut offset, _) = btf.member(at, outer)?;
        for member in inner {
            // What is inside is an inode.
            offset += btf.member("inode", member)?.0;
        }
        *taken.next()? = u32::try_from(offset).ok()?;
        at = next;
    }
    Some(Reach {
        argument,
        hops,
        device_offset: u32::try_from(btf.member(SUPER_BLOCK, DEVICE)?.0).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::btf::tests::{blob, info},
        *,
    };

    /// A kernel with a few structures, and functions of one or two arguments.
    fn kernel() -> Vec<u8> {
        let names = [
            "super_block",
            "s_dev",
            "inode",
            "i_sb",
            "btrfs_inode",
            "vfs_inode",
            "by_inode",
            "by_second",
            "by_none",
        ];
        let mut strings = b"\0".to_vec();
        let mut at = Vec::new();
        for name in names {
            at.push(u32::try_from(strings.len()).expect("small"));
            strings.extend(name.as_bytes());
            strings.push(0);
        }
        let types = [
            vec![0, info(1, 0), 4, 32],                     // 1 int
            vec![at[0], info(4, 1), 64, at[1], 1, 16 * 8],  // 2 super_block
            vec![0, info(2, 0), 2],                         // 3 pointer to it
            vec![at[2], info(4, 1), 64, at[3], 3, 40 * 8],  // 4 inode
            vec![at[4], info(4, 1), 64, at[5], 4, 100 * 8], // 5 btrfs_inode
            vec![0, info(2, 0), 5],                         // 6 pointer to it
            vec![0, info(13, 1), 0, 0, 6],                  // 7 (btrfs_inode *)
            vec![0, info(13, 2), 0, 0, 1, 0, 3],            // 8 (int, super_block *)
            vec![0, info(13, 1), 0, 0, 1],                  // 9 (int)
            vec![at[6], info(12, 0), 7],
            vec![at[7], info(12, 0), 8],
            vec![at[8], info(12, 0), 9],
        ];
        blob(&types.concat(), &strings)
    }

    #[test]
    fn an_argument_leads_to_the_super_block() {
        let kernel = kernel();
        let btf = Btf::parse(&kernel, None).expect("parses");
        let of = |argument, hop| Reach {
            argument,
            hops: [hop, NO_HOP, NO_HOP],
            device_offset: 16,
        };
        assert_eq!(reach(&btf, "by_inode"), Some(of(0, 140)));
        assert_eq!(reach(&btf, "by_second"), Some(of(1, NO_HOP)));
        assert_eq!(reach(&btf, "by_none"), None);
        assert_eq!(reach(&btf, "nowhere"), None);
    }
}
