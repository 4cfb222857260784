//! The number of subscriptions of an informer.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The number of live subscriptions. Without subscriptions the informer skips work.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubscriberCount(Arc<AtomicUsize>);

/// Counts one live subscription until it is dropped.
#[derive(Debug)]
pub(super) struct SubscriberToken(SubscriberCount);

// === impl SubscriberCount ===

impl SubscriberCount {
    /// Whether there is at least one subscription.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    pub(super) fn count_one(&self) -> SubscriberToken {
        self.0.fetch_add(1, Ordering::Relaxed);
        SubscriberToken(self.clone())
    }
}

// === impl SubscriberToken ===

impl Drop for SubscriberToken {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
