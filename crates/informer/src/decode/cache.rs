//! Cache of the decoded objects of one informer, bounded by bytes.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter, sync::Cache};

/// The decoded form of objects that an informer keeps as JSON and that were read from its store, or
/// reconciled again by a level-triggered controller.
///
/// Each state of each object has its own number as the key. The cache evicts the objects that are
/// read least. A single read of many objects does not evict objects that are read repeatedly.
pub(crate) struct DecodeCache<K> {
    max_bytes: u64,

    /// Created at the first insertion: most informers have no readers.
    objects: OnceLock<Objects<K>>,

    /// The next free number.
    next: AtomicU64,
}

type Objects<K> = Cache<u64, Cached<K>, ByBytes, DefaultHashBuilder, DropUnlocked>;

struct Cached<K> {
    object: Arc<K>,

    /// The estimated size in bytes.
    bytes: u64,
}

#[derive(Clone)]
struct ByBytes;

/// Drops evicted objects without the lock of the cache, because destructors of types can be user
/// code.
#[derive(Clone)]
struct DropUnlocked;

// === impl DecodeCache ===

impl<K> DecodeCache<K> {
    /// The memory of a decoded object for each byte of its JSON. A decoded Pod of `k8s-openapi`
    /// takes 6 bytes for each, a `ConfigMap` one.
    const DECODED_PER_JSON: u64 = 6;

    /// The number of shards, each with its own lock and its own part of the bytes.
    const SHARDS: usize = 4;

    /// The expected size of an object, which only determines the memory of the empty cache.
    const EXPECTED_BYTES: u64 = 32 * 1024;

    pub(crate) const fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes: max_bytes as u64,
            objects: OnceLock::new(),
            next: AtomicU64::new(0),
        }
    }

    /// Returns a number that no other object of this cache has.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<K>> {
        Some(self.objects.get()?.get(&number)?.object)
    }

    /// Caches `object`, unless it is too large. `json` is the length of its JSON.
    pub(crate) fn put(&self, number: u64, object: Arc<K>, json: usize) {
        if self.max_bytes == 0 {
            return;
        }
        let bytes = (json as u64).saturating_mul(Self::DECODED_PER_JSON);
        let bytes = bytes.saturating_add(size_of::<K>() as u64);
        self.objects().insert(number, Cached { object, bytes });
    }

    /// Removes the object with this number.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<K>> {
        let (_, cached) = self.objects.get()?.remove(&number)?;
        Some(cached.object)
    }

    fn objects(&self) -> &Objects<K> {
        self.objects.get_or_init(|| {
            let expected = self.max_bytes / Self::EXPECTED_BYTES;
            let options = OptionsBuilder::new()
                .weight_capacity(self.max_bytes)
                .estimated_items_capacity(usize::try_from(expected).unwrap_or(usize::MAX))
                .shards(Self::SHARDS)
                .build()
                .expect("the capacities are set");
            Cache::with_options(
                options,
                ByBytes,
                DefaultHashBuilder::default(),
                DropUnlocked,
            )
        })
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self {
            object: Arc::clone(&self.object),
            bytes: self.bytes,
        }
    }
}

impl<K> Lifecycle<u64, Cached<K>> for DropUnlocked {
    type RequestState = Vec<Cached<K>>;

    fn on_evict(&self, evicted: &mut Self::RequestState, _: u64, cached: Cached<K>) {
        evicted.push(cached);
    }
}

impl<K> Weighter<u64, Cached<K>> for ByBytes {
    fn weight(&self, _: &u64, cached: &Cached<K>) -> u64 {
        cached.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::DecodeCache;

    const KIB: usize = 1024;

    /// The estimated size of an object of 1 KiB of JSON.
    fn size() -> usize {
        5 * KIB + size_of::<String>()
    }

    fn put(cache: &DecodeCache<String>, numbers: std::ops::Range<u64>) {
        for number in numbers {
            cache.put(number, Arc::new(number.to_string()), KIB);
        }
    }

    fn cached(cache: &DecodeCache<String>, numbers: std::ops::Range<u64>) -> usize {
        numbers.filter(|it| cache.get(*it).is_some()).count()
    }

    #[test]
    fn the_size_of_the_cached_objects_is_bounded() {
        let cache = DecodeCache::new(100 * size());
        put(&cache, 0..10_000);
        let kept = cached(&cache, 0..10_000);
        assert!((50..=100).contains(&kept), "{kept}");
    }

    /// Large enough for all shards.
    #[test]
    fn a_cache_of_several_shards_is_used_and_bounded() {
        const OBJECTS: usize = 4096;
        let cache = DecodeCache::new(OBJECTS * size());
        put(&cache, 0..20_000);
        let kept = cached(&cache, 0..20_000);
        assert!((OBJECTS * 3 / 4..=OBJECTS).contains(&kept), "{kept}");
    }

    #[test]
    fn objects_that_are_read_repeatedly_survive_one_read_of_many_others() {
        let cache = DecodeCache::new(400 * size());
        put(&cache, 0..40);
        for _ in 0..4 {
            cached(&cache, 0..40);
        }
        put(&cache, 40..10_000);
        let kept = cached(&cache, 0..40);
        assert!(kept >= 36, "{kept} of 40");
    }

    #[test]
    fn an_object_that_is_larger_than_the_cache_is_not_cached() {
        let cache = DecodeCache::new(size() / 2);
        put(&cache, 0..1);
        assert_eq!(cached(&cache, 0..1), 0);
    }

    #[test]
    fn a_cache_with_the_size_0_is_empty() {
        let cache = DecodeCache::new(0);
        put(&cache, 0..1);
        assert_eq!(cached(&cache, 0..1), 0);
    }

    #[test]
    fn a_removed_object_is_not_cached() {
        let cache = DecodeCache::new(100 * size());
        put(&cache, 0..2);
        assert!(cache.remove(0).is_some());
        assert!(cache.remove(0).is_none());
        assert_eq!((cached(&cache, 0..1), cached(&cache, 1..2)), (0, 1));
    }
}
