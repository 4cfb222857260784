//! A slab: values by small numbers, whose memory grows and shrinks by chunks.
//!
//! Values lie in chunks, so that growing never moves the others, however many there are; and a
//! chunk that is empty is given back. The crate `slab` gives neither guarantee: it is one `Vec`,
//! which moves all of a million lanes under the engine's lock when it grows, and never shrinks.

use std::{
    num::NonZeroU32,
    ops::{Index, IndexMut},
};

/// The number of a thing in a [`Slab`], for as long as it is there. None of them costs no more
/// than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SlabKey(NonZeroU32);

/// Things by their numbers.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The first of the chunks with a free place.
    open: Option<SlabKey>,
    /// How many chunks hold nothing, and have not been given back.
    spare: usize,
}

#[derive(Debug)]
struct Chunk<T> {
    /// Empty, or with capacity for a whole chunk.
    places: Vec<SlabEntry<T>>,
    /// The first of the places that were left.
    left: Option<SlabKey>,
    used: u32,
    /// The next chunk with a free place.
    open: Option<SlabKey>,
}

#[derive(Debug)]
enum SlabEntry<T> {
    Taken(T),
    /// With the place that was left before.
    Left(Option<SlabKey>),
}

// === impl SlabKey ===

impl SlabKey {
    /// The number of the thing at `index`.
    pub(super) fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("fewer than four thousand million objects have work"))
    }

    /// Where its thing is.
    pub(super) const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

// === impl Slab ===

impl<T> Slab<T> {
    /// Few enough that an idle engine costs little, and enough that what a chunk needs is
    /// nothing beside what is in it.
    const CHUNK: usize = 64;

    /// Keeps `thing`, under the number that is returned.
    pub(super) fn insert(&mut self, thing: T) -> SlabKey {
        let open = self.open.unwrap_or_else(|| {
            let new = SlabKey::at(self.chunks.len());
            self.chunks.push(Chunk::default());
            self.open = Some(new);
            new
        });
        let chunk = &mut self.chunks[open.index()];
        if chunk.places.capacity() == 0 {
            chunk.places.reserve_exact(Self::CHUNK);
        } else if chunk.used == 0 {
            self.spare -= 1;
        }
        let place = if let Some(left) = chunk.left {
            let place = &mut chunk.places[left.index()];
            if let SlabEntry::Left(next) = *place {
                chunk.left = next;
            }
            *place = SlabEntry::Taken(thing);
            left.index()
        } else {
            chunk.places.push(SlabEntry::Taken(thing));
            chunk.places.len() - 1
        };
        chunk.used += 1;
        if chunk.used as usize == Self::CHUNK {
            self.open = chunk.open.take();
        }
        SlabKey::at(open.index() * Self::CHUNK + place)
    }

    /// Takes what has this number.
    pub(super) fn remove(&mut self, number: SlabKey) -> Option<T> {
        let (at, place) = Self::split(number);
        let chunk = self.chunks.get_mut(at)?;
        let left = SlabEntry::Left(chunk.left);
        let SlabEntry::Taken(thing) = std::mem::replace(chunk.places.get_mut(place)?, left) else {
            unreachable!("a number is given back once");
        };
        chunk.left = Some(SlabKey::at(place));
        if chunk.used as usize == Self::CHUNK {
            chunk.open = self.open.replace(SlabKey::at(at));
        }
        chunk.used -= 1;
        if chunk.used == 0 {
            // One stays, for what comes and goes alone.
            if self.spare == 0 {
                self.spare = 1;
            } else {
                chunk.places = Vec::new();
                chunk.left = None;
            }
        }
        Some(thing)
    }

    /// The thing with this number, if it is there.
    pub(super) fn get(&self, number: SlabKey) -> Option<&T> {
        let (at, place) = Self::split(number);
        match self.chunks.get(at)?.places.get(place)? {
            SlabEntry::Taken(thing) => Some(thing),
            SlabEntry::Left(_) => None,
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    /// All of them, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.chunks.iter().enumerate().flat_map(|(at, chunk)| {
            let places = chunk.places.iter().enumerate();
            places.filter_map(move |(place, thing)| match thing {
                SlabEntry::Taken(thing) => Some((SlabKey::at(at * Self::CHUNK + place), thing)),
                SlabEntry::Left(_) => None,
            })
        })
    }

    const fn split(number: SlabKey) -> (usize, usize) {
        (number.index() / Self::CHUNK, number.index() % Self::CHUNK)
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

    fn index(&self, number: SlabKey) -> &T {
        let (at, place) = Self::split(number);
        match &self.chunks[at].places[place] {
            SlabEntry::Taken(thing) => thing,
            SlabEntry::Left(_) => unreachable!("a number is used while its thing is there"),
        }
    }
}

impl<T> IndexMut<SlabKey> for Slab<T> {
    fn index_mut(&mut self, number: SlabKey) -> &mut T {
        let (at, place) = Self::split(number);
        match &mut self.chunks[at].places[place] {
            SlabEntry::Taken(thing) => thing,
            SlabEntry::Left(_) => unreachable!("a number is used while its thing is there"),
        }
    }
}

// === impl Chunk ===

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            left: None,
            used: 0,
            open: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_there_until_it_is_taken_out() {
        let mut pool = Slab::default();
        let numbers: Vec<_> = (0..1_000).map(|thing| pool.insert(thing)).collect();
        for (thing, number) in numbers.iter().enumerate() {
            assert_eq!(pool[*number], thing);
        }
        for (thing, number) in numbers.iter().enumerate().filter(|(at, _)| at % 3 > 0) {
            assert_eq!(pool.remove(*number), Some(thing));
        }
        let left: Vec<_> = pool.iter().map(|(_, thing)| *thing).collect();
        assert_eq!(left, (0..1_000).step_by(3).collect::<Vec<_>>());
        assert_eq!(pool.len(), left.len());
    }

    #[test]
    fn a_number_that_was_given_back_is_used_again() {
        let mut pool = Slab::default();
        let numbers: Vec<_> = (0..1_000).map(|thing| pool.insert(thing)).collect();
        for number in &numbers[..500] {
            pool.remove(*number);
        }
        for thing in 0..500 {
            assert!(pool.insert(thing).index() < 1_000);
        }
        assert_eq!(pool.len(), 1_000);
    }

    #[test]
    fn an_empty_pool_keeps_one_chunk() {
        let mut pool = Slab::default();
        for round in 0..3 {
            let numbers: Vec<_> = (0..1_000).map(|thing| pool.insert(thing)).collect();
            for number in numbers {
                pool.remove(number);
            }
            let room: usize = pool.chunks.iter().map(|it| it.places.capacity()).sum();
            assert_eq!(room, Slab::<i32>::CHUNK, "round {round}");
        }
    }

    #[test]
    fn no_number_costs_no_more_than_one() {
        assert_eq!(size_of::<Option<SlabKey>>(), 4);
    }
}
