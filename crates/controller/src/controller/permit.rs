//! The bound of the queue of one informer: so many permits, one for each undispatched event.

use std::{num::NonZeroUsize, sync::Arc};

use tokio::sync::Notify;

// From the parent module, not the crate: the model test has other types in their places.
use super::sync::{AtomicUsize, Ordering};

/// How many more events may be queued. The events of one informer come from one task, which
/// alone takes permits.
#[derive(Debug)]
pub(crate) struct EventBudget {
    events: usize,
    free: AtomicUsize,
    /// Notified when there are some again.
    freed: Notify,
}

/// The permit for one queued event, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<EventBudget>);

/// Permits for several events, given back when they are dropped.
#[derive(Debug)]
pub(crate) struct Permits {
    budget: Arc<EventBudget>,
    left: usize,
}

// === impl EventBudget ===

impl EventBudget {
    pub(crate) fn new(events: NonZeroUsize) -> Arc<Self> {
        Arc::new(Self {
            events: events.get(),
            free: AtomicUsize::new(events.get()),
            freed: Notify::new(),
        })
    }

    /// Takes the permits that there are, up to `most`.
    pub(crate) fn try_take(self: &Arc<Self>, most: usize) -> Permits {
        // Only one task takes, so what is there stays there.
        let left = self.free.load(Ordering::Acquire).min(most);
        if left > 0 {
            self.free.fetch_sub(left, Ordering::AcqRel);
        }
        let budget = Arc::clone(self);
        Permits { budget, left }
    }

    /// Waits for a permit, and takes what there are, up to `most`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing.
    pub(crate) async fn take(self: &Arc<Self>, most: NonZeroUsize) -> Permits {
        loop {
            let permits = self.try_take(most.get());
            if permits.left > 0 {
                return permits;
            }
            self.freed.notified().await;
        }
    }

    /// How many permits are taken.
    pub(crate) fn taken(&self) -> usize {
        self.events - self.free.load(Ordering::Relaxed)
    }

    fn give_back(&self, events: usize) {
        // A task waits only where there was none.
        if self.free.fetch_add(events, Ordering::AcqRel) == 0 {
            self.freed.notify_one();
        }
    }
}

// === impl Permits ===

impl Permits {
    /// For how many events there are permits.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// The permit for one of them, if there is one.
    pub(crate) fn one(&mut self) -> Option<Permit> {
        self.left = self.left.checked_sub(1)?;
        Some(Permit(Arc::clone(&self.budget)))
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        if self.left > 0 {
            self.budget.give_back(self.left);
        }
    }
}

// === impl Permit ===

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}
