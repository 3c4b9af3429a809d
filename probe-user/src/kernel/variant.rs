//! Which form of the writeback inhibition this kernel has, by the members of
//! `struct btrfs_trans_handle` in its BTF.

use std::{fmt, fs, io};

use super::btf::{Btf, Member};

const HANDLE: &str = "btrfs_trans_handle";
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const MODULE: &str = "/sys/kernel/btf/btrfs";

/// How the kernel keeps the extent buffers whose writeback a transaction handle
/// inhibits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// `struct xarray writeback_inhibited_ebs` (Linux 7.1).
    Xarray,
    /// `inhibited_ebs[slots]` in the handle itself (Linux 7.2.6 and later).
    InlineBuffer { slots: usize },
    /// Neither: this kernel does not inhibit writeback.
    None,
    /// It could not be told, and why.
    Unknown(String),
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xarray => write!(f, "xarray"),
            Self::InlineBuffer { slots } => write!(f, "inline buffer, {slots} slots"),
            Self::None => write!(f, "none"),
            Self::Unknown(why) => write!(f, "unknown ({why})"),
        }
    }
}

impl Variant {
    /// Of the running kernel.
    pub(crate) fn read() -> Self {
        let vmlinux = match fs::read(VMLINUX) {
            Ok(data) => data,
            Err(e) => return Self::Unknown(format!("cannot read {VMLINUX}: {e}")),
        };
        let module = match fs::read(MODULE) {
            Ok(data) => Some(data),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Self::Unknown(format!("cannot read {MODULE}: {e}")),
        };
        match Self::from_btf(&vmlinux, module.as_deref()) {
            Ok(Some(variant)) => variant,
            Ok(None) => Self::Unknown(format!("no struct {HANDLE} in this kernel's BTF")),
            Err(why) => Self::Unknown(why),
        }
    }

    /// From the kernel's BTF and that of the btrfs module, where it is one. `None`
    /// if neither describes the handle.
    fn from_btf(vmlinux: &[u8], module: Option<&[u8]>) -> Result<Option<Self>, String> {
        let base = Btf::parse(vmlinux, None).map_err(|e| format!("vmlinux: {e}"))?;
        let split = module.map(|data| Btf::parse(data, Some(&base)));
        let split = split.transpose().map_err(|e| format!("btrfs: {e}"))?;
        let btf = split.as_ref().unwrap_or(&base);
        Ok(btf
            .struct_members(HANDLE)
            .map(|m| Self::from_members(btf, &m)))
    }

    fn from_members(btf: &Btf<'_>, members: &[Member<'_>]) -> Self {
        let member = |name: &[u8]| members.iter().find(|m| m.name == name);
        if member(b"writeback_inhibited_ebs").is_some() {
            return Self::Xarray;
        }
        match member(b"inhibited_ebs") {
            Some(buffer) => match btf.array_length(buffer.type_id) {
                Some(slots) => Self::InlineBuffer { slots },
                None => Self::Unknown("inhibited_ebs is not an array".to_owned()),
            },
            None => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::btf::tests::{blob, info};
    use super::*;

    fn handle(member: &str) -> Vec<u8> {
        // 1: array of 8; 2: the handle with one member of that type.
        let strings = format!("\0{HANDLE}\0{member}\0");
        let name = u32::try_from(HANDLE.len() + 2).expect("small");
        blob(
            &[0, info(3, 0), 0, 2, 2, 8, 1, info(4, 1), 64, name, 1, 0],
            strings.as_bytes(),
        )
    }

    #[test]
    fn members_tell_the_variants_apart() {
        for (member, variant) in [
            ("writeback_inhibited_ebs", Variant::Xarray),
            ("inhibited_ebs", Variant::InlineBuffer { slots: 8 }),
            ("transid", Variant::None),
        ] {
            assert_eq!(Variant::from_btf(&handle(member), None), Ok(Some(variant)));
        }
        assert_eq!(Variant::from_btf(&blob(&[], b"\0"), None), Ok(None));
        assert!(Variant::from_btf(b"junk", None).is_err());
    }
}
