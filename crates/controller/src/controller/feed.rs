//! Feeds: each queues the events of one informer of a controller.
//!
//! `run` starts one task for each informer of the controller. The task takes the events of its
//! subscription, passes them through the merge of the kind, offers them to the engine, and then
//! calls the mappers.

mod enqueuer;

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Diagnostics, Health, HistoryWentBack, Informer, InformerError, InformerId, InformerMetrics,
    ObjectIdentity, ObjectKey, Stored, Trim,
};

use self::enqueuer::Enqueuer;
use super::{Shared, mapping::RequestedResyncs, permit::EventBudget};
use crate::{
    ErasedObject,
    route::KindId,
    schedule::{Moment, Priority},
};

/// An informer of a controller, for any type of objects.
pub(crate) trait Feed: Send + Sync {
    /// The identity of the informer.
    fn informer(&self) -> InformerId;

    /// The namespaces of the informer. `None` for all.
    fn namespaces(&self) -> Option<&[String]>;

    /// The fields that the informer removes from the objects.
    fn trim(&self) -> &Arc<Trim>;

    /// The health of the informer.
    fn health(&self) -> Health;

    /// What the informer has done so far, and a checksum of its store.
    fn diagnostics(&self) -> Diagnostics;

    /// Whether its first list is queued.
    fn has_synced(&self) -> bool;

    /// The time without a queued event and without progress of a list.
    fn idle(&self, now: Moment) -> Duration;

    /// The object with this key in the store, if it has this uid.
    fn find(&self, key: &ObjectKey, uid: &str) -> Option<Arc<dyn ErasedObject>>;

    /// The object with this key in the store.
    fn stored(&self, key: &ObjectKey) -> Option<Arc<dyn ErasedObject>>;

    /// All objects in the store, with their keys.
    fn all_stored(&self) -> Vec<(ObjectKey, Arc<dyn ErasedObject>)>;

    /// Requests resyncs of the `keys` that are in the store. Returns their number.
    fn request_resyncs(&self, keys: &BTreeSet<ObjectKey>, priority: Priority) -> usize;

    /// Starts counting in `metrics`.
    fn instrument(&self, metrics: &InformerMetrics, kind: &str);

    /// Stops counting in `metrics`.
    fn uninstrument(&self, metrics: &InformerMetrics);

    /// Requests a relist.
    fn relist(&self);

    /// Runs the informer until `stop`.
    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), InformerError>>;

    /// Queues the events of the informer, until `stop` or until the informer ends.
    ///
    /// # Errors
    ///
    /// What showed that the history of the server went back. No state of the new history is queued.
    fn enqueue_events(
        self: Arc<Self>,
        into: Arc<Shared>,
        kind: KindId,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), HistoryWentBack>>;
}

/// An informer of `K`s as a feed.
pub(crate) struct InformerFeed<K: Stored> {
    informer: Informer<K>,
    synced: AtomicBool,
    /// When its last event was queued; at first, when it was started.
    progress: Mutex<Moment>,
    requested_resyncs: RequestedResyncs,
}

/// The number of events that are queued under one lock: enough that the cost of the lock does not
/// matter, few enough that no worker waits long for it.
const BATCH: usize = 64;

/// How many undispatched events of an informer keep a decoded object: two batches. The objects of
/// further events are decoded again for the dispatch. Otherwise the memory of a controller with
/// slow handlers would mostly be these objects: a decoded Pod takes six times the memory of its
/// JSON.
const MAX_DECODED: usize = 2 * BATCH;

// === impl InformerFeed ===

impl<K: Stored> InformerFeed<K> {
    pub(crate) fn new(informer: Informer<K>) -> Self {
        Self {
            informer,
            synced: AtomicBool::new(false),
            progress: Mutex::default(),
            requested_resyncs: RequestedResyncs::default(),
        }
    }
}

impl<K: Stored> Feed for InformerFeed<K> {
    fn informer(&self) -> InformerId {
        self.informer.id()
    }

    fn namespaces(&self) -> Option<&[String]> {
        self.informer.namespaces()
    }

    fn trim(&self) -> &Arc<Trim> {
        self.informer.trim()
    }

