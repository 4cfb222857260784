//! The memory that a wrapper has of an object until the informer shows it. *(pure)*
//!
//! The informer shows our own patches with a delay. Until then the memory of an object is newer
//! than its events: those with a version below that of the last patch are stale.
//!
//! An entry exists until the informer shows what it remembers, or the object is deleted. So there
//! are as many entries as objects in the middle of an operation.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tokio::time::Instant;
use windlass_informer::Uid;

use super::inner_call::InnerCall;

/// The memories, by uid.
#[derive(Debug)]
pub(super) struct Memories<K> {
    entries: HashMap<Uid, Memory<K>>,

    /// Objects that were released, were deleted or have left the selector, oldest first. Of an
    /// object outside of the selector, no informer may ever show the deletion.
    retired: VecDeque<Uid>,
}

/// The memory of one object.
#[derive(Debug)]
pub(super) struct Memory<K> {
    pub(super) progress: Option<Progress>,

    /// The version after our last patch, until the informer has shown it and no add is unfinished.
    pub(super) patched: Option<String>,

    /// The last state with which the inner handler was called, until the informer has shown it and
    /// the finalizer is written.
    pub(super) given: Option<Arc<K>>,

    /// A call of an inner watcher that has not succeeded. Requests of reconcilers carry theirs.
    pub(super) unfinished: Option<InnerCall<K>>,

    /// When its clean-up first requested a requeue, or that was last logged. Only beside a progress.
    pub(super) cleaning_up_since: Option<Instant>,
}

/// The progress of the work for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its add has begun in its present life, and has not succeeded.
    Begun {
        /// Whether it had the finalizer before, which then does not show that it was added.
        held: bool,
    },
    /// Its add has succeeded; the finalizer is not written.
    Added,
    /// Its add has succeeded, and it has the finalizer.
    Held,
    /// It is marked for deletion, and its clean-up has begun.
    CleaningUp,
    /// Its clean-up has succeeded; the finalizer is not removed.
    CleanedUp,
    /// It has left the selector, and it has no finalizer of ours.
    Released,
    /// It was marked for deletion, without a finalizer of ours, when it was first seen.
    Ignored,
    /// It is marked for deletion or does not exist, its clean-up has succeeded, and it has no
    /// finalizer of ours: what an informer shows is older.
    Gone,
    /// It is marked for deletion on the server; what the informer shows is older.
    Terminating,
    /// Its clean-up has begun, and unlike with `CleaningUp`, it is added again if it still exists:
    /// the server was restored from a backup, or the object has left the selector.
    CleanUpBegun,
}

/// Whether the inner handler has to add the object although it has the finalizer: the finalizer is
/// from an earlier life, or precedes the add.
pub(super) const fn is_to_be_added(progress: Option<Progress>) -> bool {
    matches!(
        progress,
        Some(Progress::CleanedUp | Progress::CleanUpBegun | Progress::Begun { held: true })
    )
}

// === impl Memories ===

impl<K> Memories<K> {
    /// How many objects that were released, were deleted or have left the selector are remembered,
    /// because an informer may show them again.
    const RETIRED: usize = 1_000;

    /// Remembers the object until 1,000 others were released, were deleted or have left the
    /// selector.
    pub(super) fn retire(&mut self, uid: Option<Uid>) {
        // Each retry of a clean-up retires its object again, and must not displace the others.
        self.retired
            .extend(uid.filter(|uid| !self.retired.contains(uid)));
        if self.retired.len() > Self::RETIRED
            && let Some(oldest) = self.retired.pop_front()
            && let Some(memory) = self.entries.get(&oldest)
            && matches!(
                memory.progress,
                Some(Progress::Released | Progress::Gone | Progress::CleanUpBegun)
            )
        {
            self.entries.remove(&oldest);
        }
    }

    pub(super) fn get(&self, uid: Option<&Uid>) -> Option<&Memory<K>> {
        self.entries.get(uid?)
    }

    /// Changes the memory of one object. Removes it if it is empty then.
    pub(super) fn change<T>(
        &mut self,
        uid: Option<Uid>,
        change: impl FnOnce(&mut Memory<K>) -> T,
    ) -> Option<T> {
        let uid = uid?;
        let entry = self.entries.entry(uid.clone()).or_default();
        let changed = change(entry);
        if entry.is_empty() {
            self.entries.remove(&uid);
        }
        Some(changed)
    }

    /// Removes the memory of the object. Returns it, to be dropped without a lock.
    pub(super) fn forget(&mut self, uid: Option<&Uid>) -> Option<Memory<K>> {
        self.entries.remove(uid?)
    }

    /// The number of remembered objects.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

// Not derived, because that would require `K: Default`.
impl<K> Default for Memories<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            retired: VecDeque::new(),
        }
    }
}

// === impl Memory ===

impl<K> Memory<K> {
    const fn is_empty(&self) -> bool {
        self.progress.is_none()
            && self.patched.is_none()
            && self.given.is_none()
            && self.unfinished.is_none()
    }
}

impl<K> Default for Memory<K> {
    fn default() -> Self {
        Self {
            progress: None,
            patched: None,
            given: None,
            unfinished: None,
            cleaning_up_since: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_without_state_has_no_entry() {
        let mut memories = Memories::<()>::default();
        let uid = Some(Uid::from("a"));
        memories.change(uid.clone(), |memory| memory.progress = Some(Progress::Held));
        assert_eq!(memories.len(), 1);
        memories.change(uid.clone(), |memory| memory.progress = None);
        assert_eq!(memories.len(), 0);
        memories.change(uid.clone(), |memory| memory.progress = Some(Progress::Held));
        let forgotten = memories.forget(uid.as_ref()).expect("it is remembered");
        assert_eq!(forgotten.progress, Some(Progress::Held));
        assert_eq!(memories.len(), 0);
    }

    #[test]
    fn released_objects_are_remembered_until_too_many_others_are() {
        let mut memories = Memories::<()>::default();
        let uid = |at: usize| Some(Uid::from(&*at.to_string()));
        let mut retire = |at, progress| {
            memories.change(uid(at), |memory| memory.progress = Some(progress));
            memories.retire(uid(at));
            memories.len()
        };
        for at in 0..Memories::<()>::RETIRED {
            assert_eq!(retire(at, Progress::Released), at + 1);
        }
        assert_eq!(retire(1_000_000, Progress::Gone), Memories::<()>::RETIRED);
        assert!(memories.get(uid(0).as_ref()).is_none(), "the oldest");
        assert!(memories.get(uid(1).as_ref()).is_some());
        // One that is held again is no longer released.
        memories.change(uid(1), |memory| memory.progress = Some(Progress::Held));
        memories.retire(uid(1_000_001));
        assert!(memories.get(uid(1).as_ref()).is_some());
    }

    #[test]
    fn an_object_whose_clean_up_is_retried_displaces_no_other() {
        let mut memories = Memories::<()>::default();
        let mut begin_clean_up = |at: usize| {
            let uid = Some(Uid::from(&*at.to_string()));
            memories.change(uid.clone(), |memory| {
                memory.progress = Some(Progress::CleanUpBegun);
            });
            memories.retire(uid);
            memories.len()
        };
        assert_eq!(begin_clean_up(0), 1);
        for _retry in 0..=Memories::<()>::RETIRED {
            assert_eq!(begin_clean_up(1), 2);
        }
        for at in 2..Memories::<()>::RETIRED {
            assert_eq!(begin_clean_up(at), at + 1);
        }
        assert_eq!(begin_clean_up(1_000_000), Memories::<()>::RETIRED);
    }
}
