//! Writes of this process that the informer does not show yet. *(pure)*
//!
//! The informer shows our own patches later. Until then the memory of an object knows more than
//! its events: its version says from when on the events know more than the memory.
//!
//! An entry lives from the first thing to remember until the informer shows it, or the object
//! is gone: there are as many entries as there are objects in the middle of something.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use windlass_informer::Uid;

/// What is remembered, by uid.
#[derive(Debug)]
pub(super) struct Memories<K> {
    entries: HashMap<Uid, Memory<K>>,

    /// Objects that were released, oldest first: of those outside of the selector no informer may
    /// ever show that they are gone.
    retired: VecDeque<Uid>,
}

/// What is remembered of one object.
#[derive(Debug)]
pub(super) struct Memory<K> {
    pub(super) progress: Option<Progress>,

    /// The version of the answer to our last patch, until the informer has shown it.
    pub(super) patched: Option<String>,

    /// The state that the inner handler got last, until the informer has shown it and the
    /// finalizer is written.
    pub(super) given: Option<Arc<K>>,

    /// A call of the inner handler that has not succeeded.
    pub(super) unfinished: Option<UnfinishedCall<K>>,
}

/// How far the work for one object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its add succeeded; the finalizer is not written.
    Added,
    /// Its add succeeded, and it has the finalizer.
    Held,
    /// It is marked for deletion, and its clean-up was begun.
    CleaningUp,
    /// Its clean-up succeeded; the finalizer is not removed.
    CleanedUp,
    /// Its clean-up succeeded, and it has no finalizer of ours.
    Released,
    /// It was marked for deletion, without a finalizer of ours, when it was first seen.
    Ignored,
    /// The server has it no more, and its clean-up succeeded: what an informer shows is older.
    Gone,
    /// It is marked for deletion on the server, and what the informer shows is older.
    Terminating,
    /// Its clean-up was begun, and then the server was restored from a backup.
    CleanUpReverted,
}

/// A call of the inner handler that was begun and has not succeeded: a newer event may have
/// replaced it, and that event alone may not look like one to make a call for.
#[derive(Debug)]
pub(super) enum UnfinishedCall<K> {
    /// An update from this state on.
    Update(Arc<K>),
    /// A resume.
    Resume,
}

/// Whether the inner handler has cleaned up after the object, or has begun to: if the object lives,
/// it is added again, whatever finalizer it has.
pub(super) const fn is_cleaned_up(progress: Option<Progress>) -> bool {
    matches!(
        progress,
        Some(Progress::CleanedUp | Progress::CleanUpReverted)
    )
}

// === impl Memories ===

impl<K> Memories<K> {
    /// How many objects that were released or are gone are remembered: as many as another informer
    /// may still show as they were.
    const RETIRED: usize = 1_000;

    /// Remembers the object until a thousand others have been released or are gone.
    pub(super) fn retire(&mut self, uid: Option<Uid>) {
        self.retired.extend(uid);
        if self.retired.len() > Self::RETIRED
            && let Some(oldest) = self.retired.pop_front()
            && let Some(memory) = self.entries.get(&oldest)
            && matches!(memory.progress, Some(Progress::Released | Progress::Gone))
        {
            self.entries.remove(&oldest);
        }
    }

    pub(super) fn get(&self, uid: Option<&Uid>) -> Option<&Memory<K>> {
        self.entries.get(uid?)
    }

    /// Changes what is remembered of one object. An entry that remembers nothing is removed.
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

    /// Forgets the object. Returns what was remembered, to be dropped where no lock is held.
    pub(super) fn forget(&mut self, uid: Option<&Uid>) -> Option<Memory<K>> {
        self.entries.remove(uid?)
    }

    /// Of how many objects something is remembered.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

// Not derived: that would require the same of `K`.
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
        }
    }
}

impl<K> Clone for UnfinishedCall<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Update(old) => Self::Update(Arc::clone(old)),
            Self::Resume => Self::Resume,
        }
    }
}
