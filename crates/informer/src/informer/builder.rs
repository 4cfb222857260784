//! What an informer is made of.

use std::{fmt, hash::Hash, num::NonZeroUsize, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Informer, InformerId, Shared, run::ErasedSource};
use crate::{
    Index, Problem, Source, Store, Stored,
    health::Pulse,
    metrics::Instruments,
    problem::{ErrorHandler, log},
    store::{Indexed, Table},
    subscription::Subscribers,
};

/// An informer in the making.
#[must_use = "nothing is made before `build`"]
pub struct InformerBuilder<K: Stored> {
    resource: Arc<str>,
    source: Box<dyn ErasedSource<K>>,
    indexes: Vec<Box<dyn Indexed<K>>>,
    settings: Settings,
}

pub(super) struct Settings {
    /// Off by default: whatever changes is told, and what does not change needs no telling.
    pub(super) resync: Option<Duration>,
    pub(super) buffer: NonZeroUsize,
    pub(super) on_error: ErrorHandler,
}

// === impl InformerBuilder ===

impl<K: Stored> InformerBuilder<K> {
    /// Enough that a handler which keeps up never makes the watch wait.
    pub const DEFAULT_BUFFER: NonZeroUsize = NonZeroUsize::new(256).unwrap();

    pub(super) fn new(source: impl Source<K>) -> Self {
        Self {
            resource: Arc::from(source.resource()),
            source: Box::new(source),
            indexes: Vec::new(),
            settings: Settings {
                resync: None,
                buffer: Self::DEFAULT_BUFFER,
                on_error: Arc::new(log),
            },
        }
    }

    /// Keeps `index` current, so that [`Store::by`] can read by it.
    pub fn index<V>(mut self, index: &Index<K, V>) -> Self
    where
        V: Clone + Eq + Hash + Send + Sync + 'static,
    {
        self.indexes.push(Box::new(Table::new(index.clone())));
        self
    }

    /// Tells each object again once in `period`, spread over it, as
    /// [`Resynced`](crate::Event::Resynced), decoded for that if it is not. The default is never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.settings.resync = (!period.is_zero()).then_some(period);
        self
    }

    /// How many events may wait for each subscriber before the watch waits too. The default
    /// is 256.
    pub fn buffer(mut self, events: NonZeroUsize) -> Self {
        self.settings.buffer = events;
        self
    }

    /// Calls `handler` with whatever goes wrong, instead of logging it.
    pub fn on_error(mut self, handler: impl Fn(&Problem<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Arc::new(handler);
        self
    }

    /// Makes the informer.
    #[must_use]
    pub fn build(self) -> Informer<K> {
        Informer {
            shared: Arc::new(Shared {
                id: InformerId::next(),
                resource: self.resource,
                store: Store::new(self.indexes),
                subscribers: Subscribers::new(),
                pulse: watch::Sender::new(Pulse::new()),
                instruments: Instruments::new(),
                settings: self.settings,
                source: Mutex::new(Some(self.source)),
            }),
        }
    }
}

impl<K: Stored> fmt::Debug for InformerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder")
            .field("resource", &self.resource)
            .field("resync", &self.settings.resync)
            .field("buffer", &self.settings.buffer)
            .finish_non_exhaustive()
    }
}
