//! One kind of a controller: its informers, its handlers and its mappers.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    HandlerId,
    handler::{ErasedMapper, Handler},
    merge::Merge,
    metrics::KindMetrics,
};

/// A compact id of a kind in a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KindId(pub(crate) u32);

/// A kind: its name, its handlers and its mappers.
pub(super) struct KindEntry {
    pub(super) name: Arc<str>,
    /// Whether other kinds do not wait for its informers.
    pub(super) optional: bool,
    /// Whether a [`Kind`](crate::Kind) handle exists.
    pub(super) has_handle: bool,
    /// The number of its informers.
    pub(super) informers: usize,
    /// Replaced when it changes: an active turn keeps the chain with which it began.
    pub(super) chain: Chain,
    /// Replaced when it changes.
    pub(super) mappers: Mappers,
    pub(super) metrics: Arc<KindMetrics>,
    pub(super) merge: Arc<Mutex<Merge>>,
    /// Whether its events are not queued, because it has no handlers and its gate is open.
    pub(super) unhandled: bool,
}

/// The handlers of a kind, in order.
pub(crate) type Chain = Arc<[Arc<Handler>]>;

/// The mappers of a kind.
pub(crate) type Mappers = Arc<[Arc<RegisteredMapper>]>;

/// A mapper and its target kind.
pub(crate) struct RegisteredMapper {
    pub(crate) id: HandlerId,
    pub(crate) to: KindId,
    pub(crate) code: Box<dyn ErasedMapper>,
}

/// The handlers and metrics of one kind.
pub(crate) struct KindSnapshot {
    pub(crate) chain: Chain,
    pub(crate) metrics: Arc<KindMetrics>,
}
