//! A slab: values by small keys, whose memory grows and shrinks by chunks.
//!
//! Values are stored in chunks. So growing never moves values, and empty chunks are freed. The
//! crate `slab` guarantees neither: it is one `Vec`, which moves all of a million lanes under the
//! engine's lock when it grows (13 ms), and never shrinks.

use std::{
    num::NonZeroU32,
    ops::{Index, IndexMut},
};

/// The key of a value in a [`Slab`]. An `Option` of it has the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SlabKey(NonZeroU32);

/// Values by small keys.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The first chunk with a free entry.
    open: Option<SlabKey>,
    /// The number of empty chunks that are not freed.
    spare: usize,
}

#[derive(Debug)]
struct Chunk<T> {
    /// Without memory, or with capacity for a whole chunk.
    entries: Vec<SlabEntry<T>>,
    /// The first free entry.
    free: Option<SlabKey>,
    used: u32,
    /// The next chunk with a free entry.
    open: Option<SlabKey>,
}

#[derive(Debug)]
enum SlabEntry<T> {
    Taken(T),
    /// Free, with the next free entry.
    Free(Option<SlabKey>),
}

// === impl SlabKey ===

impl SlabKey {
    /// The key of the entry at `index`.
    pub(super) fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("fewer than 2^32 objects have work"))
    }

    /// The index of its entry.
    pub(super) const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

// === impl Slab ===

impl<T> Slab<T> {
    /// Few enough that an idle engine needs little memory, and enough that the overhead of a chunk
    /// does not matter.
    const CHUNK: usize = 64;

    /// Stores `value`, and returns its key.
    pub(super) fn insert(&mut self, value: T) -> SlabKey {
        let open = self.open.unwrap_or_else(|| {
            let new = SlabKey::at(self.chunks.len());
            self.chunks.push(Chunk::default());
            self.open = Some(new);
            new
        });
        let chunk = &mut self.chunks[open.index()];
        if chunk.entries.capacity() == 0 {
            chunk.entries.reserve_exact(Self::CHUNK);
        } else if chunk.used == 0 {
            self.spare -= 1;
        }
        let place = if let Some(free) = chunk.free {
            let place = &mut chunk.entries[free.index()];
            if let SlabEntry::Free(next) = *place {
                chunk.free = next;
            }
            *place = SlabEntry::Taken(value);
            free.index()
        } else {
            chunk.entries.push(SlabEntry::Taken(value));
            chunk.entries.len() - 1
        };
        chunk.used += 1;
        if chunk.used as usize == Self::CHUNK {
            self.open = chunk.open.take();
        }
        SlabKey::at(open.index() * Self::CHUNK + place)
    }

    /// Removes and returns the value with this key.
    pub(super) fn remove(&mut self, key: SlabKey) -> Option<T> {
        let (at, place) = Self::split(key);
        let chunk = self.chunks.get_mut(at)?;
        let free = SlabEntry::Free(chunk.free);
        let SlabEntry::Taken(value) = std::mem::replace(chunk.entries.get_mut(place)?, free) else {
            unreachable!("a value is removed once");
        };
        chunk.free = Some(SlabKey::at(place));
        if chunk.used as usize == Self::CHUNK {
            chunk.open = self.open.replace(SlabKey::at(at));
        }
        chunk.used -= 1;
        if chunk.used == 0 {
            // One empty chunk is kept, for values that come and go one at a time.
            if self.spare == 0 {
                self.spare = 1;
            } else {
                chunk.entries = Vec::new();
                chunk.free = None;
            }
        }
        Some(value)
    }

    /// The value with this key, if it exists.
    pub(super) fn get(&self, key: SlabKey) -> Option<&T> {
        let (at, place) = Self::split(key);
        match self.chunks.get(at)?.entries.get(place)? {
            SlabEntry::Taken(value) => Some(value),
            SlabEntry::Free(_) => None,
        }
    }

    /// The number of values.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    /// All values with their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.chunks.iter().enumerate().flat_map(|(at, chunk)| {
            let entries = chunk.entries.iter().enumerate();
            entries.filter_map(move |(place, value)| match value {
                SlabEntry::Taken(value) => Some((SlabKey::at(at * Self::CHUNK + place), value)),
                SlabEntry::Free(_) => None,
            })
        })
    }

    const fn split(key: SlabKey) -> (usize, usize) {
        (key.index() / Self::CHUNK, key.index() % Self::CHUNK)
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            open: None,
            spare: 0,
        }
    }
}

impl<T> Index<SlabKey> for Slab<T> {
    type Output = T;

    fn index(&self, key: SlabKey) -> &T {
        let (at, place) = Self::split(key);
        match &self.chunks[at].entries[place] {
            SlabEntry::Taken(value) => value,
            SlabEntry::Free(_) => unreachable!("a key is used while its value exists"),
        }
    }
}

impl<T> IndexMut<SlabKey> for Slab<T> {
    fn index_mut(&mut self, key: SlabKey) -> &mut T {
        let (at, place) = Self::split(key);
        match &mut self.chunks[at].entries[place] {
            SlabEntry::Taken(value) => value,
            SlabEntry::Free(_) => unreachable!("a key is used while its value exists"),
        }
    }
}

// === impl Chunk ===

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: None,
            used: 0,
            open: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_stored_until_it_is_removed() {
        let mut slab = Slab::default();
        let keys: Vec<_> = (0..1_000).map(|value| slab.insert(value)).collect();
        for (value, key) in keys.iter().enumerate() {
            assert_eq!(slab[*key], value);
        }
        for (value, key) in keys.iter().enumerate().filter(|(at, _)| at % 3 > 0) {
            assert_eq!(slab.remove(*key), Some(value));
        }
        let left: Vec<_> = slab.iter().map(|(_, value)| *value).collect();
        assert_eq!(left, (0..1_000).step_by(3).collect::<Vec<_>>());
        assert_eq!(slab.len(), left.len());
        assert!((slab.iter()).all(|(key, value)| slab.get(key) == Some(value)));
        assert!((slab.iter()).all(|(key, value)| keys[*value] == key));
    }

    #[test]
    fn a_released_key_is_reused() {
        let mut slab = Slab::default();
        let keys: Vec<_> = (0..1_000).map(|value| slab.insert(value)).collect();
        for key in &keys[..500] {
            slab.remove(*key);
        }
        for value in 0..500 {
            assert!(slab.insert(value).index() < 1_000);
        }
        assert_eq!(slab.len(), 1_000);
    }

    #[test]
    fn an_empty_slab_keeps_one_chunk() {
        let mut slab = Slab::default();
        for round in 0..3 {
            let keys: Vec<_> = (0..1_000).map(|value| slab.insert(value)).collect();
            for key in keys {
                slab.remove(key);
            }
            let capacity: usize = slab.chunks.iter().map(|it| it.entries.capacity()).sum();
            assert_eq!(capacity, Slab::<i32>::CHUNK, "round {round}");
        }
    }

    #[test]
    fn an_optional_key_has_the_size_of_a_key() {
        assert_eq!(size_of::<Option<SlabKey>>(), 4);
    }
}
