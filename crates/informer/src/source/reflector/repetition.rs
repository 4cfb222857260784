//! Detects lists without an end. *(pure)*

use std::collections::HashSet;

/// Detects an endless list: one that shows no new object for a long time.
#[derive(Debug, Default)]
pub(super) struct RepetitionCheck {
    /// How many objects that decode the list had shown at the last check.
    pub(super) shown: usize,

    /// The highest number of objects that did not decode, of all checks.
    pub(super) most_undecodable: usize,

    /// The hashes of the uids of other shards that the list has shown.
    pub(super) dropped: HashSet<u64>,

    /// Objects that were received since a check found a new one.
    pub(super) received: usize,

    /// Whether a check during the current page found a new object.
    pub(super) is_page_new: bool,
}

// === impl RepetitionCheck ===

impl RepetitionCheck {
    /// Objects in a row without a new one before a list counts as endless. Far more than those that
    /// wait to be decoded or stored, which do not count as shown yet. One core decodes them in less
    /// than a second if they are Pods.
    pub(super) const MAX_REPEATED: usize = 10_000;

    /// Returns whether the list has shown a new object since the last check.
    pub(super) fn check(&mut self, shown: usize, undecodable: usize) -> bool {
        // The second number can go down: an object that did not decode may decode later.
        let is_new = shown != self.shown || undecodable > self.most_undecodable;
        self.shown = shown;
        self.most_undecodable = self.most_undecodable.max(undecodable);
        if is_new {
            self.received = 0;
            self.is_page_new = true;
        }
        is_new
    }
}
