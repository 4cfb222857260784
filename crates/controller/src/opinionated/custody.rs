//! The finalizer of a wrapper, and what the wrapper remembers of each object.

use std::{fmt, sync::Arc};

use kube::Resource;
use parking_lot::Mutex;
use windlass_informer::{ObjectKey, Uid};

use super::{
    leaving::Leaving,
    ledger::{Behind, Ledger, Progress},
    rule::Sight,
};
use crate::{
    FinalizerError, Finalizers,
    finalizer::{Goal, Settled, Standing},
};

/// What both wrappers share.
pub(super) struct Custody<K> {
    pub(super) finalizers: Finalizers<K>,
    pub(super) leaving: Leaving,
    ledger: Mutex<Ledger<K>>,
}

/// What became of an object that is told to be gone.
#[derive(Debug)]
pub(super) enum Fate<K> {
    /// It is gone.
    Gone,
    /// It is there, out of our sight, and no concern of ours.
    Free,
    /// It is there, out of our sight, marked for deletion, and we hold it.
    Dying(Arc<K>),
    /// It is there, out of our sight, and we hold it.
    Left(Arc<K>),
}

// === impl Custody ===

impl<K: Resource + Send + Sync + 'static> Custody<K> {
    pub(super) fn new(finalizers: Finalizers<K>) -> Self {
        Self {
            finalizers,
            leaving: Leaving::default(),
            ledger: Mutex::default(),
        }
    }

    pub(super) fn sight(&self, object: &K) -> Sight {
        Sight {
            standing: self.finalizers.standing(object),
            dying: object.meta().deletion_timestamp.is_some(),
        }
    }

    pub(super) fn progress(&self, object: &K) -> Option<Progress> {
        self.ledger.lock().progress(Uid::of(object).as_ref())
    }

    pub(super) fn note(&self, object: &K, progress: Progress) {
        self.ledger.lock().note(Uid::of(object), progress);
    }

    pub(super) fn take_progress(&self, object: &K) -> Option<Progress> {
        self.ledger.lock().take_progress(Uid::of(object).as_ref())
    }

    pub(super) fn behind(&self, object: &K) -> Option<Behind<K>> {
        self.ledger.lock().behind(Uid::of(object).as_ref())
    }

    /// A call begins, that is to be made up for if it does not succeed.
    pub(super) fn begin(&self, object: &K, behind: Behind<K>) {
        self.ledger.lock().begin(Uid::of(object), behind);
    }

    pub(super) fn catch_up(&self, object: &K) {
        self.ledger.lock().catch_up(Uid::of(object).as_ref());
    }

    /// Has the in-progress finalizer hold `object` at least. None if it is not to be added:
    /// it is on its way out, or gone.
    pub(super) async fn guard(&self, object: &Arc<K>) -> Result<Option<Arc<K>>, FinalizerError> {
        Ok(match self.finalizers.settle(Goal::Guard, object).await? {
            Settled::Reached(object) => Some(object),
            Settled::Dying | Settled::Gone => None,
        })
    }

    /// Has the finalizer hold `object`, and nothing else of ours. None if it is on its way out:
    /// then what holds it goes on doing so, and an event will tell.
    pub(super) async fn hold(&self, object: &Arc<K>) -> Result<Option<Arc<K>>, FinalizerError> {
        Ok(match self.finalizers.settle(Goal::Hold, object).await? {
            Settled::Reached(object) => Some(object),
            Settled::Dying | Settled::Gone => None,
        })
    }

    /// Lets `object` go, which has been cleaned up after.
    pub(super) async fn release(&self, object: &Arc<K>) -> Result<(), FinalizerError> {
        self.finalizers.settle(Goal::Release, object).await?;
        self.note(object, Progress::Released);
        Ok(())
    }

    /// Lets `object` go, which lives on without us.
    pub(super) async fn part(&self, object: &Arc<K>) -> Result<(), FinalizerError> {
        self.finalizers.settle(Goal::Release, object).await?;
        tracing::warn!(
            component = "Finalizers",
            key = %ObjectKey::of(&**object),
            finalizer = %self.finalizers.name(),
            "an object left the selector, and its finalizer was removed"
        );
        Ok(())
    }

    /// Says that an object has left the selector, and that nothing was done about it.
    pub(super) fn report(&self, object: &K) {
        tracing::error!(
            component = "Finalizers",
            key = %ObjectKey::of(object),
            finalizer = %self.finalizers.name(),
            "an object left the selector with our finalizer, which will keep it from being deleted"
        );
    }

    /// Finds out what became of an object whose last known state is `last`.
    pub(super) async fn fate(&self, last: &Arc<K>) -> Result<Fate<K>, FinalizerError> {
        let Some(live) = self.finalizers.find(last).await? else {
            return Ok(Fate::Gone);
        };
        Ok(match self.sight(&live) {
            Sight {
                standing: Standing::Free,
                ..
            } => Fate::Free,
            Sight { dying: true, .. } => Fate::Dying(live),
            Sight { dying: false, .. } => Fate::Left(live),
        })
    }
}

impl<K> fmt::Debug for Custody<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custody")
            .field("finalizers", &self.finalizers)
            .field("leaving", &self.leaving)
            .field("remembered", &self.ledger.lock().len())
            .finish()
    }
}
