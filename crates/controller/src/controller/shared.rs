//! The state that the tasks of a controller share.

mod feeds;
mod kinds;
mod letters;
mod wake;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::sync::Notify;
use windlass_informer::{InformerMetrics, log, random_seed};

pub(super) use self::feeds::FeedEntry;
use super::{
    builder::Settings,
    dead_letters::DeadLetters,
    engine::Engine,
    finalizers::FinalizerClaims,
    level_triggered::OwnEvents,
    queued::{QueuedEvent, RepeatableCall},
};
use crate::{
    BuildError, Fence, FenceClosed, FencePermit, HandlerError, RunningCall,
    event::AnyEvent,
    metrics::{Metrics, constant_labels},
    route::{KindId, Route},
    work::call_user_code,
};

/// The shared state of a controller.
pub(crate) struct Shared {
    pub(super) settings: Settings,
    pub(super) engine: Arc<Engine<QueuedEvent, RepeatableCall>>,
    pub(super) route: RwLock<Route>,
    /// The number of changes of the routes, plus one. A snapshot with another number is outdated.
    changes: AtomicU64,
    /// Notified when a call of a handler begins.
    pub(super) call_began: Notify,
    /// Notified when the routes change.
    pub(super) rerouted: Notify,
    /// Locked while an informer, a handler or a mapper is added or removed, and while informers are
    /// started. So each change sees the previous ones completely, and a refused change has no
    /// effect.
    pub(super) registration: Mutex<()>,
    pub(super) feeds: RwLock<Vec<FeedEntry>>,
    /// Notified when an informer is added or removed.
    pub(super) feeds_changed: Notify,
    /// Notified when the first list of an informer is queued.
    pub(super) synced: Notify,
    pub(super) dead_letters: Mutex<DeadLetters>,
    /// Whether a dead letter was ever added. Before that, turns do not look for dead letters.
    has_dead_letters: AtomicBool,
    pub(super) metrics: Metrics,
    pub(super) informer_metrics: InformerMetrics,
    pub(super) random: Mutex<StdRng>,
    /// The number of attempts that the retry policy reports.
    pub(super) max_attempts: Option<u32>,
    pub(super) ran: AtomicBool,
    /// Whether an informer was ever removed. Before that, no pending call outlives its object.
    has_removed_informer: AtomicBool,
    /// Whether the gate was closed for an informer that was added later. Set under the lock of `feeds`.
    has_closed_gate: AtomicBool,
    /// Whether its run has ended. Written under the registration lock.
    ended: AtomicBool,
    /// Permits calls. Without a fence all calls are permitted.
    pub(super) fence: OnceLock<Fence>,
    /// The own writes of a level-triggered controller.
    pub(crate) own_writes: OnceLock<Arc<dyn OwnEvents>>,
    pub(super) finalizers: FinalizerClaims,
}

// === impl Shared ===

impl Shared {
    pub(super) fn new(settings: Settings) -> Result<Self, BuildError> {
        let namespace = &settings.metrics_namespace;
        let refused = |source| BuildError::MetricsNamespace {
            namespace: namespace.clone(),
            source,
        };
        let metrics = Metrics::new(namespace, &settings.name).map_err(refused)?;
        metrics.workers(settings.concurrency.get());
        let prefix = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let informer_metrics =
            InformerMetrics::labelled(prefix, &constant_labels(&settings.name)).map_err(refused)?;
        let random = StdRng::seed_from_u64(settings.seed.unwrap_or_else(random_seed));
        let max_attempts = call_user_code("retry_policy", || settings.retry.max_attempts());
        let engine = Arc::<Engine<QueuedEvent, RepeatableCall>>::default();
        engine.set_delete_retry(settings.delete_retry);
        let finalizers = FinalizerClaims::new(settings.finalizer_registry.clone());
        Ok(Self {
            settings,
            engine,
            route: RwLock::default(),
            changes: AtomicU64::new(1),
            call_began: Notify::new(),
            rerouted: Notify::new(),
            registration: Mutex::default(),
            feeds: RwLock::default(),
            feeds_changed: Notify::new(),
            synced: Notify::new(),
            dead_letters: Mutex::default(),
            has_dead_letters: AtomicBool::new(false),
            metrics,
            informer_metrics,
            random: Mutex::new(random),
            max_attempts: max_attempts.flatten(),
            ran: AtomicBool::new(false),
            has_removed_informer: AtomicBool::new(false),
            has_closed_gate: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            fence: OnceLock::new(),
            own_writes: OnceLock::new(),
            finalizers,
        })
    }

