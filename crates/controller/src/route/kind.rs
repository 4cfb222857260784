//! One kind of a controller: the type of its objects, its informers, its handlers and its mappers.

use std::{any::TypeId, sync::Arc};

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

/// A kind: its name, the type of its objects, its handlers and mappers.
pub(super) struct Kind {
    pub(super) name: Arc<str>,
    pub(super) of: ObjectType,
    /// The stored form of each of its informers.
    pub(super) informers: Vec<ObjectType>,
    /// The stored form that a handler requires, if it is not the decoded one.
    pub(super) handler_form: Option<ObjectType>,
    /// Replaced when it changes: an active turn keeps the chain with which it began.
    pub(super) chain: Chain,
    /// Replaced when it changes.
    pub(super) mappers: Mappers,
    pub(super) metrics: Arc<KindMetrics>,
    pub(super) merge: Arc<Mutex<Merge>>,
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

/// The type of a kind's objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectType {
    pub(super) id: TypeId,
    pub(super) name: &'static str,
}

/// What uses a stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormUser {
    /// An informer, which keeps objects in this form.
    Informer,
    /// A handler or mapper, which takes objects in this form.
    Handler,
}

/// The handlers and metrics of one kind.
pub(crate) struct KindSnapshot {
    pub(crate) chain: Chain,
    pub(crate) metrics: Arc<KindMetrics>,
}

// === impl Kind ===

impl Kind {
    /// Forgets the required form when the last handler and mapper were removed.
    pub(super) fn forget_form(&mut self) {
        if self.chain.is_empty() && self.mappers.is_empty() {
            self.handler_form = None;
        }
    }
}

// === impl ObjectType ===

impl ObjectType {
    pub(crate) fn of<K: 'static>() -> Self {
        Self {
            id: TypeId::of::<K>(),
            name: std::any::type_name::<K>(),
        }
    }
}
