//! The state of one informer of a controller, for health pages and diagnostics.

use std::sync::Arc;

use windlass_informer::{Diagnostics, Health};

/// The state of one informer of a controller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerHealth {
    /// The name of the kind.
    pub kind: Arc<str>,
    /// The health of its watch.
    pub watch: Health,
    /// Whether all events of its first list are in the queue of the controller.
    pub has_synced: bool,
    /// Whether its kind is [optional](crate::InformerController::optional_kind): the resource may be
    /// missing.
    pub is_optional: bool,
}

/// What one informer of a controller has done so far.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerDiagnostics {
    /// The name of the kind.
    pub kind: Arc<str>,
    /// What the informer has done, and a checksum of its store.
    pub informer: Diagnostics,
}
