//! What a worker knows of the kinds, so that it need not ask for each turn.

use std::sync::Arc;

use super::Shared;
use crate::{
    metrics::KindMetrics,
    route::{Chain, KindId},
};

/// Whom to tell and where to count, kind by kind, as it was when somebody last changed it.
#[derive(Default)]
pub(crate) struct Known {
    as_of: u64,
    /// By the number of the kind.
    kinds: Vec<KnownKind>,
}

/// Whom to tell, and where to count.
pub(crate) struct KnownKind {
    pub(crate) chain: Chain,
    pub(crate) metrics: Arc<KindMetrics>,
}

// === impl Known ===

impl Known {
    /// What is known of `kind`, after all that was changed before.
    pub(crate) fn of(&mut self, kind: KindId, shared: &Shared) -> &KnownKind {
        let changes = shared.changes();
        // The changes are counted from one, so that who knows nothing looks.
        if changes != self.as_of {
            self.as_of = changes;
            let route = shared.route.read();
            let kinds = shared.kinds.read();
            let kinds = (0..).zip(kinds.iter()).map(|(kind, metrics)| KnownKind {
                chain: route.chain(KindId(kind)),
                metrics: Arc::clone(metrics),
            });
            self.kinds = kinds.collect();
        }
        &self.kinds[kind.0 as usize]
    }
}
