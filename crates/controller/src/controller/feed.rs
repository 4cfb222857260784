//! Feeds: each queues the events of one informer of a controller.
//!
//! `run` starts one task for each informer of the controller. The task takes the events of its
//! subscription, passes them through the merge of the kind, offers them to the engine, and then
//! calls the mappers.

use std::{
    collections::HashSet,
    hint::black_box,
    num::NonZeroUsize,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use windlass_informer::{
    Event, EventEnvelope, Health, HistoryWentBack, Informer, InformerError, InformerId,
    InformerMetrics, InformerUser, ObjectIdentity, ObjectKey, SharedInformerError, Stored, log,
};

use super::{
    Shared,
    mapping::{self, RequestedResyncs},
    permit::{EventBudget, Permits},
    queued::{Coalescing, QueuedEvent},
    shared::FeedEntry,
};
use crate::{
    Action, ErasedObject, Reasons,
    event::AnyEvent,
    merge::{InformerEvent, Merge},
    metrics::KindMetrics,
    route::{KindId, Mappers},
    schedule::{LaneKey, Moment, Offer, Priority},
    trace::{self, TraceParent},
};

/// An informer of a controller, for any type of objects.
pub(crate) trait Feed: Send + Sync {
    /// The identity of the informer.
    fn informer(&self) -> InformerId;

    /// Registers the controller as a user of the informer: as its only user if `waits`, because it
    /// may then delay the watch.
    fn register(&self, waits: bool) -> Result<InformerUser, SharedInformerError>;

    /// Whether the informer has a subscription.
    fn is_subscribed(&self) -> bool;

    /// The health of the informer.
    fn health(&self) -> Health;

    /// Whether its first list is queued.
    fn has_synced(&self) -> bool;

    /// The time without a queued event and without progress of a list.
    fn idle(&self, now: Moment) -> Duration;

    /// The object with this key in the store, if it has this uid.
    fn find(&self, key: &ObjectKey, uid: &str) -> Option<Arc<dyn ErasedObject>>;

    /// The object with this key in the store.
    fn stored(&self, key: &ObjectKey) -> Option<Arc<dyn ErasedObject>>;

    /// The keys of all objects in the store.
    fn keys(&self) -> Vec<ObjectKey>;

    /// Requests resyncs of the `keys` that are in the store. Returns their number.
    fn request_resyncs(&self, keys: &HashSet<ObjectKey>, priority: Priority) -> usize;

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
    progress: AtomicU64,
    requested_resyncs: RequestedResyncs,
}

/// Queues a batch of events.
struct Enqueuer<'a, K: Stored> {
    feed: &'a InformerFeed<K>,
    into: &'a Shared,
    kind: KindId,
    metrics: &'a KindMetrics,
    merge: &'a Mutex<Merge>,
    mappers: Mappers,
    received: Moment,
    /// Whether few events precede these ones in the queue, so that their objects stay decoded until
    /// they are dispatched.
    dispatched_soon: bool,
}

/// An event with its lane and its span.
struct Enqueued {
    key: LaneKey,
    offer: Offer<QueuedEvent>,
    span: Span,
}

/// The number of events that are queued under one lock: enough that the cost of the lock does not
/// matter, few enough that no worker waits long for it.
const BATCH: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// How many undispatched events of an informer keep a decoded object: two batches. The objects of
/// further events are decoded again for the dispatch. Otherwise the memory of a controller with
/// slow handlers would mostly be these objects: a decoded Pod takes six times the memory of its
/// JSON.
const MAX_DECODED: usize = 2 * BATCH.get();

// === impl InformerFeed ===

impl<K: Stored> InformerFeed<K> {
    pub(crate) fn new(informer: Informer<K>) -> Self {
        Self {
            informer,
            synced: AtomicBool::new(false),
            progress: AtomicU64::new(0),
            requested_resyncs: RequestedResyncs::default(),
        }
    }
}

impl<K: Stored> Feed for InformerFeed<K> {
    fn informer(&self) -> InformerId {
        self.informer.id()
    }

    fn register(&self, waits: bool) -> Result<InformerUser, SharedInformerError> {
        if waits {
            self.informer.claim()
        } else {
            self.informer.share()
        }
    }

    fn is_subscribed(&self) -> bool {
        self.informer.is_subscribed()
    }

    fn health(&self) -> Health {
        self.informer.health()
    }

