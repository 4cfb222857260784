//! The list of one key, with its own lock.
//!
//! The lock is held for a read or a change, and never while a user's closure runs.
//!
//! ```text
//!           last item or key removed
//!   Live ─────────────────────────────▶ Retired
//! ```
//!
//! A retired slot stays retired, and its key gets a new slot. A caller that finds a retired slot
//! removes it from the table and looks up the key again. So it does not wait for the caller that
//! retired the slot, and no item is added to a list that is not in the table.

use crate::{
    list::{Items, List, Search},
    sync::Mutex,
};

/// The list of one key behind a lock.
#[derive(Debug)]
pub(crate) struct Slot<V> {
    list: Mutex<State<V>>,
}

#[derive(Debug)]
enum State<V> {
    Live(List<V>),
    Retired,
}

/// The error of a retired slot: the key has another slot, or none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Retired;

/// The result of a removal.
#[derive(Debug)]
pub(crate) struct Removed<T> {
    pub(crate) removed: T,

    /// Whether the slot was retired, so that the caller must remove it from the table.
    pub(crate) retired: bool,
}

// === impl Slot ===

impl<V: Clone> Slot<V> {
    /// Moves all `values` to the end of the list, or none if the slot is retired.
    pub(crate) fn append(&self, values: &mut Vec<V>) -> Result<(), Retired> {
        self.live(|list| list.append(values.drain(..)))
    }

    /// Removes the item at `index`. Retires the slot if the list is then empty, unless `keep`.
    pub(crate) fn remove(&self, index: usize, keep: bool) -> Result<Removed<Option<V>>, Retired> {
        self.shrink(keep, |list| list.remove(index))
    }

    /// Removes the matches of `search`, unless the search must continue.
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
