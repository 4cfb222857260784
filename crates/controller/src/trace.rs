//! The spans of controllers. All names stand in this file.

use tracing::{Span, info_span};
use windlass_informer::ObjectKey;

use crate::{Action, HandlerId, route::Role};

/// One event being told to all its handlers.
pub(crate) fn event(kind: &str, key: &ObjectKey, action: Action) -> Span {
    match action {
        Action::Created => info_span!("controller-event-add", kind, object = %key),
        Action::Updated => info_span!("controller-event-update", kind, object = %key),
        Action::Deleted => info_span!("controller-event-delete", kind, object = %key),
        Action::Resynced => info_span!("controller-event-resync", kind, object = %key),
    }
}

/// One call being made again.
pub(crate) fn retry(kind: &str, key: &ObjectKey, action: Action, attempt: u32) -> Span {
    let action = action.as_str();
    info_span!("controller-retry", kind, object = %key, action, attempt)
}

/// One handler being called.
pub(crate) fn handler(role: Role, id: HandlerId) -> Span {
    match role {
        Role::Watcher => info_span!("watcher", handler = %id),
        Role::Reconciler => info_span!("reconciler", handler = %id),
    }
}
