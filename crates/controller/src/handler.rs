//! The watchers, reconcilers and mappers of a controller, with erased types.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::future::BoxFuture;
use windlass_informer::{DecodeError, ObjectKey};

use crate::{
    ErasedObject, Failure, Outcome, event::AnyEvent, finalizer::FinalizerIdentity, reconciler::Call,
};

/// The id of a watcher, reconciler or mapper of a controller,
/// as [`Registration::id`](crate::Registration::id) returns it.
///
/// Never reused after the handler was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub(crate) u64);

/// The type of a handler or mapper. Watchers precede reconcilers in a chain; mappers are in no
/// chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A [`Watcher`](crate::Watcher).
    Watcher,
    /// A [`Reconciler`](crate::Reconciler).
    Reconciler,
    /// A [`Mapper`](crate::Mapper).
    Mapper,
}

/// A watcher or reconciler of a chain.
pub(crate) struct Handler {
    pub(crate) id: HandlerId,
    pub(crate) role: Role,
    pub(crate) code: Box<dyn ErasedHandler>,
    removed: AtomicBool,
}

/// A watcher or reconciler, with erased types.
pub(crate) trait ErasedHandler: Send + Sync {
    /// Calls the handler. User code runs only when the future is polled, so that a panic before the
    /// first `await` is caught too.
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Failure>>;

    /// The type of the user code, as Rust names it.
    fn type_name(&self) -> &'static str;

    /// Whether its predicates accept `event`. Also shows the event to a finalizer wrapper in the
    /// handler, which notes it. Called once for each event, and once more for a coalesced resync.
    fn wants(&self, event: &AnyEvent) -> bool;

    /// The finalizer of the handler, if it has one.
    fn finalizer(&self) -> Option<&FinalizerIdentity>;
}

/// A mapper, with erased types.
pub(crate) trait ErasedMapper: Send + Sync {
    /// The keys for a new state.
    fn keys(&self, object: &Arc<dyn ErasedObject>) -> Result<Vec<ObjectKey>, DecodeError>;

    /// The keys for an old state.
    fn keys_before(&self, old: &Arc<dyn ErasedObject>) -> Result<Vec<ObjectKey>, DecodeError>;

    /// The type of the user code, as Rust names it.
    fn type_name(&self) -> &'static str;

    /// Whether its predicates accept `event`.
    fn wants(&self, event: &AnyEvent) -> bool;
}

// === impl HandlerId ===

impl fmt::Display for HandlerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Role ===

impl Role {
    /// A stable identifier of the role.
    #[doc(hidden)]
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Watcher => "watcher",
            Self::Reconciler => "reconciler",
            Self::Mapper => "mapper",
        }
    }
}

// === impl Handler ===

impl Handler {
    pub(crate) const fn new(id: HandlerId, role: Role, code: Box<dyn ErasedHandler>) -> Self {
        Self {
            id,
            role,
            code,
            removed: AtomicBool::new(false),
        }
    }

    /// Marks it as removed, for workers that have read the chain before.
    pub(crate) fn remove(&self) {
        self.removed.store(true, Ordering::Release);
    }

    /// The position in the chain, which never changes.
    pub(crate) const fn position(&self) -> (Role, HandlerId) {
        (self.role, self.id)
    }

    /// Whether it was removed after the chain was read.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }
}
