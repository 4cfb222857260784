//! What this process has done for an object that the object does not show yet *(pure)*.
//!
//! An informer tells of our own patches later. Until it does, the ledger knows better than
//! the object that is told: so that an echo is no news, and what has succeeded is not done
//! again. It knows an object from its first success until the object shows it, or is gone.

use std::collections::HashMap;

use windlass_informer::Uid;

/// How far each object is.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: HashMap<Uid, Progress>,
}

/// How far one object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has been added; the finalizer is owed.
    Added {
        /// Whether the handler wants to be called again.
        again: bool,
    },
    /// It has been added, and has the finalizer.
    Held {
        /// Whether the handler wants to be called again.
        again: bool,
    },
    /// It has been cleaned up after; the finalizer is to go.
    Cleaned,
    /// It has been cleaned up after, and has no finalizer of ours.
    Released,
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn get(&self, uid: Option<&Uid>) -> Option<Progress> {
        self.entries.get(uid?).copied()
    }

    pub(super) fn note(&mut self, uid: Option<Uid>, progress: Progress) {
        if let Some(uid) = uid {
            self.entries.insert(uid, progress);
        }
    }

    /// Forgets the object: it shows what was done, or is gone.
    pub(super) fn take(&mut self, uid: Option<&Uid>) -> Option<Progress> {
        self.entries.remove(uid?)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
