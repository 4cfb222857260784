//! Actions: created, updated, deleted, resynced.

use windlass_informer::Event;

/// What a handler is called for.
///
/// An object that is marked for deletion and still has finalizers is `Updated`; `Deleted` is
/// said when it is really gone. `Created` is also said at the start, for each object that is
/// there already.
///
/// grafana-app-sdk's `Unknown` does not exist here: a handler is never called for no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Action {
    /// An object that was not known before.
    Created,
    /// An object that differs from what was known.
    Updated,
    /// An object that is gone.
    Deleted,
    /// An object that has not changed, told again.
    Resynced,
}

/// What an API server can do to an object.
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
    /// It came into being.
    Create,
    /// It changed.
    Update,
    /// It went away.
    Delete,
}

// === impl Action ===

impl Action {
    pub(crate) const ALL: [Self; 4] = [Self::Created, Self::Updated, Self::Deleted, Self::Resynced];

    /// What `event` calls handlers for; none for [`Event::Synced`], which is about no object.
    #[must_use]
    pub fn of<K: ?Sized>(event: &Event<K>) -> Option<Self> {
        match event {
            Event::Added(_) => Some(Self::Created),
            Event::Updated { .. } => Some(Self::Updated),
            Event::Deleted { .. } => Some(Self::Deleted),
            Event::Resynced(_) => Some(Self::Resynced),
            _ => None,
        }
    }

    /// What the API server did; none for [`Resynced`](Self::Resynced), as it did nothing.
    #[must_use]
    pub const fn resource_action(self) -> Option<ResourceAction> {
        match self {
            Self::Created => Some(ResourceAction::Create),
            Self::Updated => Some(ResourceAction::Update),
            Self::Deleted => Some(ResourceAction::Delete),
            Self::Resynced => None,
        }
    }

    /// One stable word for it: the `event_type` label of metrics.
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
    /// The word that grafana-app-sdk has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}
