//! A reader of the kernel's BTF, as far as the layout of structures goes, split
//! BTF of modules included (aya 0.14 reads vmlinux's alone).
//!
//! Format: Documentation/bpf/btf.rst of Linux 7.2. The input is untrusted in the
//! sense that no bytes make the reader panic or loop.

use std::{error::Error, fmt};

const MAGIC: u16 = 0xeb9f;
const KIND_INTEGER: usize = 1;
const KIND_POINTER: usize = 2;
const KIND_ARRAY: usize = 3;
const KIND_STRUCT: usize = 4;
const KIND_UNION: usize = 5;
const KIND_FORWARD: usize = 7;
const KIND_TYPEDEF: usize = 8;
const KIND_FUNC: usize = 12;
const KIND_PROTOTYPE: usize = 13;
const KIND_VARIABLE: usize = 14;
/// Of a member's offset: with the structure's kind flag, the upper 8 bits are the width
/// of a bit field.
const OFFSET_BITS: usize = 0x00ff_ffff;
/// volatile, const, restrict, typedef and type tag: names for another type.
const KINDS_ALIAS: [usize; 5] = [KIND_TYPEDEF, 9, 10, 11, 18];

/// What is wrong with a BTF blob.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BtfError {
    NotBtf,
    Truncated,
    UnknownKind(usize),
}

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBtf => write!(f, "not BTF of this machine's byte order"),
            Self::Truncated => write!(f, "truncated BTF"),
            Self::UnknownKind(kind) => write!(f, "BTF of a newer form, kind {kind}"),
        }
    }
}

impl Error for BtfError {}

/// A BTF blob, standing alone or on top of the kernel's.
#[derive(Debug)]
pub(super) struct Btf<'a> {
    base: Option<&'a Btf<'a>>,
    types: &'a [u8],
    strings: &'a [u8],
    /// Where each type of this blob starts; its id is `first_id` + index.
    offsets: Vec<usize>,
    first_id: usize,
    /// The string offset at which this blob's own strings start.
    first_string: usize,
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member<'a> {
    /// Empty for one that lends its members to the structure.
    pub(super) name: &'a [u8],
    pub(super) type_id: usize,
    pub(super) offset_bytes: usize,
}

struct Type<'a> {
    name: usize,
    kind: usize,
    count: usize,
    /// For an alias, the id of the type that it names; for an integer, its size.
    target: usize,
    tail: &'a [u8],
}

impl<'a> Btf<'a> {
    /// Reads a blob; `base` is the kernel's for a module's.
    pub(super) fn parse(data: &'a [u8], base: Option<&'a Btf<'a>>) -> Result<Self, BtfError> {
        let (types, strings) = sections(data)?;
        Ok(Self {
            base,
            types,
            strings,
            offsets: offsets(types)?,
            // Id 0 is void and has no entry.
            first_id: base.map_or(1, |b| b.first_id + b.offsets.len()),
            first_string: base.map_or(0, |b| b.first_string + b.strings.len()),
        })
    }

