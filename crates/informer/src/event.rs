//! Events: the changes of objects that an informer delivers.

use std::{fmt, sync::Arc};

use crate::{ErasedObject, LazyObject, ObjectKey, Stored};

/// A change of one object, or the end of a list.
///
/// # Contract
///
/// *Guaranteed.* For each object, a subscriber receives a subsequence of its states, in order, each
/// once. A delete that no watch showed is delivered when a list shows it, with the last known
/// state. A new uid under an existing name is delivered as `Deleted` and then `Added`. An object is
/// in the [`Store`](crate::Store) before its event is delivered.
///
/// *Not guaranteed.* Every state: states between two lists, or while the watch was interrupted, can
/// be missed.
///
/// Cloning an event clones references, not objects. `K` may be unsized, so that a controller can
/// queue events of several kinds as `Event<dyn ErasedObject>` without a second allocation.
#[non_exhaustive]
pub enum Event<K: ?Sized> {
    /// A new object. Before [`Synced`](Self::Synced) also each object of the first list.
    Added(Arc<K>),

    /// A changed object.
    Updated {
        /// The previous state, decoded at the first read. Most handlers do not read it.
        old: LazyObject<K>,
        /// The new state.
        new: Arc<K>,
    },

    /// A deleted object.
    Deleted {
        /// The last known state.
        last: Arc<K>,
        /// Whether only a list showed the delete, so that `last` may not be the final state.
        missed: bool,
    },

    /// An object that has not changed, delivered again because the resync period has passed or a
    /// subscriber has requested it.
    Resynced(Arc<K>),

    /// All objects of the first list have been delivered. Delivered again after each list that
    /// [`Informer::relist`](crate::Informer::relist) requested, and after the list that replaces
    /// the store because the history of the server went back.
    Synced,
}

// === impl Event ===

impl<K: ?Sized> Event<K> {
    /// The object in its newest state, or `None` for [`Synced`](Self::Synced).
    #[must_use]
    pub fn object(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(object) | Self::Resynced(object) => Some(object),
            Self::Updated { new, .. } => Some(new),
            Self::Deleted { last, .. } => Some(last),
            Self::Synced => None,
        }
    }

    /// The value of the metric label `event_type`. It never changes.
    #[doc(hidden)]
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Added(_) => "CREATE",
            Self::Updated { .. } => "UPDATE",
            Self::Deleted { .. } => "DELETE",
            Self::Resynced(_) => "RESYNC",
            Self::Synced => "SYNCED",
        }
    }

    /// Converts the newest state with `f`.
    pub(crate) fn map<T: ?Sized>(self, f: impl FnOnce(Arc<K>) -> Arc<T>) -> Event<T> {
        match self {
            Self::Added(object) => Event::Added(f(object)),
            Self::Updated { old, new } => Event::Updated {
                old: LazyObject::from_erased(old.into_erased()),
                new: f(new),
            },
            Self::Deleted { last, missed } => Event::Deleted {
                last: f(last),
                missed,
            },
            Self::Resynced(object) => Event::Resynced(f(object)),
            Self::Synced => Event::Synced,
        }
    }
}

impl Event<dyn ErasedObject> {
    /// Drops the decoded form of the newest state, which is decoded again when it is needed: see
    /// [`ErasedObject`].
    #[doc(hidden)]
    pub fn release_decoded(&self) {
        if let Some(object) = self.object() {
            object.release_decoded();
        }
    }
}

impl<K: ?Sized> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(Arc::clone(object)),
            Self::Updated { old, new } => Self::Updated {
                old: old.clone(),
                new: Arc::clone(new),
            },
            Self::Deleted { last, missed } => Self::Deleted {
                last: Arc::clone(last),
                missed: *missed,
            },
            Self::Resynced(object) => Self::Resynced(Arc::clone(object)),
            Self::Synced => Self::Synced,
        }
    }
}

/// Shows the event type and the key, and never the content, which may be secret.
impl<K: Stored> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object() {
            Some(object) => write!(f, "{} {}", self.action(), ObjectKey::of(&**object)),
            None => f.write_str(self.action()),
        }
    }
}
