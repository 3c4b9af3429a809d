//! Which form of the writeback inhibition this kernel has, by the members of
//! `struct btrfs_trans_handle` in its BTF.

use super::{
    blob::Blob,
    btf::{Btf, Member},
};
use crate::model::Variant;

const HANDLE: &str = "btrfs_trans_handle";
const MODULE: &str = "btrfs";

/// Of the running kernel.
pub(crate) fn variant() -> Variant {
    let blobs = || -> Result<_, String> { Ok((Blob::of("vmlinux")?, Blob::of_module(MODULE)?)) };
    let found = blobs().and_then(|(kernel, module)| from_btf(&kernel, module.as_deref()));
    match found {
        Ok(Some(variant)) => variant,
        Ok(None) => Variant::Unknown(format!("no struct {HANDLE} in the BTF")),
        Err(why) => Variant::Unknown(why),
    }
}

/// Whether the kernel's or btrfs' BTF describes a function of this name. One that
/// is described and has no symbol was inlined into all its callers.
pub(crate) fn is_in_btf(function: &str) -> bool {
    let Ok(kernel) = Blob::of("vmlinux") else {
        return false;
    };
    let Ok(base) = Btf::parse(&kernel, None) else {
        return false;
    };
    let module = Blob::of_module(MODULE).ok().flatten();
    let in_module =
        |blob: &Blob| Btf::parse(blob, Some(&base)).is_ok_and(|btf| btf.has_function(function));
    base.has_function(function) || module.as_ref().is_some_and(in_module)
}

/// From the kernel's BTF and that of the btrfs module, where it is one. `None` if
/// neither describes the handle.
fn from_btf(vmlinux: &[u8], module: Option<&[u8]>) -> Result<Option<Variant>, String> {
    let base = Btf::parse(vmlinux, None).map_err(|e| format!("vmlinux: {e}"))?;
    let split = module.map(|data| Btf::parse(data, Some(&base)));
    let split = split.transpose().map_err(|e| format!("btrfs: {e}"))?;
    let btf = split.as_ref().unwrap_or(&base);
    Ok(btf.struct_members(HANDLE).map(|m| from_members(btf, &m)))
}

fn from_members(btf: &Btf<'_>, members: &[Member<'_>]) -> Variant {
    let member = |name: &[u8]| members.iter().find(|m| m.name == name);
    if member(b"writeback_inhibited_ebs").is_some() {
        return Variant::Xarray;
    }
    match member(b"inhibited_ebs") {
        Some(buffer) => match btf.array_length(buffer.type_id) {
            Some(slots) => Variant::InlineBuffer { slots },
            None => Variant::Unknown("inhibited_ebs is not an array".to_owned()),
        },
        None => Variant::None,
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
            assert_eq!(from_btf(&handle(member), None), Ok(Some(variant)));
        }
        assert_eq!(from_btf(&blob(&[], b"\0"), None), Ok(None));
        assert!(from_btf(b"junk", None).is_err());
    }
}
