//! The routes as one worker last read them, so that a turn takes no lock for them.

use std::sync::Arc;

use hashbrown::HashMap;

use super::Shared;
use crate::{
    metrics::KindMetrics,
    route::{Chain, KindId},
};

/// The handlers and metrics of each kind, as of the last change.
#[derive(Default)]
pub(crate) struct RouteSnapshot {
    as_of: u64,
    /// Looked up once a turn: this hash takes a tenth of what that of the standard library does.
    kinds: HashMap<KindId, KindSnapshot>,
}

/// The handlers and metrics of one kind.
pub(crate) struct KindSnapshot {
    pub(crate) chain: Chain,
    pub(crate) metrics: Arc<KindMetrics>,
}

// === impl RouteSnapshot ===

impl RouteSnapshot {
    /// Drops what was read, unless it is as of the last change.
    pub(crate) fn drop_outdated(&mut self, shared: &Shared) {
        if self.as_of != shared.changes() {
            *self = Self::default();
        }
    }

    /// `kind` with all changes that were made before this call; none if it was removed.
    pub(crate) fn of(&mut self, kind: KindId, shared: &Shared) -> Option<&KindSnapshot> {
        let changes = shared.changes();
        // Changes are counted from one, so that an empty snapshot is out of date.
        if changes != self.as_of {
            self.as_of = changes;
            self.kinds = shared.route.read().snapshot().collect();
        }
        self.kinds.get(&kind)
    }
}
