//! `Shard`: one of several equal parts of all objects, by a hash of their uids. *(pure)*

use std::fmt;

/// One of several equal parts of the objects of a kind, so that several replicas of an operator
/// share the work.
///
/// # Contract
///
/// *Guaranteed.* With the same count, each uid belongs to exactly one shard, in each process and in
/// each release. The parts are ranges of the 64-bit FNV-1a hash of the uid, as in the
/// `shardSelector` of the API server (KEP-5866): a server that supports it sends only the objects
/// of the shard, and the objects of any other server are dropped before they are decoded.
///
/// *Required.* Exactly one replica runs for each shard. A lease for each shard ensures that at most
/// one does, also while a pod is replaced: name it after the [index](Self::index). To change the
/// count, stop all replicas first: shards of two counts overlap. What a handler does outside of the
/// cluster is named after the uid, or the handler has a finalizer: a recreated object has a new uid
/// and may belong to another replica, whose call for the new object can come before the `Deleted` of
/// the old one. So a keyed resource, whose results are named after namespaces and names, must not be
/// sharded.
///
/// *Not guaranteed.* That a recreated object stays in its shard. An order between calls for two objects
/// of one name.
///
/// Source: KEP-5866, "Server-side Sharded List and Watch".
///
/// # Example
///
/// ```
/// use windlass_informer::Shard;
///
/// // In a StatefulSet, the name of the pod ends with its ordinal.
/// let shard = Shard::of_pod("website-operator-2", 4)?;
/// assert_eq!(shard, Shard::new(2, 4)?);
/// let lease = format!("website-operator-{}", shard.index());
/// assert_eq!(lease, "website-operator-2");
///
/// let uid = "0f6e3b0e-9a8a-4c37-8c86-6a5f3c1d9e77";
/// let owners = (0..4).filter(|index| Shard::new(*index, 4).is_ok_and(|it| it.contains(uid)));
/// assert_eq!(owners.count(), 1);
/// # Ok::<(), windlass_informer::InvalidShard>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    index: u32,
    count: u32,
}

/// Why there is no such shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidShard {
    /// There are fewer shards.
    #[error(
        "there is no shard {index} of {count}: indexes begin with 0; start as many replicas as \
         there are shards"
    )]
    Index {
        /// The given index.
        index: u32,
        /// The given number of shards.
        count: u32,
    },

    /// The name of the pod does not end with a hyphen and a number.
    #[error(
        "the pod name {name:?} does not end with an ordinal, such as `website-operator-2`: run the \
         operator as a StatefulSet, or set the index of the shard"
    )]
    PodName {
        /// The given name, as one line of at most 300 characters.
        name: String,
    },
}

// === impl Shard ===

impl Shard {
    /// The shard `index` of `count`. Indexes begin with 0.
    ///
    /// # Errors
    ///
    /// [`InvalidShard::Index`] unless `index` is less than `count`.
    pub const fn new(index: u32, count: u32) -> Result<Self, InvalidShard> {
        if index < count {
            Ok(Self { index, count })
        } else {
            Err(InvalidShard::Index { index, count })
        }
    }

    /// The shard of a pod of a `StatefulSet` with `count` replicas: its index is the ordinal at the end
    /// of the pod's name. Take the name from the downward API: with `hostNetwork` the host name is that
    /// of the node.
    ///
    /// # Errors
    ///
    /// [`InvalidShard`] if the name has no ordinal, or the ordinal is not less than `count`.
    pub fn of_pod(name: &str, count: u32) -> Result<Self, InvalidShard> {
        let ordinal = name.rsplit_once('-').map(|(_, ordinal)| ordinal);
        let is_number = |it: &&str| it.bytes().all(|byte| byte.is_ascii_digit());
        let ordinal = ordinal.filter(is_number).and_then(|it| it.parse().ok());
        match ordinal {
            Some(index) => Self::new(index, count),
            None => Err(InvalidShard::PodName {
                name: crate::one_line(name).into_owned(),
            }),
        }
    }

    /// The index, from 0.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// The number of shards.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether the object with this uid belongs to the shard.
    #[must_use]
    pub fn contains(&self, uid: &str) -> bool {
        let (start, end) = self.range();
        (start..end).contains(&u128::from(Self::hash(uid)))
    }

    /// The `shardSelector` of list and watch requests.
    #[must_use]
    pub fn selector(&self) -> String {
        let (start, end) = self.range();
        format!("shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')")
    }

    /// The 64-bit FNV-1a hash.
    pub(crate) fn hash(uid: &str) -> u64 {
        let step =
            |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        uid.bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }

    /// The hashes of the shard: the first one, and the one after the last, which is 2^64 for the last
    /// shard.
    fn range(self) -> (u128, u128) {
        let start = |index: u128| (index << u64::BITS) / u128::from(self.count);
        let index = u128::from(self.index);
        (start(index), start(index + 1))
    }
}

impl fmt::Display for Shard {
    /// Writes `shard 2 of 4`, with the index from 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} of {}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{InvalidShard, Shard};

    /// The published test vectors of the hash.
    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(Shard::hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Shard::hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Shard::hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_ranges_of_the_selectors_cover_all_hashes() {
        let selector = |index, count| Shard::new(index, count).expect("valid").selector();
        let expected = |range: &str| format!("shardRange(object.metadata.uid, {range})");
        let all = "'0x0000000000000000', '0x10000000000000000'";
        assert_eq!(selector(0, 1), expected(all));
        let first = "'0x0000000000000000', '0x5555555555555555'";
        assert_eq!(selector(0, 3), expected(first));
        let second = "'0x5555555555555555', '0xaaaaaaaaaaaaaaaa'";
        assert_eq!(selector(1, 3), expected(second));
        let third = "'0xaaaaaaaaaaaaaaaa', '0x10000000000000000'";
        assert_eq!(selector(2, 3), expected(third));
    }

    #[test]
    fn what_is_no_shard_is_an_error_that_says_what_to_do() {
        for (name, index) in [("web-0", 0), ("a-3-2", 2), ("operator-03", 3)] {
            assert_eq!(Shard::of_pod(name, 4), Shard::new(index, 4), "{name}");
        }
        for name in [
            "web",
            "web-",
            "web-x",
            "web-+2",
            "web--",
            "",
            "web-99999999999",
        ] {
            let error = Shard::of_pod(name, 4).expect_err(name);
            assert!(matches!(error, InvalidShard::PodName { .. }), "{name}");
        }
        let error = Shard::of_pod("web-4", 4).expect_err("too many pods");
        assert_eq!(
            error.to_string(),
            "there is no shard 4 of 4: indexes begin with 0; start as many replicas as there are \
             shards"
        );
        assert!(Shard::new(0, 0).is_err());
    }

    proptest! {
        #[test]
        fn each_uid_belongs_to_one_shard(uid in "[0-9a-f-]{0,36}", count in 1u32..40) {
            let shards = (0..count).filter_map(|index| Shard::new(index, count).ok());
            prop_assert_eq!(shards.filter(|it| it.contains(&uid)).count(), 1);
        }

        #[test]
        fn no_count_overflows(index: u32, count: u32, uid in "[0-9a-f]{8}") {
            if let Ok(shard) = Shard::new(index, count) {
                let _ = (shard.contains(&uid), shard.selector());
            }
        }
    }
}