    fn has_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    fn idle(&self, now: Moment) -> Duration {
        let queued = now - Moment::from_bits(self.progress.load(Ordering::Relaxed));
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

    fn keys(&self) -> Vec<ObjectKey> {
        self.informer.store().keys()
    }

    fn request_resyncs(&self, keys: &HashSet<ObjectKey>, priority: Priority) -> usize {
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
        self.progress
            .store(into.engine.now().to_bits(), Ordering::Relaxed);
        async move {
            let (metrics, merge) = {
                let route = into.route.read();
                let Some(known) = route.metrics(kind).zip(route.merge(kind)) else {
                    return Ok(());
                };
                known
            };
            let waits = into.settings.coalescing == Coalescing::Never;
            let (mut envelopes, mut enqueued) = (Vec::new(), Vec::new());
            let mut went_back = pin!(went_back);
            let enqueue_events = async {
                loop {
                    let synced = self.synced.load(Ordering::Relaxed);
                    let mut permits = if waits && synced {
                        // Permits first, so that each event that is taken can be queued.
                        queue.take(BATCH).await
                    } else {
                        queue.try_take(0)
                    };
                    let most = if waits && synced {
                        permits.left()
                    } else {
                        BATCH.get()
                    };
                    let taken = tokio::select! {
                        biased;
                        why = &mut went_back => return Err(why),
                        taken = events.next_envelopes(&mut envelopes, most) => taken,
                    };
                    if taken == 0 {
                        return Ok(());
                    }
                    // Known before its first event.
                    if let Some(why) = went_back.as_mut().now_or_never() {
                        return Err(why);
                    }
                    let budget = if synced { &queue } else { &first_list };
                    if !(waits && synced) {
                        permits = budget.try_take(taken);
                    }
                    // Before sync the events wait for the end of the list.
                    let dispatches = synced || into.settings.start_before_sync;
                    // Computed once for all events of the batch.
                    let batch = Enqueuer {
                        feed: &self,
                        into: &into,
                        kind,
                        metrics: &metrics,
                        merge: &merge,
                        mappers: into.route.read().mappers(kind),
                        received: into.engine.now(),
                        dispatched_soon: dispatches && budget.taken() <= MAX_DECODED,
                    };
                    batch.enqueue(&mut envelopes, &mut enqueued, &mut permits);
                }
            };
            let ended = stop.run_until_cancelled(enqueue_events).await;
            ended.unwrap_or(Ok(()))
        }
        .boxed()
    }
}

// === impl Enqueuer ===

impl<K: Stored> Enqueuer<'_, K> {
    /// Queues the events of `envelopes`.
    fn enqueue(
        &self,
        envelopes: &mut Vec<EventEnvelope<K>>,
        enqueued: &mut Vec<Enqueued>,
        permits: &mut Permits,
    ) {
        let Self { feed, into, .. } = self;
        let has_mappers = !self.mappers.is_empty();
        let mut to_map = Vec::new();
        let mut synced = feed.synced.load(Ordering::Relaxed);
        {
            // Locked until the events are queued, so that they are queued in the order of the
            // merge.
            let mut merge = self.merge.lock();
            let mut put = |it: Enqueued| {
                let queued = &it.offer.event;
                let waits_long = !self.dispatched_soon || queued.permit.is_none();
                if has_mappers && !queued.requested_by_mapper {
                    let event = queued.event.clone();
                    to_map.push((
                        event,
                        queued.from_list,
                        it.offer.priority,
                        it.span.clone(),
                        waits_long,
                    ));
                } else if waits_long {
                    release_decoded(&queued.event);
                }
                enqueued.push(it);
            };
            for envelope in envelopes.drain(..) {
                let mut envelope = envelope.into_erased();
                synced |= matches!(envelope.event, Event::Synced);
                let action = Action::of(&envelope.event);
                if merge.is_idle() || self.merge(&mut merge, &mut envelope) {
                    self.prepare(envelope, action, synced, permits)
                        .map(&mut put);
                }
                for released in merge.take_released() {
                    self.release(released, permits).map(&mut put);
                }
            }
            self.offer(enqueued);
            for informer in merge.take_lagging() {
                self.relist(informer);
            }
        }
        feed.progress
            .store(self.received.to_bits(), Ordering::Relaxed);
        // After its objects are queued. Then the handlers may start.
        if synced && !feed.synced.swap(true, Ordering::AcqRel) {
            into.synced.notify_one();
        }
        for (event, from_list, priority, span, waits_long) in to_map {
            mapping::map(
                into,
                &self.mappers,
                self.kind,
                (&event, from_list),
                feed.informer.resource(),
                priority,
                &span,
            );
            if waits_long {
                release_decoded(&event);
            }
        }
    }

