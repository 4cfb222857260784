//! One key's list under its own lock.
//!
//! The lock is held for a look or a change, and never while a closure of the user's runs.
//!
//! ```text
//!           last item or key removed
//!   Live ─────────────────────────────▶ Retired
//! ```
//!
//! A slot that is retired stays so, and its key gets a new one. A caller that comes upon a retired
//! slot takes it out of the table and looks again, so it does not wait for the one that retired
//! it, and nothing is added to a list that cannot be found.

use crate::{
    list::{Items, List, Search},
    sync::Mutex,
};

/// A list that many may use, one at a time.
#[derive(Debug)]
pub(crate) struct Slot<V> {
    list: Mutex<State<V>>,
}

#[derive(Debug)]
enum State<V> {
    Live(List<V>),
    Retired,
}

/// The slot is no longer its key's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Retired;

/// What a removal removed, and whether it was the last.
#[derive(Debug)]
pub(crate) struct Removed<T> {
    pub(crate) removed: T,

    /// The slot is retired; take it out of the table.
    pub(crate) retired: bool,
}

// === impl Slot ===

impl<V: Clone> Slot<V> {
    /// Adds `values` at the end, together, and leaves none; or leaves all.
    pub(crate) fn append(&self, values: &mut Vec<V>) -> Result<(), Retired> {
        self.live(|list| list.append(values.drain(..)))
    }

    /// Removes the item at `index`. An empty list is retired, unless `keep`.
    pub(crate) fn remove(&self, index: usize, keep: bool) -> Result<Removed<Option<V>>, Retired> {
        self.shrink(keep, |list| list.remove(index))
    }

    /// Removes what `search` has found, if it need not look again.
    pub(crate) fn remove_found(
        &self,
        search: &Search,
        keep: bool,
    ) -> Result<Removed<Option<Vec<V>>>, Retired> {
        self.shrink(keep, |list| list.remove_found(search))
    }

    fn shrink<T>(
        &self,
        keep: bool,
        remove: impl FnOnce(&mut List<V>) -> Option<T>,
    ) -> Result<Removed<Option<T>>, Retired> {
        let mut state = self.list.lock();
        let State::Live(list) = &mut *state else {
            return Err(Retired);
        };
        let removed = remove(list);
        let retired = removed.is_some() && list.is_empty() && !keep;
        if retired {
            *state = State::Retired;
        }
        Ok(Removed { removed, retired })
    }
}

impl<V> Slot<V> {
    pub(crate) fn new(list: List<V>) -> Self {
        Self {
            list: Mutex::new(State::Live(list)),
        }
    }

    pub(crate) fn items(&self) -> Result<Items<V>, Retired> {
        self.live(|list| list.items())
    }

    /// A copy of the list, for a search.
    pub(crate) fn list(&self) -> Result<List<V>, Retired>
    where
        V: Clone,
    {
        self.live(|list| list.clone())
    }

    pub(crate) fn retire(&self) -> Result<Items<V>, Retired> {
        match std::mem::replace(&mut *self.list.lock(), State::Retired) {
            State::Live(list) => Ok(list.items()),
            State::Retired => Err(Retired),
        }
    }

    fn live<T>(&self, then: impl FnOnce(&mut List<V>) -> T) -> Result<T, Retired> {
        match &mut *self.list.lock() {
            State::Live(list) => Ok(then(list)),
            State::Retired => Err(Retired),
        }
    }
}
