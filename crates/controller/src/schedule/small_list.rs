//! A list of few values: four bytes while it is empty, and a slab entry for each value.
//!
//! Why not a `smallvec`: with an inline value, each lane is larger by one value, although most lanes
//! have no pending call. (A pending call has 104 bytes and a lane with its event 112, so that a
//! queued object would take 233 bytes instead of 129.) Without one, each value is a separate
//! allocation. A million small allocations that are freed at about the same time make some
//! allocators merge them all at once, while all workers wait. `tests/counted.rs` bounds the memory
//! of a queued object and of a pending call.

use super::slab::{Slab, SlabKey};

/// A list in insertion order, usually empty, rarely with more than one value. The values are in the
/// nodes that each call receives. Remove them before the list is dropped.
#[derive(Debug)]
pub(super) struct SmallList(Option<SlabKey>);

/// The nodes of several lists.
pub(super) type ListNodes<T> = Slab<ListNode<T>>;

/// A value of a list.
#[derive(Debug)]
pub(super) struct ListNode<T> {
    value: T,
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

    /// Appends `value`.
    pub(super) fn push<T>(&mut self, values: &mut ListNodes<T>, value: T) {
        let next = Self::new();
        let new = Some(values.insert(ListNode { value, next }));
        let Some(mut last) = self.0 else {
            self.0 = new;
            return;
        };
        while let Some(next) = values[last].next.0 {
            last = next;
        }
        values[last].next.0 = new;
    }

    /// Removes the first value that is `wanted`.
    pub(super) fn take<T>(
        &mut self,
        values: &mut ListNodes<T>,
        wanted: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let (mut before, mut at) = (None, self.0?);
        while !wanted(&values[at].value) {
            (before, at) = (Some(at), values[at].next.0?);
        }
        let ListNode { value, next } = values.remove(at)?;
        match before {
            Some(before) => values[before].next = next,
            None => *self = next,
        }
        Some(value)
    }

    pub(super) fn iter<'a, T>(&self, values: &'a ListNodes<T>) -> impl Iterator<Item = &'a T> {
        let mut at = self.0;
        std::iter::from_fn(move || {
            let ListNode { value, next } = &values[at?];
            at = next.0;
            Some(value)
        })
    }

    /// Returns the first value that is `wanted`.
    pub(super) fn find_mut<'a, T>(
        &self,
        values: &'a mut ListNodes<T>,
        wanted: impl Fn(&T) -> bool,
    ) -> Option<&'a mut T> {
        let mut at = self.0?;
        while !wanted(&values[at].value) {
            at = values[at].next.0?;
        }
        Some(&mut values[at].value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_in_insertion_order() {
        check("", "1 2 3");
        check("1", "2 3");
        check("2", "1 3");
        check("3 1", "2");
        check("2 1 3", "");
    }

    #[test]
    fn an_empty_list_has_four_bytes() {
        assert_eq!(size_of::<SmallList>(), 4);
    }

    /// Takes `taken` out of 1, 2 and 3.
    #[track_caller]
    fn check(taken: &str, left: &str) {
        let (mut values, mut few, mut other) =
            (ListNodes::default(), SmallList::new(), SmallList::new());
        for it in ["1", "2", "3"] {
            few.push(&mut values, it);
            other.push(&mut values, it);
        }
        for it in taken.split_whitespace() {
            assert_eq!(few.take(&mut values, |other| *other == it), Some(it));
        }
        assert_eq!(few.take(&mut values, |it| *it == "4"), None);
        assert_eq!(few.find_mut(&mut values, |it| *it == "4"), None);
        let show = |few: &SmallList| few.iter(&values).copied().collect::<Vec<_>>().join(" ");
        assert_eq!((&*show(&few), &*show(&other)), (left, "1 2 3"));
        assert_eq!(few.is_empty(), left.is_empty());
    }
}
