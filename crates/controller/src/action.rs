//! Actions: created, updated, deleted, resynced.

use windlass_informer::Event;

/// The reason why a handler is called.
///
/// An object that is marked for deletion and still has finalizers is `Updated`; `Deleted` follows
/// when it no longer exists, or no longer matches the selector of the informer. The wrappers with
/// finalizers call their handler with `Deleted` while the object still exists.
///
/// grafana-app-sdk's `Unknown` does not exist: each call has an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Action {
    /// A new object, or at the start an object that already exists.
    Created,
    /// A changed object.
    Updated,
    /// A deleted object.
    Deleted,
    /// An object that has not changed since its last call, dispatched again. A resync has one of
    /// these causes:
    ///
    /// - periodic: the resync period of the informer
    ///   ([`InformerBuilder::resync`](windlass_informer::InformerBuilder::resync)) has passed;
    /// - requested: a [`Mapper`](crate::Mapper) returned the key of the object;
    /// - resumed: at the start, for an object that already has the finalizer of a wrapper.
    ///
    /// A handler cannot tell them apart: each means that the object may have to be reconciled
    /// although it has not changed.
    Resynced,
}

/// What an API server did to an object.
///
/// # Example
///
/// ```
/// use windlass_controller::{Action, ResourceAction};
///
/// assert_eq!(Action::from(ResourceAction::Create), Action::Created);
/// assert_eq!(Action::Deleted.resource_action(), Some(ResourceAction::Delete));
/// assert_eq!(Action::Resynced.resource_action(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceAction {
    /// It was created.
    Create,
    /// It was updated.
    Update,
    /// It was deleted.
    Delete,
}

// === impl Action ===

impl Action {
    pub(crate) const ALL: [Self; 4] = [Self::Created, Self::Updated, Self::Deleted, Self::Resynced];

    /// The action of `event`. `None` for [`Event::Synced`], which has no object.
    #[must_use]
    pub(crate) fn of<K: ?Sized>(event: &Event<K>) -> Option<Self> {
        match event {
            Event::Added(_) => Some(Self::Created),
            Event::Updated { .. } => Some(Self::Updated),
            Event::Deleted { .. } => Some(Self::Deleted),
            Event::Resynced(_) => Some(Self::Resynced),
            _ => None,
        }
    }

    /// What the API server did. `None` for [`Resynced`](Self::Resynced).
    #[must_use]
    pub const fn resource_action(self) -> Option<ResourceAction> {
        match self {
            Self::Created => Some(ResourceAction::Create),
            Self::Updated => Some(ResourceAction::Update),
            Self::Deleted => Some(ResourceAction::Delete),
            Self::Resynced => None,
        }
    }

    /// The value of the metric label `event_type`. It never changes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATE",
            Self::Updated => "UPDATE",
            Self::Deleted => "DELETE",
            Self::Resynced => "RESYNC",
        }
    }
}

impl From<ResourceAction> for Action {
    fn from(action: ResourceAction) -> Self {
        match action {
            ResourceAction::Create => Self::Created,
            ResourceAction::Update => Self::Updated,
            ResourceAction::Delete => Self::Deleted,
        }
    }
}

// === impl ResourceAction ===

impl ResourceAction {
    /// The name in grafana-app-sdk.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}
