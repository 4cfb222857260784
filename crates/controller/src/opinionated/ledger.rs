//! What this process has done for an object that the object does not show yet *(pure)*.
//!
//! An informer tells of our own patches later. Until it does, the ledger knows better than
//! the object that is told: so that an echo is no news, and what has succeeded is not done
//! again. It also knows which call has not succeeded yet: a new event may have replaced it,
//! and that event alone may not look like one to make a call for.
//!
//! An object is in it from the first thing to remember until the object shows it, or is gone:
//! there are as many entries as there are objects in the middle of something.

use std::{collections::HashMap, sync::Arc};

use windlass_informer::Uid;

/// What is known of each object.
#[derive(Debug)]
pub(super) struct Ledger<K> {
    progress: HashMap<Uid, Progress>,
    behind: HashMap<Uid, Behind<K>>,
}

/// How far one object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has been added; the finalizer is owed.
    Added {
        /// Whether the handler is owed a call, whatever happens.
        again: bool,
    },
    /// It has been added, and has the finalizer.
    Held {
        /// Whether the handler is owed a call, whatever happens.
        again: bool,
    },
    /// It has been cleaned up after; the finalizer is to go.
    Cleaned,
    /// It has been cleaned up after, and has no finalizer of ours.
    Released,
}

/// Which call has been begun, and has not succeeded.
#[derive(Debug)]
pub(super) enum Behind<K> {
    /// Of an update, from this state on.
    Update(Arc<K>),
    /// Of a resume.
    Resume,
}

// === impl Ledger ===

impl<K> Ledger<K> {
    pub(super) fn progress(&self, uid: Option<&Uid>) -> Option<Progress> {
        self.progress.get(uid?).copied()
    }

    pub(super) fn note(&mut self, uid: Option<Uid>, progress: Progress) {
        if let Some(uid) = uid {
            self.progress.insert(uid, progress);
        }
    }

    /// Forgets how far the object is: it shows it, or is gone.
    pub(super) fn take_progress(&mut self, uid: Option<&Uid>) -> Option<Progress> {
        self.progress.remove(uid?)
    }

    pub(super) fn behind(&self, uid: Option<&Uid>) -> Option<Behind<K>> {
        self.behind.get(uid?).cloned()
    }

    pub(super) fn begin(&mut self, uid: Option<Uid>, behind: Behind<K>) {
        if let Some(uid) = uid {
            self.behind.insert(uid, behind);
        }
    }

    pub(super) fn catch_up(&mut self, uid: Option<&Uid>) {
        if let Some(uid) = uid {
            self.behind.remove(uid);
        }
    }

    /// How many objects it remembers something of.
    pub(super) fn len(&self) -> usize {
        self.progress.len() + self.behind.len()
    }
}

// Not derived: that would ask the same of `K`.
impl<K> Default for Ledger<K> {
    fn default() -> Self {
        Self {
            progress: HashMap::new(),
            behind: HashMap::new(),
        }
    }
}

impl<K> Clone for Behind<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Update(old) => Self::Update(Arc::clone(old)),
            Self::Resume => Self::Resume,
        }
    }
}
