//! Methods of a controller for the level-triggered models of this crate.

mod adapter;

use std::sync::{Arc, Weak};

use windlass_informer::{ObjectKey, Stored};

pub(crate) use self::adapter::{EventFilter, LevelAdapter};

use super::{HandledAs, InformerController, Kind, Registration, Shared};
use crate::{
    AddError, Priority, Reasons, Reconciler, Role, event::AnyEvent, handler::ErasedHandler,
    route::KindId,
};

/// Recognizes the events that only show what a call of a level-triggered controller wrote.
pub(crate) trait OwnEvents: Send + Sync {
    /// Whether `event` of an object of another kind wakes `lane`, and is not the echo of a write of
    /// that lane.
    fn wakes(&self, lane: &ObjectKey, resource: &str, event: &AnyEvent, is_from_list: bool)
    -> bool;

    /// Whether `event` of the informer of `kind` is an update of a primary object that its lane may
    /// have written, and passes the filter: what that rejects causes no call in any case. Separate
    /// from [`is_own_write`](Self::is_own_write), which is called under a lock, because the filter can
    /// be code of the user.
    fn may_be_own_write(&self, kind: KindId, event: &AnyEvent) -> bool;

    /// Whether `event` of a primary object causes no call: it is an update that the call of its own
    /// lane wrote, or the end of the call in progress decides about it. A new generation, a changed
    /// content of a kind without generations, and a deletion mark are no echoes.
    fn is_own_write(&self, resource: &str, event: &AnyEvent, is_from_list: bool) -> bool;

    /// The failed call of `lane` is not repeated. Returns why the lane is called again, if events wait
    /// for the retry.
    fn not_repeated(&self, lane: &ObjectKey) -> Option<Reasons>;
}

// === impl InformerController ===

impl InformerController {
    /// Adds a handler with an erased type for a `K`.
    pub(crate) fn add_erased<K: Stored>(
        &self,
        kind: &Kind<K>,
        code: Box<dyn ErasedHandler>,
    ) -> Result<Registration, AddError> {
        self.add(kind.handle(), Role::Reconciler, code)
    }

    /// Sets the own writes, whose echoes wake no lane.
    pub(crate) fn track(&self, own: Arc<dyn OwnEvents>) {
        _ = self.shared.own_writes.set(own);
    }

    /// A weak reference, for code that the handlers of the controller hold.
    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }

    pub(crate) const fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Registers a level-triggered `reconciler` for `kind`, which gets the newest object of the
    /// stores instead of that of the event, also in retries and requeues. Requires
    /// [`level_triggered`](InformerControllerBuilder::level_triggered).
    ///
    /// If the stores have no object of this name and uid, it is only called for `Deleted`. Its
    /// predicates are not used.
    ///
    /// # Errors
    ///
    /// [`AddError`] like [`add_watcher`](Self::add_watcher).
    #[doc(hidden)]
    pub fn add_level_reconciler<S, T>(
        &self,
        kind: &Kind<S>,
        reconciler: impl Reconciler<T>,
    ) -> Result<Registration, AddError>
    where
        S: HandledAs<T>,
        T: Stored,
    {
        let stores = Arc::downgrade(&self.shared);
        let code = Box::new(LevelAdapter::<T, _>::new(stores, reconciler));
        self.add(kind.handle(), Role::Reconciler, code)
    }

    /// Queues a resync of each object of `kind` that is in a store and whose key is in `keys`, with
    /// its newest state: without the informer, so it can precede the `Created` of the object. Other
    /// keys are ignored. Returns the number of queued resyncs.
    #[doc(hidden)]
    pub fn wake<S>(
        &self,
        kind: &Kind<S>,
        keys: impl IntoIterator<Item = ObjectKey>,
        priority: Priority,
        reasons: Reasons,
    ) -> usize {
        let kind = self.own(kind);
        kind.map_or(0, |kind| self.shared.wake(kind, keys, priority, reasons))
    }

    /// [Wakes](Self::wake) all objects in the stores of `kind`.
    #[doc(hidden)]
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn wake_all<S>(&self, kind: &Kind<S>, priority: Priority, reasons: Reasons) -> usize {
        let kind = self.own(kind);
        kind.map_or(0, |kind| self.shared.wake_all(kind, priority, reasons))
    }
}
