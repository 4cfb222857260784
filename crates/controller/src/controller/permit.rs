//! Permits for undispatched events, which count the queue of one informer.
//!
//! Why not tokio's `Semaphore`: its owned permit takes 16 bytes in each queued event instead of eight,
//! and locks a mutex when it is dropped.

use std::{num::NonZeroUsize, sync::Arc};

// From the parent module, not the crate: the model test replaces them.
use super::sync::{AtomicUsize, Ordering};

/// The permits for the events of one informer. Only one task takes permits.
#[derive(Debug)]
pub(crate) struct EventBudget {
    /// The number of all permits.
    events: usize,
    /// The number of permits that are not in use.
    free: AtomicUsize,
}

/// The permit of one queued event. Dropping it returns it to the budget.
#[derive(Debug)]
pub(crate) struct Permit(Arc<EventBudget>);

/// Permits for several events. Dropping it returns the permits that were not used to the budget.
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
        })
    }

    /// Takes the free permits, at most `most`.
    pub(crate) fn take(self: &Arc<Self>, most: usize) -> Permits {
        // Only one task takes permits, so the free ones stay free.
        let left = self.free.load(Ordering::Acquire).min(most);
        self.free.fetch_sub(left, Ordering::AcqRel);
        let budget = Arc::clone(self);
        Permits { budget, left }
    }

    /// The number of permits in use.
    pub(crate) fn taken(&self) -> usize {
        self.events - self.free.load(Ordering::Relaxed)
    }

    fn release(&self, events: usize) {
        self.free.fetch_add(events, Ordering::AcqRel);
    }
}

// === impl Permits ===

impl Permits {
    /// Takes one permit, if there is one.
    pub(crate) fn one(&mut self) -> Option<Permit> {
        self.left = self.left.checked_sub(1)?;
        Some(Permit(Arc::clone(&self.budget)))
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        if self.left > 0 {
            self.budget.release(self.left);
        }
    }
}

// === impl Permit ===

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.release(1);
    }
}
