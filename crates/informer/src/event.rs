//! Events: what happened to an object, as handlers receive it.

use std::{fmt, sync::Arc};

use crate::{LazyObject, ObjectKey, Stored};

/// What happened to one object, or to the whole picture.
///
/// # Contract
///
/// *Guaranteed.* For each object, a handler sees a subsequence of its states, in order, each
/// once. A delete that no watch showed is reported, with the last known state. A
/// new uid under an old name is reported as `Deleted` and then `Added`. Nothing is reported before
/// it is in the [`Store`](crate::Store).
///
/// *Not guaranteed.* That every state is seen: states that came and went between two looks
/// are not.
///
/// Cloning one clones no object. `K` may be unsized, so that an engine can carry events of
/// many kinds as `Event<dyn Any + Send + Sync>` without a second allocation.
#[non_exhaustive]
pub enum Event<K: ?Sized> {
    /// An object that was not there before; until [`Synced`](Self::Synced), one of the first
    /// list.
    Added(Arc<K>),

    /// An object that was there before, and differs.
    Updated {
        /// The last state that was reported, decoded at the first read: most handlers never read
        /// it.
        old: LazyObject<K>,
        /// As it is now.
        new: Arc<K>,
    },

    /// An object that is gone.
    Deleted {
        /// Its last known state.
        last: Arc<K>,
        /// Whether the delete itself was missed (a list no longer had the object), so that
        /// `last` may not be its final state.
        missed: bool,
    },

    /// An object that has not changed, told again because the resync period is over.
    Resynced(Arc<K>),

    /// Everything that was there at the start has been delivered. Delivered again after each list
    /// that [`Informer::relist`](crate::Informer::relist) requested.
    Synced,
}

// === impl Event ===

impl<K: ?Sized> Event<K> {
    /// The object that the event is about, in its newest state; none for
    /// [`Synced`](Self::Synced).
    #[must_use]
    pub fn object(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(object) | Self::Resynced(object) => Some(object),
            Self::Updated { new, .. } => Some(new),
            Self::Deleted { last, .. } => Some(last),
            Self::Synced => None,
        }
    }

    /// One stable word for what happened: the `event_type` label of metrics.
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

    /// The same event about the object that `f` makes of its newest state.
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

/// Shows the event's type and the object's key, and never the object's content, which may be
/// secret.
impl<K: Stored> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object() {
            Some(object) => write!(f, "{} {}", self.action(), ObjectKey::of(&**object)),
            None => f.write_str(self.action()),
        }
    }
}