    /// The members of the structure `name`, this blob's own before its base's.
    pub(super) fn struct_members(&self, name: &str) -> Option<Vec<Member<'a>>> {
        match self.own(KIND_STRUCT, name) {
            Some((_, ty)) => self.members(&ty),
            None => self.base?.struct_members(name),
        }
    }

    /// Whether a function of this name is described, in this blob alone.
    pub(super) fn has_function(&self, name: &str) -> bool {
        self.own(KIND_FUNC, name).is_some()
    }

    /// The ids of a per-CPU variable and of its type, in this blob alone.
    pub(super) fn variable(&self, name: &str) -> Option<(usize, usize)> {
        let (id, variable) = self.own(KIND_VARIABLE, name)?;
        Some((id, variable.target))
    }

    /// The size of an integer type.
    pub(super) fn size_bytes(&self, type_id: usize) -> Option<usize> {
        let ty = self.unaliased(type_id)?;
        (ty.kind == KIND_INTEGER).then_some(ty.target)
    }

    /// The first type of this kind and name in this blob alone, and its id.
    fn own(&self, kind: usize, name: &str) -> Option<(usize, Type<'a>)> {
        let mut types = self.offsets.iter().enumerate();
        types.find_map(|(index, &offset)| {
            let ty = read_type(self.types, offset).ok()?;
            let is = ty.kind == kind && self.is_string(ty.name, name);
            is.then_some((self.first_id + index, ty))
        })
    }

    /// What a type is called.
    pub(super) fn name(&self, type_id: usize) -> Option<&'a [u8]> {
        self.string(self.type_by_id(type_id)?.name)
    }

    /// The types of the arguments of a function, this blob's own before its base's.
    pub(super) fn arguments(&self, function: &str) -> Option<Vec<usize>> {
        let Some((_, own)) = self.own(KIND_FUNC, function) else {
            return self.base?.arguments(function);
        };
        let prototype = self.type_by_id(own.target)?;
        let types = (0..prototype.count).map(|i| word(prototype.tail, i * 8 + 4).ok());
        (prototype.kind == KIND_PROTOTYPE).then(|| types.collect())?
    }

    /// The name of the structure that a type points to.
    pub(super) fn pointed_to(&self, type_id: usize) -> Option<&'a [u8]> {
        let pointer = self.unaliased(type_id)?;
        let structure =
            self.unaliased((pointer.kind == KIND_POINTER).then_some(pointer.target)?)?;
        [KIND_STRUCT, KIND_FORWARD]
            .contains(&structure.kind)
            .then(|| self.string(structure.name))?
    }

    /// The type behind its other names.
    fn unaliased(&self, type_id: usize) -> Option<Type<'a>> {
        let mut id = type_id;
        // A chain of aliases is short; a loop in broken BTF ends here.
        for _ in 0..32 {
            let ty = self.type_by_id(id)?;
            if !KINDS_ALIAS.contains(&ty.kind) {
                return Some(ty);
            }
            id = ty.target;
        }
        None
    }

    /// Where a member is from the start of a structure, and its type; members of unnamed
    /// structures and unions in it are its own.
    pub(super) fn member(&self, structure: &str, name: &str) -> Option<(usize, usize)> {
        self.member_among(&self.struct_members(structure)?, name, 4)
    }

    fn member_among(
        &self,
        members: &[Member<'a>],
        name: &str,
        depth: usize,
    ) -> Option<(usize, usize)> {
        let direct = members.iter().find(|m| m.name == name.as_bytes());
        if let Some(member) = direct {
            return Some((member.offset_bytes, member.type_id));
        }
        let mut unnamed = members.iter().filter(|m| m.name.is_empty() && depth > 0);
        unnamed.find_map(|outer| {
            let ty = self.unaliased(outer.type_id)?;
            let inner = [KIND_STRUCT, KIND_UNION].contains(&ty.kind);
            let inner = inner.then(|| self.members(&ty))??;
            let (offset, type_id) = self.member_among(&inner, name, depth - 1)?;
            Some((outer.offset_bytes + offset, type_id))
        })
    }

    /// The number of elements of an array type, seen through typedefs.
    pub(super) fn array_length(&self, type_id: usize) -> Option<usize> {
        let ty = self.unaliased(type_id)?;
        (ty.kind == KIND_ARRAY).then(|| word(ty.tail, 8).ok())?
    }

    fn members(&self, ty: &Type<'a>) -> Option<Vec<Member<'a>>> {
        let each = (0..ty.count).map(|i| {
            Some(Member {
                name: self.string(word(ty.tail, i * 12).ok()?)?,
                type_id: word(ty.tail, i * 12 + 4).ok()?,
                offset_bytes: (word(ty.tail, i * 12 + 8).ok()? & OFFSET_BITS) / 8,
            })
        });
        each.collect()
    }

    fn type_by_id(&self, id: usize) -> Option<Type<'a>> {
        match id.checked_sub(self.first_id) {
            Some(index) => read_type(self.types, *self.offsets.get(index)?).ok(),
            None => self.base?.type_by_id(id),
        }
    }

    fn string(&self, offset: usize) -> Option<&'a [u8]> {
        self.string_and_more(offset)?.split(|&b| b == 0).next()
    }

    /// The same as comparing with [`Self::string`], without looking for its end.
    fn is_string(&self, offset: usize, text: &str) -> bool {
        let rest = self.string_and_more(offset);
        let rest = rest.and_then(|more| more.strip_prefix(text.as_bytes()));
        rest.is_some_and(|rest| rest.first().is_none_or(|&end| end == 0))
    }

    /// All strings from one on.
    fn string_and_more(&self, offset: usize) -> Option<&'a [u8]> {
        match offset.checked_sub(self.first_string) {
            Some(own) => self.strings.get(own..),
            None => self.base?.string_and_more(offset),
        }
    }
}

