//! Permits for undispatched events, which count the queue of one informer.

use std::{num::NonZeroUsize, sync::Arc};

/// The number of undispatched events of one informer that are queued separately. Only one task takes
/// permits.
#[derive(Debug)]
pub(crate) struct EventBudget {
    limit: usize,
    /// Each permit is a reference to it.
    permits: Permit,
}

/// The permit of one queued event, returned when it is dropped. It takes eight bytes.
pub(crate) type Permit = Arc<()>;

// === impl EventBudget ===

impl EventBudget {
    pub(crate) fn new(limit: NonZeroUsize) -> Self {
        Self {
            limit: limit.get(),
            permits: Permit::default(),
        }
    }

    /// Takes a permit, if one is left.
    pub(crate) fn take(&self) -> Option<Permit> {
        // No other task takes permits meanwhile.
        (self.taken() < self.limit).then(|| Arc::clone(&self.permits))
    }

    /// The number of permits in use.
    pub(crate) fn taken(&self) -> usize {
        Arc::strong_count(&self.permits) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_can_be_taken_again_when_it_was_dropped() {
        let budget = EventBudget::new(NonZeroUsize::MIN);
        let permit = budget.take().expect("one");
        assert!(budget.take().is_none());
        assert_eq!(budget.taken(), 1);
        drop(permit);
        assert_eq!(budget.taken(), 0);
        assert!(budget.take().is_some());
    }
}
