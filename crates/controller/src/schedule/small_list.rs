//! A list of a few values: four bytes while it is empty, and a place in a pool for each value.
//!
//! Not a `smallvec`: inline it makes each lane larger by one value (104 bytes for a pending call,
//! where a lane with its event is 112 and most have no pending call), and on the heap it is a box
//! for each. A million boxes that come and go are a million small pieces of memory, which some
//! allocators merge all at once, while every worker waits. `tests/counted.rs` holds what a waiting
//! and a pending call may cost.

use super::slab::{Slab, SlabKey};

/// Some things, in the order in which they came: mostly none, and rarely more than one. They
/// are in the pool that every call is given, and must be taken from there before this is dropped.
#[derive(Debug)]
pub(super) struct SmallList(Option<SlabKey>);

/// Where things of several lists are.
pub(super) type ListNodes<T> = Slab<ListNode<T>>;

/// One of the things of a list.
#[derive(Debug)]
pub(super) struct ListNode<T> {
    thing: T,
    next: SmallList,
}

// === impl SmallList ===

impl SmallList {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Puts `thing` behind the others.
    pub(super) fn push<T>(&mut self, things: &mut ListNodes<T>, thing: T) {
        let next = Self::new();
        let new = Some(things.insert(ListNode { thing, next }));
        let Some(mut last) = self.0 else {
            self.0 = new;
            return;
        };
        while let Some(next) = things[last].next.0 {
            last = next;
        }
        things[last].next.0 = new;
    }

    /// Takes the first that is `wanted`.
    pub(super) fn take<T>(
        &mut self,
        things: &mut ListNodes<T>,
        wanted: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let (mut before, mut at) = (None, self.0?);
        while !wanted(&things[at].thing) {
            (before, at) = (Some(at), things[at].next.0?);
        }
        let ListNode { thing, next } = things.remove(at)?;
        match before {
            Some(before) => things[before].next = next,
            None => *self = next,
        }
        Some(thing)
    }

    pub(super) fn iter<'a, T>(&self, things: &'a ListNodes<T>) -> impl Iterator<Item = &'a T> {
        let mut at = self.0;
        std::iter::from_fn(move || {
            let ListNode { thing, next } = &things[at?];
            at = next.0;
            Some(thing)
        })
    }

    /// The first that is `wanted`, to be changed.
    pub(super) fn find_mut<'a, T>(
        &self,
        things: &'a mut ListNodes<T>,
        wanted: impl Fn(&T) -> bool,
    ) -> Option<&'a mut T> {
        let mut at = self.0?;
        while !wanted(&things[at].thing) {
            at = things[at].next.0?;
        }
        Some(&mut things[at].thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_stay_in_the_order_in_which_they_came() {
        check("", "1 2 3");
        check("1", "2 3");
        check("2", "1 3");
        check("3 1", "2");
        check("2 1 3", "");
    }

    #[test]
    fn none_costs_four_bytes() {
        assert_eq!(size_of::<SmallList>(), 4);
    }

    /// Takes `taken` out of 1, 2 and 3.
    #[track_caller]
    fn check(taken: &str, left: &str) {
        let (mut things, mut few, mut other) =
            (ListNodes::default(), SmallList::new(), SmallList::new());
        for it in ["1", "2", "3"] {
            few.push(&mut things, it);
            other.push(&mut things, it);
        }
        for it in taken.split_whitespace() {
            assert_eq!(few.take(&mut things, |other| *other == it), Some(it));
        }
        assert_eq!(few.take(&mut things, |it| *it == "4"), None);
        assert_eq!(few.find_mut(&mut things, |it| *it == "4"), None);
        let show = |few: &SmallList| few.iter(&things).copied().collect::<Vec<_>>().join(" ");
        assert_eq!((&*show(&few), &*show(&other)), (left, "1 2 3"));
        assert_eq!(few.is_empty(), left.is_empty());
    }
}
