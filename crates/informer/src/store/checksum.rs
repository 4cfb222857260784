//! A checksum of the objects of a store. *(pure)*
//!
//! The sum of the digests of all objects, so that it does not depend on their order. A digest is
//! FNV-1a with the final mix of `MurmurHash3`: without the mix, versions that two objects have
//! exchanged could have the same sum. Not a keyed hash of the standard library, because replicas
//! that were built differently are compared too.

/// The number of these digests, and the checksum.
pub(super) fn checksum(digests: &[u64]) -> (usize, u64) {
    let sum = digests.iter().copied().fold(0, u64::wrapping_add);
    (digests.len(), sum)
}

/// The digest of the uid and the resource version of an object.
pub(super) fn digest(uid: &str, version: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    // Neither contains a zero byte.
    let bytes = uid.bytes().chain([0]).chain(version.bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(objects: &[(&str, &str)]) -> (usize, u64) {
        let digests = objects.iter().map(|(uid, version)| digest(uid, version));
        checksum(&digests.collect::<Vec<_>>())
    }

    #[test]
    fn a_checksum_depends_on_uids_and_versions_and_not_on_the_order() {
        assert_eq!(of(&[]), (0, 0));
        let two = of(&[("a", "1"), ("b", "2")]);
        assert_eq!(of(&[("b", "2"), ("a", "1")]), two);
        for other in [
            &[("a", "2"), ("b", "1")][..],
            &[("a", "1"), ("b", "3")],
            &[("a", "1"), ("c", "2")],
            &[("a1", ""), ("b", "2")],
            &[("a", "1"), ("b", "2"), ("b", "2")],
            &[("a", "1")],
        ] {
            assert_ne!(of(other), two, "{other:?}");
        }
        // The same in all builds.
        assert_eq!(two.1, 0xc00a_b9b9_a975_7033);
    }
}
