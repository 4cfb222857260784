//! The lanes by the hash of their name.
//!
//! The names are stored in the lanes, so a `HashMap` would store each name twice. The index is
//! sharded, because a full hash table is copied by the writer that adds the next entry, while all
//! workers wait for the lock: with a million lanes this took 13 to 37 ms with one table, and 5
//! to 8 ms (mostly the noise of the machine) with 64 shards.

use hashbrown::HashTable;

use super::slab::SlabKey;

/// The slab keys of lanes, by the hashes of their names.
#[derive(Debug)]
pub(super) struct LaneIndex {
    shards: [HashTable<IndexEntry>; Self::SHARDS],
}

#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    hash: u32,
    lane: SlabKey,
}

// === impl LaneIndex ===

impl LaneIndex {
    /// Enough that a shard is copied in a fraction of a millisecond with a million lanes, and few
    /// enough that an idle engine needs little memory.
    const SHARDS: usize = 64;

    /// Shards below this size are not shrunk.
    const SMALL: usize = 64;

    /// Returns the lane with this hash that is `wanted`.
    pub(super) fn find(&self, hash: u32, wanted: impl Fn(SlabKey) -> bool) -> Option<SlabKey> {
        let known = self.shards[Self::shard(hash)].find(spread(hash), |known| {
            known.hash == hash && wanted(known.lane)
        });
        known.map(|known| known.lane)
    }

    /// Adds a new lane.
    pub(super) fn insert(&mut self, hash: u32, lane: SlabKey) {
        let shard = &mut self.shards[Self::shard(hash)];
        shard.insert_unique(spread(hash), IndexEntry { hash, lane }, |it| {
            spread(it.hash)
        });
    }

    /// Removes a lane.
    pub(super) fn remove(&mut self, hash: u32, lane: SlabKey) {
        let shard = &mut self.shards[Self::shard(hash)];
        if let Ok(known) = shard.find_entry(spread(hash), |known| known.lane == lane) {
            known.remove();
        }
        if shard.capacity() > Self::SMALL && shard.len() < shard.capacity() / 8 {
            shard.shrink_to(2 * shard.len(), |it| spread(it.hash));
        }
    }

    /// The number of lanes.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }

    /// Uses the middle bits, because a hash table uses the lowest and the highest.
    const fn shard(hash: u32) -> usize {
        (hash >> 18) as usize % Self::SHARDS
    }
}

impl Default for LaneIndex {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| HashTable::new()),
        }
    }
}

/// Expands the hash to 64 bits with the hash in the lowest and the highest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x1_0000_0001)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_found_by_its_hash_until_it_is_removed() {
        let mut index = LaneIndex::default();
        for at in 0..10_000 {
            index.insert(hash(at), SlabKey::at(at));
        }
        for at in 0..10_000 {
            let lane = SlabKey::at(at);
            assert_eq!(index.find(hash(at), |it| it == lane), Some(lane));
        }
        for at in 0..9_999 {
            index.remove(hash(at), SlabKey::at(at));
        }
        assert_eq!(index.len(), 1);
        assert_eq!(index.find(hash(0), |_| true), None);
        assert!(index.find(hash(9_999), |_| true).is_some());
    }

    #[test]
    fn lanes_with_the_same_hash_are_distinguished() {
        let mut index = LaneIndex::default();
        index.insert(7, SlabKey::at(1));
        index.insert(7, SlabKey::at(2));
        for lane in [1, 2].map(SlabKey::at) {
            assert_eq!(index.find(7, |it| it == lane), Some(lane));
        }
        assert_eq!(index.find(7, |it| it == SlabKey::at(3)), None);
        index.remove(7, SlabKey::at(1));
        assert_eq!(index.find(7, |_| true), Some(SlabKey::at(2)));
    }

    #[test]
    fn capacity_is_released_after_many_lanes_were_removed() {
        let mut index = LaneIndex::default();
        for at in 0..100_000 {
            index.insert(hash(at), SlabKey::at(at));
        }
        let capacity =
            |index: &LaneIndex| -> usize { index.shards.iter().map(HashTable::capacity).sum() };
        let whole = capacity(&index);
        for at in 0..100_000 {
            index.remove(hash(at), SlabKey::at(at));
            let left = index.len();
            if left == whole / 4 {
                assert_eq!(capacity(&index), whole, "a quarter of it is in use");
            }
            if left < whole / 4 && left % 1_000 == 0 {
                assert!(capacity(&index) >= 2 * left, "it may double at once");
            }
        }
        let capacity = capacity(&index);
        assert!(
            capacity <= LaneIndex::SHARDS * LaneIndex::SMALL * 2,
            "{capacity}"
        );
    }

    /// So that the shard that grows is a small part of all.
    #[test]
    fn lanes_are_distributed_evenly_over_the_shards() {
        let mut index = LaneIndex::default();
        for at in 0..100 * LaneIndex::SHARDS {
            index.insert(hash(at), SlabKey::at(at));
        }
        let lanes = index.shards.iter().map(HashTable::len);
        assert!(lanes.max() < Some(300), "thrice the average");
    }

    fn hash(at: usize) -> u32 {
        u32::try_from(at)
            .expect("a small number")
            .wrapping_mul(0x9E37_79B9)
    }
}
