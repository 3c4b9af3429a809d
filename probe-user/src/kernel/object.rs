//! The BPF object inside this program.

use super::check::sum;

/// The ELF object that the build script made; empty if it had no toolchain.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probe-ebpf"));

/// Why there is no object in this build.
const ABSENT: &str = env!("COWPROBE_OBJECT_ABSENT");

/// SHA-256 of what the build script made, in hexadecimal.
const SHA256: &str = env!("COWPROBE_OBJECT_SHA256");

/// The build script's checksum of it.
const CHECK: &str = env!("COWPROBE_OBJECT_CHECK");

/// Why there is no object to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoObject {
    /// This build has none, for this reason.
    Absent(&'static str),
    /// It is not what the build made. Nothing else finds that out for sure: the
    /// verifier takes a program that counts wrong.
    Damaged,
}

/// The object as it was built.
pub(super) fn bytes() -> Result<&'static [u8], NoObject> {
    if OBJECT.is_empty() {
        return Err(NoObject::Absent(ABSENT));
    }
    intact(OBJECT).then_some(OBJECT).ok_or(NoObject::Damaged)
}

fn intact(object: &[u8]) -> bool {
    CHECK.parse() == Ok(sum(object))
}

/// SHA-256 of the object in hexadecimal, `None` if there is none.
pub(crate) fn sha256() -> Option<String> {
    (!OBJECT.is_empty()).then(|| SHA256.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_object_is_there_or_a_reason() {
        assert_eq!(OBJECT.is_empty(), !ABSENT.is_empty());
        assert!(intact(OBJECT));
        assert_eq!(bytes().is_err(), OBJECT.is_empty());
    }

    proptest! {
        #[test]
        fn any_damage_is_seen(place in any::<prop::sample::Index>(), change in 1..=u8::MAX) {
            let mut object = OBJECT.to_vec();
            if object.is_empty() {
                object.push(0);
            }
            let place = place.index(object.len());
            object[place] ^= change;
            prop_assert!(!intact(&object));
            object.truncate(place);
            prop_assert!(!intact(&object) || OBJECT.is_empty());
        }
    }
}
