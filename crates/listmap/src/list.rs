//! The items of one key, in order: what is kept, and what is handed out.
//!
//! *(pure)* Nothing here locks or waits; [`Slot`](crate::slot::Slot) adds the lock.

use std::{fmt, ops::Deref, sync::Arc};

/// Ordered items, each known by a number that is never given twice.
///
/// Cloning it is cheap, and a clone never changes: a change to the original copies what the
/// clone still needs.
#[derive(Clone, Debug)]
pub(crate) struct List<V> {
    values: Arc<Vec<V>>,

    /// The number of each value, ascending: values are only ever added at the end.
    ids: Arc<Vec<u64>>,

    next: u64,
}

/// What a search has found out about a list so far.
///
/// A search asks the user's closure about one item after the other, without any lock, while
/// others add and remove. Numbers make that safe: whatever was not asked about yet has a
/// number of `unasked` or above, and what was found is named by its number and not by its
/// place.
#[derive(Debug)]
pub(crate) struct Search {
    /// How many items are wanted.
    limit: usize,

    /// The items that matched, ascending.
    found: Vec<u64>,

    /// The first number that was not asked about.
    unasked: u64,
}

/// The items of one key at one moment, in order.
///
/// It is a slice of what was there when it was taken. It never changes, however the map
/// does, and keeping it costs nothing but the memory.
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

    /// Removes the item at `index`, and moves those behind it one place to the front.
    pub(crate) fn remove(&mut self, index: usize) -> Option<V> {
        self.remove_all((index < self.values.len()).then_some(index))
            .pop()
    }

    /// Removes what `search` has found, or nothing at all if it has to look again.
    pub(crate) fn remove_found(&mut self, search: &Search) -> Option<Vec<V>> {
        let mut places = self.places(&search.found).collect::<Vec<_>>();
        let unasked = self.ids.last().is_some_and(|last| *last >= search.unasked);
        if places.len() < search.limit && unasked {
            return None;
        }
        places.truncate(search.limit);
        Some(self.remove_all(places))
    }

    /// Removes the items at `places`, which ascend, in one pass.
    fn remove_all(&mut self, places: impl IntoIterator<Item = usize>) -> Vec<V> {
        let mut places = places.into_iter().peekable();
        if places.peek().is_none() {
            return Vec::new();
        }
        // Both are copied, if they must be, before one is changed: a `Clone` that panics
        // leaves the list as it was.
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

    /// Where those of `ids` stand that are still here.
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

    /// Asks about the items of `list` that were not asked about, until enough are found.
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
    fn what_was_handed_out_does_not_change() {
        let mut list = List::from_iter(["a", "b"]);
        let items = list.items();

        assert_eq!(list.remove(0), Some("a"));
        list.append(["c"]);

        assert_eq!(*items, ["a", "b"]);
        assert_eq!(*list.items(), ["b", "c"]);
    }

    #[test]
    fn a_search_whose_find_was_taken_looks_at_what_it_has_not_seen() {
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
    fn a_search_is_over_when_nothing_is_left_to_ask_about() {
        let mut list = List::from_iter([2, 4]);
        let mut search = Search::new(1);
        search.ask(&list, |n| *n == 3);
        assert_eq!(list.remove_found(&search), Some(Vec::new()));
    }

    #[test]
    fn a_search_removes_no_more_than_it_was_asked_for() {
        let mut list = List::from_iter([1, 2, 3, 4]);
        let mut search = Search::new(2);
        search.ask(&list, |_| true);
        assert_eq!(list.remove_found(&search), Some(vec![1, 2]));
        assert_eq!(*list.items(), [3, 4]);
    }
}
