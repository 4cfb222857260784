//! The builder and the settings of an informer.

use std::{fmt, hash::Hash, num::NonZeroUsize, sync::Arc, time::Duration};

use tokio::sync::{Mutex, Notify, watch};

use super::{
    Informer, InformerId, Shared,
    run::{ErasedSource, SourceAndWriter},
    shared_run::SharedRun,
};
use crate::{
    Index, Problem, Source, Store, Stored, Trim,
    metrics::Instruments,
    problem::{ErrorHandler, log},
    store::{ErasedIndexTable, IndexTable, Writer},
    subscription::NewSubscribers,
};

/// Builds an [`Informer`].
#[must_use = "a builder does nothing until it is built"]
pub struct InformerBuilder<K: Stored> {
    resource: Arc<str>,
    namespaces: Option<Arc<[String]>>,
    trim: Arc<Trim>,
    source: Box<dyn ErasedSource<K>>,
    indexes: Vec<Box<dyn ErasedIndexTable<K>>>,
    settings: Settings,
}

pub(super) struct Settings {
    /// Off by default, because every change is delivered anyway.
    pub(super) resync: Option<Duration>,
    pub(super) buffer: NonZeroUsize,
    pub(super) on_error: ErrorHandler,
}

// === impl InformerBuilder ===

impl<K: Stored> InformerBuilder<K> {
    /// The default of [`buffer`](Self::buffer), in events. A subscriber that keeps up on average
    /// does not fill it.
    pub(crate) const DEFAULT_BUFFER: NonZeroUsize = NonZeroUsize::new(256).unwrap();

    pub(super) fn new(source: impl Source<K>) -> Self {
        Self {
            resource: Arc::from(source.resource()),
            namespaces: source.namespaces().map(Arc::from),
            trim: Arc::new(source.trim()),
            source: Box::new(source),
            indexes: Vec::new(),
            settings: Settings {
                resync: None,
                buffer: Self::DEFAULT_BUFFER,
                on_error: Arc::new(log),
            },
        }
    }

    /// Declares `index`: the informer updates it with each change, and [`Store::by`] reads it.
    pub fn index<V>(mut self, index: &Index<K, V>) -> Self
    where
        V: Clone + Eq + Hash + Send + Sync + 'static,
    {
        self.indexes.push(Box::new(IndexTable::new(index.clone())));
        self
    }

    /// Delivers each object again once in each `period`, as [`Resynced`](crate::Event::Resynced).
    /// By default, and with a period of zero, never.
    ///
    /// The objects are spread over the period by a hash of their keys. The first resync of an
    /// object comes at most 65/64 of a period after it was added, or after the first list was
    /// complete if that is later. Resyncs are late while a subscription is full. A period below
    /// 1 ms counts as 1 ms.
    pub fn resync(mut self, period: Duration) -> Self {
        self.settings.resync = (!period.is_zero()).then_some(period);
        self
    }

    /// The capacity of each subscription in events. The watch waits while a subscription is full.
    /// The default is 256.
    pub fn buffer(mut self, events: NonZeroUsize) -> Self {
        self.settings.buffer = events;
        self
    }

    /// Calls `handler` with each problem, instead of logging it. A problem of an object is reported
    /// again only when it differs. If `handler` panics, the panic and the problem are logged, and the
    /// informer continues.
    pub fn on_error(mut self, handler: impl Fn(&Problem<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Arc::new(handler);
        self
    }

    /// Builds the informer.
    #[must_use]
    pub fn build(self) -> Informer<K> {
        let instruments = Arc::<Instruments>::default();
        let store = Store::new(self.indexes, Arc::clone(&instruments));
        Informer {
            shared: Arc::new(Shared {
                id: InformerId::next(),
                new_subscribers: Arc::new(NewSubscribers::new(Arc::clone(&self.resource))),
                resource: self.resource,
                namespaces: self.namespaces,
                trim: self.trim,
                status: watch::Sender::default(),
                instruments,
                list_progress: parking_lot::Mutex::default(),
                settings: self.settings,
                active_run: SharedRun::new(),
                relist: Notify::new(),
                source_and_writer: Mutex::new(SourceAndWriter {
                    source: self.source,
                    writer: Writer::new(store.clone()),
                }),
                store,
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
