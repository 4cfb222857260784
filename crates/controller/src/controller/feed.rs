//! Where events come from: an informer, whatever the type of its objects.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Event, Health, HealthState, Informer, InformerError, InformerId, InformerMetrics, ObjectKey,
    Stored, Told,
};

use super::{
    Shared,
    mapping::{self, Woken},
    notice::{Notice, Room},
};
use crate::{
    Action, AnyObject,
    route::KindId,
    schedule::{Class, LaneKey, Offer, Offered},
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
        Some(self.informer.store().get(key)?)
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
        async move {
            match self.informer.run(stop).await {
                // Somebody else runs it, and we are told all the same; unless it has ended, and
                // nobody is told anything any more.
                Err(InformerError::AlreadyRan { .. })
                    if !matches!(self.informer.health().state, HealthState::Stopped) =>
                {
                    Ok(())
                }
                ended => ended,
            }
        }
        .boxed()
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
        let queue = Arc::new(Semaphore::new(into.settings.queue.get()));
        async move {
            let metrics = into.kind_metrics(kind);
            let pump = async {
                // The room first: nothing is ever in our hands that has no place in the queue.
                while let Some(room) = Room::of(&queue).await {
                    let Some(told) = events.told().await else {
                        break;
                    };
                    let Told {
                        key,
                        event,
                        span,
                        recalled,
                        ..
                    } = told;
                    if let Event::Synced = event {
                        self.synced.store(true, Ordering::Release);
                    }
                    // Without a key it is about no object.
                    let Some(key) = key else {
                        continue;
                    };
                    let event = event.map(|object| object as Arc<dyn AnyObject>);
                    let Some(action) = Action::of(&event) else {
                        continue;
                    };
                    metrics.came(action);
                    let class = match action {
                        Action::Resynced if recalled => {
                            self.woken.take(&key).unwrap_or(Class::Live)
                        }
                        Action::Resynced => Class::Resync,
                        Action::Created if !self.synced.load(Ordering::Relaxed) => Class::FirstList,
                        Action::Deleted => {
                            self.woken.take(&key);
                            Class::Live
                        }
                        _ => Class::Live,
                    };
                    if !recalled {
                        mapping::map(&into, kind, &event, class, &span);
                    }
                    let offer = Offer {
                        class,
                        asked: false,
                        event: Notice {
                            received: into.engine.now(),
                            told: None,
                            room: Some(room),
                            origin: Origin::of(&span),
                            resynced: false,
                            event,
                        },
                    };
                    let key = LaneKey { kind, object: key };
                    let delivery = into.settings.delivery;
                    let mut rest = None;
                    let offered = (into.engine).offer(key, offer, |older, newer| {
                        delivery.fold(older, newer, &mut rest)
                    });
                    if offered == Offered::Queued {
                        metrics.queued();
                    } else {
                        trace::folded(&span);
                    }
                }
            };
            stop.run_until_cancelled(pump).await;
        }
        .boxed()
    }
}
