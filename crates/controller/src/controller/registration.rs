//! `Registration`: one watcher, reconciler or mapper of a controller, for its removal.

use std::{fmt, sync::Weak};

use super::shared::Shared;
use crate::{HandlerId, Role, route::KindId};

/// A watcher, reconciler or mapper that was added to a controller.
///
/// It removes the handler only by [`remove`](Self::remove), not when it is dropped.
#[derive(Clone)]
pub struct Registration {
    controller: Weak<Shared>,
    kind: KindId,
    role: Role,
    id: HandlerId,
}

// === impl Registration ===

impl Registration {
    pub(super) const fn new(
        controller: Weak<Shared>,
        kind: KindId,
        role: Role,
        id: HandlerId,
    ) -> Self {
        Self {
            controller,
            kind,
            role,
            id,
        }
    }

    /// Removes the handler and its pending calls. Returns whether it was not removed before. An
    /// active call ends normally. Resyncs that a mapper has requested are still dispatched.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn remove(&self) -> bool {
        let Some(controller) = self.controller.upgrade() else {
            return false;
        };
        let removed = match self.role {
            Role::Mapper => controller.remove_mappers(self.kind, Some(self.id)),
            role => controller.remove(self.kind, role, Some(self.id)),
        };
        removed > 0
    }

    /// The id, which dead letters and error reports name.
    #[must_use]
    pub const fn id(&self) -> HandlerId {
        self.id
    }

    /// Whether it is a watcher, a reconciler or a mapper.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("role", &self.role)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