    fn health(&self) -> Health {
        self.informer.health()
    }

    fn diagnostics(&self) -> Diagnostics {
        self.informer.diagnostics()
    }

    fn has_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    fn idle(&self, now: Moment) -> Duration {
        let queued = now - *self.progress.lock();
        let listed = self.informer.last_list_progress();
        listed.map_or(queued, |listed| queued.min(listed.elapsed()))
    }

    fn find(&self, key: &ObjectKey, uid: &str) -> Option<Arc<dyn ErasedObject>> {
        let object = self.informer.store().get_lazy(key)?.into_erased();
        (ObjectIdentity::uid(&*object) == Some(uid)).then_some(object)
    }

    fn stored(&self, key: &ObjectKey) -> Option<Arc<dyn ErasedObject>> {
        Some(self.informer.store().get_lazy(key)?.into_erased())
    }

    fn all_stored(&self) -> Vec<(ObjectKey, Arc<dyn ErasedObject>)> {
        let stored = self.informer.store().entries().into_iter();
        stored
            .map(|(key, object)| (key, object.into_erased()))
            .collect()
    }

    fn request_resyncs(&self, keys: &BTreeSet<ObjectKey>, priority: Priority) -> usize {
        let store = self.informer.store();
        (self.requested_resyncs).request(keys, priority, |key| store.contains(key))
    }

    fn instrument(&self, metrics: &InformerMetrics, kind: &str) {
        self.informer.instrument(metrics, kind);
    }

    fn uninstrument(&self, metrics: &InformerMetrics) {
        self.informer.uninstrument(metrics);
    }

    fn relist(&self) {
        self.informer.relist();
    }

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), InformerError>> {
        self.informer.run(stop).boxed()
    }

    fn enqueue_events(
        self: Arc<Self>,
        into: Arc<Shared>,
        kind: KindId,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), HistoryWentBack>> {
        // Before the informer runs, so that its first list is not also replayed.
        let mut events = self.informer.subscribe();
        let went_back = events.history_went_back();
        self.requested_resyncs.listen(events.resync_handle());
        let queue = EventBudget::new(into.settings.queue);
        // The first list does not count towards the bound of the queue, and has its own budget of
        // the same size.
        let first_list = EventBudget::new(into.settings.queue);
        *self.progress.lock() = into.engine.now();
        async move {
            let (metrics, merge) = {
                let route = into.route.read();
                let Some(known) = route.metrics(kind).zip(route.merge(kind)) else {
                    return Ok(());
                };
                known
            };
            let (mut envelopes, mut received, mut enqueued) = (Vec::new(), Vec::new(), Vec::new());
            let mut went_back = pin!(went_back);
            let enqueue_events = async {
                loop {
                    let synced = self.synced.load(Ordering::Relaxed);
                    let taken = tokio::select! {
                        biased;
                        why = &mut went_back => return Err(why),
                        taken = events.next_envelopes(&mut envelopes, BATCH) => taken,
                    };
                    if taken == 0 {
                        return Ok(());
                    }
                    // Known before its first event.
                    if let Some(why) = went_back.as_mut().now_or_never() {
                        return Err(why);
                    }
                    let budget = if synced { &queue } else { &first_list };
                    // Before sync the events wait for the end of the list.
                    let dispatches = synced || into.settings.start_before_sync;
                    // Computed once for all events of the batch. One guard: a second one, while the
                    // first is held, waits for a writer that waits for the first.
                    let (mappers, unhandled) = {
                        let route = into.route.read();
                        (route.mappers(kind), route.is_unhandled(kind))
                    };
                    let batch = Enqueuer {
                        feed: &self,
                        into: &into,
                        kind,
                        metrics: &metrics,
                        merge: &merge,
                        mappers,
                        unhandled,
                        received: into.engine.now(),
                        dispatched_soon: dispatches && budget.taken() + taken <= MAX_DECODED,
                    };
                    batch.receive(&mut envelopes, &mut received);
                    batch.enqueue(&mut received, &mut enqueued, budget);
                }
            };
            let ended = stop.run_until_cancelled(enqueue_events).await;
            ended.unwrap_or(Ok(()))
        }
        .boxed()
    }
}