/// A blob's types and its strings.
fn sections(data: &[u8]) -> Result<(&[u8], &[u8]), BtfError> {
    let magic = data.get(..2).ok_or(BtfError::Truncated)?;
    if magic != MAGIC.to_ne_bytes() {
        return Err(BtfError::NotBtf);
    }
    let header = word(data, 4)?;
    let section = |at: usize| -> Result<&[u8], BtfError> {
        let start = header.checked_add(word(data, at)?);
        let start = start.ok_or(BtfError::Truncated)?;
        let end = start.checked_add(word(data, at + 4)?);
        data.get(start..end.ok_or(BtfError::Truncated)?)
            .ok_or(BtfError::Truncated)
    };
    Ok((section(8)?, section(16)?))
}

/// Where each type starts.
fn offsets(types: &[u8]) -> Result<Vec<usize>, BtfError> {
    let mut offsets = Vec::new();
    let mut offset = 0;
    while offset < types.len() {
        offsets.push(offset);
        offset += 12 + read_type(types, offset)?.tail.len();
    }
    Ok(offsets)
}

fn read_type(types: &[u8], offset: usize) -> Result<Type<'_>, BtfError> {
    let info = word(types, offset + 4)?;
    let (count, kind) = (info & 0xffff, (info >> 24) & 0x1f);
    let tail = match kind {
        // declaration tag
        KIND_INTEGER | KIND_VARIABLE | 17 => 4,
        // pointer, forward, aliases, function, float
        KIND_POINTER | 7..=12 | 16 | 18 => 0,
        KIND_ARRAY => 12,
        // struct, union, data section, enum64
        KIND_STRUCT | 5 | 15 | 19 => 12 * count,
        // enum, function prototype
        6 | 13 => 8 * count,
        kind => return Err(BtfError::UnknownKind(kind)),
    };
    let start = offset + 12;
    Ok(Type {
        name: word(types, offset)?,
        kind,
        count,
        target: word(types, offset + 8)?,
        tail: types.get(start..start + tail).ok_or(BtfError::Truncated)?,
    })
}