    /// The calls in progress, the longest first.
    pub(super) fn running_calls(&self) -> Vec<RunningCall> {
        let (route, now) = (self.route.read(), self.engine.now());
        let kinds = route.all_metrics();
        let mut calls: Vec<_> = kinds
            .flat_map(|kind| kind.running.all(&kind.kind, now))
            .collect();
        calls.sort_by_key(|call| std::cmp::Reverse(call.elapsed));
        calls
    }

    /// Whether a call of a handler is in progress.
    pub(super) fn is_calling(&self) -> bool {
        let route = self.route.read();
        route.all_metrics().any(|kind| !kind.running.is_empty())
    }

    /// Logs the calls that have run for `limit`, each once.
    pub(super) fn report_long_calls(&self, limit: Duration) {
        let (route, now) = (self.route.read(), self.engine.now());
        let kinds = route.all_metrics();
        let long: Vec<_> = kinds
            .flat_map(|kind| kind.running.long(&kind.kind, now, limit))
            .collect();
        drop(route);
        for call in long {
            log::warn!(
                component = "InformerController",
                kind = &*call.kind,
                object = %call.key,
                handler = %call.handler,
                handler_type = call.handler_type,
                role = call.role.as_str(),
                action = call.action.as_str(),
                running = ?call.elapsed,
                "a call runs for very long, and later events of its object wait; \
                 set a time limit with InformerControllerBuilder::timeout"
            );
        }
    }

    /// Whether calls need a permit of a fence.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence.get().is_some()
    }

    /// Waits for a permit of the fence, if there is one.
    pub(super) async fn permit(&self) -> Option<FencePermit> {
        match self.fence.get() {
            Some(fence) => Some(fence.permit().await),
            None => None,
        }
    }

    /// Whether a call failed with `error` because the fence closed while it ran.
    pub(super) fn is_refused_by_fence(&self, error: &HandlerError) -> bool {
        let is_closed = |fence: &Fence| !fence.is_open();
        self.fence.get().is_some_and(is_closed) && FenceClosed::find(error).is_some()
    }

    /// Whether the run has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Releases the finalizers for other controllers: the run has ended, and a controller runs once.
    pub(super) fn end(&self) {
        let _registration = self.registration.lock();
        self.ended.store(true, Ordering::Release);
        self.finalizers.release();
    }

    /// The number of changes of the routes. All changes before it are visible.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Counts a change, after it was made and before it is used.
    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.rerouted.notify_waiters();
    }

    /// Whether `event` can show a write of a level-triggered controller to its own object. Calls the
    /// filter of that kind, which can be code of the user.
    pub(super) fn may_be_own_write(&self, kind: KindId, event: &AnyEvent) -> bool {
        let own = self.own_writes.get();
        own.is_some_and(|own| own.may_be_own_write(kind, event))
    }

    /// Whether `queued`, which can show a write of a level-triggered controller to its own object,
    /// shows nothing else, so that it causes no call. Decided for each event, before events are
    /// coalesced.
    pub(super) fn is_own_write(&self, resource: &str, queued: &QueuedEvent) -> bool {
        let own = self.own_writes.get();
        own.is_some_and(|own| own.is_own_write(resource, &queued.event, queued.from_list))
    }

    /// Counts a call whose stores did not show own writes in time.
    pub(crate) fn count_stale(&self) {
        self.metrics.stale();
    }

    /// The histogram of the step called `name`.
    pub(crate) fn step(&self, name: &str) -> prometheus::Histogram {
        self.metrics.step(name)
    }

    /// A random number in `[0, 1)`.
    pub(super) fn random(&self) -> f64 {
        self.random.lock().random()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.finalizers.release();
        // Other controllers may still use the informers.
        for entry in self.feeds.get_mut() {
            entry.feed.uninstrument(&self.informer_metrics);
        }
    }
}
