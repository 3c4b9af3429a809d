//! A checksum of the BPF object: the build script makes it, and the program compares
//! it at each start. SHA-256 would take as long as attaching a probe.

/// Words are taken in one after the other, each step can be undone: so a change of one
/// word always changes the sum.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    // Of FNV-1a (Fowler, Noll and Vo), here by eight bytes at once.
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(bytes.len() as u64, |sum, word| {
        (sum ^ word).wrapping_mul(PRIME).rotate_left(23)
    })
}
