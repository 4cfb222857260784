//! Where events come from: an informer, whatever the type of its objects.

use std::{
    collections::HashSet,
    hint::black_box,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;
use tracing::Span;
use windlass_informer::{
    AnyTold, Event, Health, Informer, InformerError, InformerId, InformerMetrics, ObjectKey,
    Stored, Told,
};

use super::{
    Shared,
    mapping::{self, Woken},
    notice::Notice,
    room::{Rooms, Space},
};
use crate::{
    Action, AnyObject,
    metrics::KindMetrics,
    route::{KindId, Mappers},
    schedule::{Class, LaneKey, Moment, Offer},
    trace::{self, Origin},
};

/// An informer of a controller.
pub(crate) trait Feed: Send + Sync {
    /// Which informer it is.
    fn informer(&self) -> InformerId;

    /// How its watch is.
    fn health(&self) -> Health;

    /// Whether its first list has been queued.
    fn has_synced(&self) -> bool;

    /// The newest state of an object.
    fn latest(&self, key: &ObjectKey) -> Option<Arc<dyn AnyObject>>;

    /// Has those of `keys` told again that are there. Returns how many those are.
    fn wake(&self, keys: &HashSet<ObjectKey>, class: Class) -> usize;

    /// Has the informer count in `metrics`.
    fn instrument(&self, metrics: &InformerMetrics, kind: &str);

    /// Runs the informer.
    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), InformerError>>;

    /// Queues what the informer tells, until `stop` or its end.
    fn pump(
        self: Arc<Self>,
        into: Arc<Shared>,
        kind: KindId,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()>;
}

/// An informer of `K`s, as a feed.
pub(crate) struct Typed<K: Stored> {
    informer: Informer<K>,
    synced: AtomicBool,
    woken: Woken,
}

/// The way from an informer of `K`s into the queue, for those events that are taken at once.
struct Way<'a, K: Stored> {
    feed: &'a Typed<K>,
    into: &'a Shared,
    kind: KindId,
    metrics: &'a KindMetrics,
    mappers: Mappers,
    received: Moment,
}

/// An event on that way, and the span in which it was told.
struct Coming {
    key: LaneKey,
    offer: Offer<Notice>,
    span: Span,
}

/// How many events are taken and queued at once, at most: so many that what they have in common
/// costs next to nothing, and so few that nobody waits for the lock for long.
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

// === impl Typed ===

impl<K: Stored> Typed<K> {
    pub(crate) fn new(informer: Informer<K>) -> Self {
        Self {
            informer,
            synced: AtomicBool::new(false),
            woken: Woken::default(),
        }
    }
}

impl<K: Stored> Feed for Typed<K> {
    fn informer(&self) -> InformerId {
        self.informer.id()
    }

    fn health(&self) -> Health {
        self.informer.health()
    }

    fn has_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    fn latest(&self, key: &ObjectKey) -> Option<Arc<dyn AnyObject>> {
        Some(self.informer.store().kept(key)?.into_any())
    }

    fn wake(&self, keys: &HashSet<ObjectKey>, class: Class) -> usize {
        let store = self.informer.store();
        self.woken.wake(keys, class, |key| store.contains(key))
    }

    fn instrument(&self, metrics: &InformerMetrics, kind: &str) {
        self.informer.instrument(metrics, kind);
    }

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), InformerError>> {
        self.informer.run(stop).boxed()
    }

    fn pump(
        self: Arc<Self>,
        into: Arc<Shared>,
        kind: KindId,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        // Before the informer runs, so that its first list is told once.
        let mut events = self.informer.subscribe();
        self.woken.listen(events.recall());
        let space = Space::new(into.settings.queue);
        async move {
            let metrics = into.kind_metrics(kind);
            let (mut told, mut coming) = (Vec::new(), Vec::new());
            let pump = async {
                loop {
                    // The room first: nothing is ever in our hands that has no place in the queue.
                    let mut rooms = space.take(AT_ONCE).await;
                    if events.told_many(&mut told, rooms.left()).await == 0 {
                        break;
                    }
                    // What they have in common is asked once, and after they were told.
                    let way = Way {
                        feed: &self,
                        into: &into,
                        kind,
                        metrics: &metrics,
                        mappers: into.route.read().mappers(kind),
                        received: into.engine.now(),
                    };
                    let told = told.drain(..);
                    coming.extend(told.filter_map(|told| way.begin(told, &mut rooms)));
                    way.end(&mut coming);
                }
            };
            stop.run_until_cancelled(pump).await;
        }
        .boxed()
    }
}

// === impl Way ===

impl<K: Stored> Way<'_, K> {
    /// What is told, as it is queued; none if it is about no object.
    fn begin(&self, told: Told<K>, rooms: &mut Rooms) -> Option<Coming> {
        let Self { feed, .. } = self;
        let AnyTold {
            key,
            event,
            span,
            recalled,
            ..
        } = told.into_any();
        if let Event::Synced = event {
            feed.synced.store(true, Ordering::Release);
        }
        // Without a key it is about no object.
        let key = key?;
        let action = Action::of(&event)?;
        let class = match action {
            Action::Resynced if recalled => feed.woken.take(&key).unwrap_or(Class::Live),
            Action::Resynced => Class::Resync,
            Action::Created if !feed.synced.load(Ordering::Relaxed) => Class::FirstList,
            Action::Deleted => {
                feed.woken.take(&key);
                Class::Live
            }
            _ => Class::Live,
        };
        if !recalled {
            mapping::map(self.into, &self.mappers, self.kind, &event, class, &span);
        }
        let offer = Offer {
            class,
            asked: false,
            event: Notice {
                received: self.received,
                told: None,
                room: rooms.one(),
                origin: Origin::of(&span),
                resynced: false,
                event,
            },
        };
        let key = LaneKey {
            kind: self.kind,
            object: key,
        };
        Some(Coming { key, offer, span })
    }

    /// Queues what is `coming`.
    fn end(&self, coming: &mut Vec<Coming>) {
        // Where there are many names they are out of all caches again: read side by side, they are
        // waited for once, and not under the lock.
        let names = coming.iter().map(|it| it.key.object.name());
        black_box(names.filter_map(|name| name.bytes().next()).max());
        let delivery = self.into.settings.delivery;
        let (mut came, mut spans, mut rest) = ([0; Action::ALL.len()], Vec::new(), Vec::new());
        let mut at = 0;
        let offers = coming.drain(..).map(|Coming { key, offer, span }| {
            if let Some(action) = Action::of(&offer.event.event) {
                came[action as usize] += 1;
            }
            if !span.is_none() {
                spans.push((at, span));
            }
            at += 1;
            (key, offer)
        });
        let folded = (self.into.engine).offer(offers, |older, newer| {
            delivery.fold(older, newer, &mut rest)
        });
        for (_, span) in spans.iter().filter(|(at, _)| folded.contains(at)) {
            trace::folded(span);
        }
        self.metrics.came(&came, folded.len());
    }
}