    /// Prepares an event for the queue. `None` if it has no object. `action` is that of the
    /// informer's event, before the merge.
    fn prepare(
        &self,
        envelope: EventEnvelope<dyn ErasedObject>,
        action: Option<Action>,
        synced: bool,
        permits: &mut Permits,
    ) -> Option<Enqueued> {
        let feed = self.feed;
        let EventEnvelope {
            key,
            event,
            span,
            requested,
            from_list,
            ..
        } = envelope;
        // Without a key there is no object.
        let key = key?;
        let priority = match action? {
            Action::Resynced if requested => {
                feed.requested_resyncs.take(&key).unwrap_or(Priority::Live)
            }
            Action::Resynced => Priority::Resync,
            Action::Created if !synced => Priority::FirstList,
            Action::Deleted => {
                feed.requested_resyncs.take(&key);
                Priority::Live
            }
            _ => Priority::Live,
        };
        let event = QueuedEvent {
            received: self.received,
            last_called: None,
            permit: permits.one(),
            origin: TraceParent::of(&span),
            resynced: false,
            requested_by_mapper: requested,
            reasons: match priority {
                _ if requested => Reasons::RELATED,
                Priority::FirstList => Reasons::FIRST_LIST,
                Priority::Resync => Reasons::INTERVAL,
                _ => Reasons::CHANGED,
            },
            from_list,
            event,
        };
        Some(self.enqueued(key, priority, event, span))
    }

    /// Prepares an event of an object that was withheld: it comes from the store, like an event
    /// from a list.
    fn release(&self, event: AnyEvent, permits: &mut Permits) -> Option<Enqueued> {
        let key = event.object()?.key();
        let event = QueuedEvent {
            received: self.received,
            last_called: None,
            permit: permits.one(),
            origin: TraceParent::default(),
            resynced: false,
            requested_by_mapper: false,
            reasons: Reasons::CHANGED,
            from_list: true,
            event,
        };
        Some(self.enqueued(key, Priority::Live, event, Span::none()))
    }

    fn enqueued(
        &self,
        object: ObjectKey,
        priority: Priority,
        event: QueuedEvent,
        span: Span,
    ) -> Enqueued {
        let kind = self.kind;
        Enqueued {
            key: LaneKey { kind, object },
            offer: Offer {
                priority,
                pendings_checked: false,
                event,
            },
            span,
        }
    }

    /// Merges the event with those of the other informers. Returns whether to dispatch it.
    fn merge(&self, merge: &mut Merge, envelope: &mut EventEnvelope<dyn ErasedObject>) -> bool {
        let lookup = |informer: InformerId, key: &ObjectKey, uid: &str| {
            let object = |entry: &FeedEntry| entry.feed.find(key, uid);
            self.into.with_feed(informer, object).flatten()
        };
        let informer = self.feed.informer.id();
        if matches!(envelope.event, Event::Synced) {
            let version = self.feed.informer.list_version();
            let up_to = version.and_then(|version| version.parse().ok());
            merge.synced(informer, up_to, &lookup);
            return false;
        }
        let event = InformerEvent {
            informer,
            event: envelope.event.clone(),
            live: !envelope.from_list,
        };
        let Some(merged) = merge.apply(event, &lookup) else {
            return false;
        };
        envelope.event = merged;
        true
    }

    /// Requests a relist of an informer that has not passed a dropped tombstone.
    fn relist(&self, informer: InformerId) {
        self.into.with_feed(informer, |entry| {
            log::warn!(
                component = "InformerController",
                kind = &*self.metrics.kind,
                "an informer lags behind the others of its kind, relisting"
            );
            entry.feed.relist();
        });
    }

    /// Queues the events in the engine, under one lock.
    fn offer(&self, enqueued: &mut Vec<Enqueued>) {
        // With many objects, the names are not in the CPU cache any more. Reading one byte of each
        // in a loop loads them concurrently, before the lock is taken.
        let names = enqueued.iter().map(|it| it.key.object.name());
        black_box(names.filter_map(|name| name.bytes().next()).max());
        let coalescing = self.into.settings.coalescing;
        let (mut by_action, mut spans, mut rest) = ([0; Action::ALL.len()], Vec::new(), Vec::new());
        let mut at = 0;
        let offers = enqueued.drain(..).map(|Enqueued { key, offer, span }| {
            if let Some(action) = Action::of(&offer.event.event) {
                by_action[action as usize] += 1;
            }
            if !span.is_none() {
                spans.push((at, span));
            }
            at += 1;
            (key, offer)
        });
        let coalesced = (self.into.engine).offer(offers, |older, newer| {
            coalescing.coalesce(older, newer, &mut rest)
        });
        for (_, span) in spans.iter().filter(|(at, _)| coalesced.contains(at)) {
            trace::coalesced(span);
        }
        self.metrics.received(&by_action, coalesced.len());
    }
}

/// Drops the decoded object of an event that may wait long. It is decoded again for the dispatch.
fn release_decoded(event: &AnyEvent) {
    if let Some(object) = event.object() {
        object.release_decoded();
    }
}