fn word(data: &[u8], offset: usize) -> Result<usize, BtfError> {
    let bytes = data.get(offset..offset + 4).ok_or(BtfError::Truncated)?;
    let bytes = bytes.try_into().expect("four bytes");
    Ok(u32::from_ne_bytes(bytes) as usize)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A blob of types given as words, and strings joined by NUL.
    pub(crate) fn blob(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let mut data = Vec::new();
        data.extend(MAGIC.to_ne_bytes());
        data.extend([1, 0]);
        let type_bytes = u32::try_from(types.len() * 4).expect("small");
        let string_bytes = u32::try_from(strings.len()).expect("small");
        for word in [24, 0, type_bytes, type_bytes, string_bytes] {
            data.extend(u32::to_ne_bytes(word));
        }
        data.extend(types.iter().flat_map(|w| w.to_ne_bytes()));
        data.extend(strings);
        data
    }

    /// The strings of a blob.
    pub(crate) struct Strings {
        pub(crate) bytes: Vec<u8>,
    }

    impl Default for Strings {
        fn default() -> Self {
            Self { bytes: vec![0] }
        }
    }

    impl Strings {
        /// Puts one in, and says where it is.
        pub(crate) fn put(&mut self, text: &str) -> u32 {
            let at = u32::try_from(self.bytes.len()).expect("small");
            self.bytes.extend(text.as_bytes());
            self.bytes.push(0);
            at
        }
    }

    pub(crate) fn info(kind: usize, count: u32) -> u32 {
        u32::try_from(kind).expect("small") << 24 | count
    }

    #[test]
    fn a_module_reads_through_to_the_kernel() {
        // 1: int at "u64"; 2: typedef at "u64" of the array 3; 3: array of 8.
        let base = blob(
            &[
                1,
                info(1, 0),
                8,
                64, //
                1,
                info(KIND_TYPEDEF, 0),
                3, //
                0,
                info(KIND_ARRAY, 0),
                0,
                1,
                1,
                8,
            ],
            b"\0u64\0",
        );
        let base = Btf::parse(&base, None).expect("base");
        // 4: struct "handle" { "slots": 2 }; own strings start at 5.
        let split = blob(&[5, info(KIND_STRUCT, 1), 64, 12, 2, 0], b"handle\0slots\0");
        let split = Btf::parse(&split, Some(&base)).expect("split");
        let members = split.struct_members("handle").expect("found");
        assert_eq!(
            members,
            [Member {
                name: b"slots",
                type_id: 2,
                offset_bytes: 0
            }]
        );
        assert_eq!(split.array_length(2), Some(8));
        assert_eq!(split.array_length(1), None);
        assert_eq!(split.array_length(99), None);
        assert_eq!(split.struct_members("u64"), None);
    }

    #[test]
    fn broken_input_is_named() {
        assert_eq!(
            Btf::parse(b"", None).expect_err("broken"),
            BtfError::Truncated
        );
        assert_eq!(
            Btf::parse(b"\x7fELF", None).expect_err("broken"),
            BtfError::NotBtf
        );
        let unknown = blob(&[0, info(31, 0), 0], b"\0");
        assert_eq!(
            Btf::parse(&unknown, None).expect_err("broken"),
            BtfError::UnknownKind(31)
        );
        let short = blob(&[0, info(KIND_STRUCT, 1), 0], b"\0");
        assert_eq!(
            Btf::parse(&short, None).expect_err("broken"),
            BtfError::Truncated
        );
        // A typedef of itself.
        let looped = blob(&[0, info(KIND_TYPEDEF, 0), 1], b"\0");
        let looped = Btf::parse(&looped, None).expect("parses");
        assert_eq!(looped.array_length(1), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(types in prop::collection::vec(any::<u32>(), 0..64),
                          strings in prop::collection::vec(any::<u8>(), 0..32),
                          cut in 0..400_usize, id in 0..64_usize) {
            let mut data = blob(&types, &strings);
            data.truncate(cut.max(2));
            if let Ok(btf) = Btf::parse(&data, None) {
                let _ = btf.struct_members("x");
                let _ = btf.array_length(id);
                let _ = btf.member("x", "y");
                let _ = btf.arguments("x");
                let _ = btf.pointed_to(id);
            }
        }

        #[test]
        fn no_plausible_types_panic(kinds in prop::collection::vec((0..20_usize, 0..3_u32, any::<[u8; 4]>()), 0..24)) {
            let mut types = Vec::new();
            for (kind, count, words) in kinds {
                types.extend([u32::from(words[0]), info(kind, count), u32::from(words[1])]);
                types.extend(std::iter::repeat_n(u32::from(words[2]), words[3] as usize % 10));
            }
            let data = blob(&types, b"\0x\0yy\0");
            if let Ok(btf) = Btf::parse(&data, None) {
                let _ = btf.struct_members("x");
                let _ = btf.member("x", "yy");
                let _ = btf.arguments("x");
                for id in 0..32 {
                    let _ = btf.array_length(id);
                    let _ = btf.pointed_to(id);
                }
            }
        }
    }
}
