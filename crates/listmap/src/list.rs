//! The items of one key, in order, and snapshots of them. *(pure)*
//!
//! [`Slot`](crate::slot::Slot) adds the lock.

use std::{fmt, ops::Deref, sync::Arc};

/// Ordered items, each with a number that is never reused.
///
/// A clone is cheap and never changes: the list is copied before a change if a clone exists.
#[derive(Clone, Debug)]
pub(crate) struct List<V> {
    values: Arc<Vec<V>>,

    /// The number of each value, in ascending order, because values are only added at the end.
    ids: Arc<Vec<u64>>,

    next: u64,
}

/// The progress of a search in a list.
///
/// A search calls the user's closure for one item after the other, without a lock, while other
/// threads add and remove items. Numbers make this safe: all unvisited items have numbers of at
/// least `unasked`, and matches are remembered by number and not by index.
#[derive(Debug)]
pub(crate) struct Search {
    /// The highest number of matches.
    limit: usize,

    /// The numbers of the matches, in ascending order.
    found: Vec<u64>,

    /// The lowest number that was not visited.
    unasked: u64,
}

/// A snapshot of the items of one key, in order.
///
/// It dereferences to a slice. It never changes, even if the map does.
pub struct Items<V> {
    values: Arc<Vec<V>>,
}

// === impl List ===

impl<V: Clone> List<V> {
    pub(crate) fn append(&mut self, values: impl IntoIterator<Item = V>) {
        let ids = Arc::make_mut(&mut self.ids);
        Arc::make_mut(&mut self.values).extend(values.into_iter().inspect(|_| {
            ids.push(self.next);
            self.next += 1;
        }));
    }

    /// Removes the item at `index`, and shifts the items after it.
    pub(crate) fn remove(&mut self, index: usize) -> Option<V> {
        self.remove_all((index < self.values.len()).then_some(index))
            .pop()
    }

    /// Removes the matches of `search`. Returns `None` and removes nothing if the search must
    /// continue.
    pub(crate) fn remove_found(&mut self, search: &Search) -> Option<Vec<V>> {
        let mut places = self.places(&search.found).collect::<Vec<_>>();
        let unasked = self.ids.last().is_some_and(|last| *last >= search.unasked);
        if places.len() < search.limit && unasked {
            return None;
        }
        places.truncate(search.limit);
        Some(self.remove_all(places))
    }

    /// Removes the items at `places`, which are in ascending order, in one pass.
    fn remove_all(&mut self, places: impl IntoIterator<Item = usize>) -> Vec<V> {
        let mut places = places.into_iter().peekable();
        if places.peek().is_none() {
            return Vec::new();
        }
        // Copy both before either is changed, so that a panic in `Clone` leaves the list
        // unchanged.
        let values = Arc::make_mut(&mut self.values);
        let ids = Arc::make_mut(&mut self.ids);
        let mut removed = Vec::new();
        let old = std::mem::take(values).into_iter().zip(std::mem::take(ids));
        for (place, (value, id)) in old.enumerate() {
            if places.next_if_eq(&place).is_some() {
                removed.push(value);
            } else {
                values.push(value);
                ids.push(id);
            }
        }
        removed
    }
}

impl<V> List<V> {
    pub(crate) fn items(&self) -> Items<V> {
        Items {
            values: Arc::clone(&self.values),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The current indexes of the items with these ids.
    fn places<'a>(&'a self, ids: &'a [u64]) -> impl Iterator<Item = usize> + 'a {
        ids.iter().filter_map(|id| self.ids.binary_search(id).ok())
    }
}

impl<V: Clone> FromIterator<V> for List<V> {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        let mut list = Self {
            values: Arc::default(),
            ids: Arc::default(),
            next: 0,
        };
        list.append(values);
        list
    }
}

// === impl Search ===

impl Search {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            found: Vec::new(),
            unasked: 0,
        }
    }

    /// Calls `matches` for the unvisited items of `list`, until the limit is reached.
    pub(crate) fn ask<V>(&mut self, list: &List<V>, mut matches: impl FnMut(&V) -> bool) {
        self.found.retain(|id| list.ids.binary_search(id).is_ok());
        let start = list.ids.partition_point(|id| *id < self.unasked);
        for (id, value) in list.ids.iter().zip(list.values.iter()).skip(start) {
            if self.found.len() >= self.limit {
                return;
            }
            self.unasked = id + 1;
            if matches(value) {
                self.found.push(*id);
            }
        }
    }
}

// === impl Items ===

impl<V> Deref for Items<V> {
    type Target = [V];

    fn deref(&self) -> &[V] {
        &self.values
    }
}

impl<V> Clone for Items<V> {
    fn clone(&self) -> Self {
        Self {
            values: Arc::clone(&self.values),
        }
    }
}

impl<V> Default for Items<V> {
    fn default() -> Self {
        Self {
            values: Arc::default(),
        }
    }
}

impl<V: fmt::Debug> fmt::Debug for Items<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, V> IntoIterator for &'a Items<V> {
    type Item = &'a V;
    type IntoIter = std::slice::Iter<'a, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{List, Search};

    #[test]
    fn a_returned_snapshot_does_not_change() {
        let mut list = List::from_iter(["a", "b"]);
        let items = list.items();

        assert_eq!(list.remove(0), Some("a"));
        list.append(["c"]);

        assert_eq!(*items, ["a", "b"]);
        assert_eq!(*list.items(), ["b", "c"]);
    }

    #[test]
    fn a_search_whose_match_was_removed_continues_with_unseen_items() {
        let mut list = List::from_iter([1, 2, 3]);
        let mut asked = Vec::new();
        let mut search = Search::new(1);
        let mut ask = |search: &mut Search, list: &List<i32>| {
            search.ask(list, |n| {
                asked.push(*n);
                n % 2 == 1
            });
        };

        ask(&mut search, &list);
        list.remove(0);
        assert_eq!(list.remove_found(&search), None);

        ask(&mut search, &list);
        assert_eq!(list.remove_found(&search), Some(vec![3]));
        assert_eq!(asked, [1, 2, 3]);
    }

    #[test]
    fn a_search_ends_after_the_last_item() {
        let mut list = List::from_iter([2, 4]);
        let mut search = Search::new(1);
        search.ask(&list, |n| *n == 3);
        assert_eq!(list.remove_found(&search), Some(Vec::new()));
    }

    #[test]
    fn a_search_removes_at_most_its_limit() {
        let mut list = List::from_iter([1, 2, 3, 4]);
        let mut search = Search::new(2);
        search.ask(&list, |_| true);
        assert_eq!(list.remove_found(&search), Some(vec![1, 2]));
        assert_eq!(*list.items(), [3, 4]);
    }
}
