//! The state that the tasks of a controller share.

use std::{
    any::TypeId,
    collections::{HashMap, HashSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Event, InformerId, InformerMetrics, InformerUser, ObjectKey, log, random_seed,
};

use super::{
    builder::Settings,
    dead_letters::{DeadLetter, DeadLetterEntry, DeadLetters},
    engine::Engine,
    feed::Feed,
    kind::KindHandle,
    queued::{Coalescing, QueuedEvent, RepeatableCall},
};
use crate::{
    Action, AddError, BuildError, DeleteRetry, ErasedObject, Fence, FenceClosed, FencePermit,
    HandlerError, HandlerId, Reasons, Role, RunningCall,
    handler::{ErasedHandler, ErasedMapper},
    level::OwnWriteTracker,
    metrics::{KindMetrics, Metrics, constant_labels},
    route::{KindId, Route},
    schedule::{LaneKey, Offer, Pending, Priority, Reason, ScheduleItem},
    trace::TraceParent,
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
    /// Permits calls. Without a fence all calls are permitted.
    pub(super) fence: OnceLock<Fence>,
    /// The own writes of a level-triggered controller.
    pub(crate) own_writes: OnceLock<Arc<OwnWriteTracker>>,
}

/// An informer and its kind.
pub(super) struct FeedEntry {
    pub(super) kind: KindId,
    pub(super) feed: Arc<dyn Feed>,
    pub(super) stop: CancellationToken,
    pub(super) started: bool,
    /// Whether other kinds do not wait for it.
    pub(super) optional: bool,
    /// Dropped when the informer is removed, and at the end of the run.
    pub(super) user: Option<InformerUser>,
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
            fence: OnceLock::new(),
            own_writes: OnceLock::new(),
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

    /// Adds a kind called `name` with objects of type `of`. Other kinds do not wait for the
    /// informers of an `optional` kind.
    pub(super) fn add_kind(
        self: &Arc<Self>,
        name: &str,
        of: TypeId,
        optional: bool,
    ) -> Result<KindHandle, AddError> {
        let metrics = |name: &Arc<str>| KindMetrics::new(&self.metrics, name);
        let (id, name) = self.route.write().add_kind(name, of, optional, metrics)?;
        self.changed();
        Ok(KindHandle::new(id, name, Arc::downgrade(self)))
    }

    /// Notes that the handle of `kind` was dropped.
    pub(super) fn drop_handle(&self, kind: KindId) {
        self.route.write().drop_handle(kind);
        self.remove_unused(kind);
    }

    /// Removes `kind` if it has no handle, informer, handler or mapper any more, with its queued
    /// events.
    fn remove_unused(&self, kind: KindId) {
        {
            let mut route = self.route.write();
            let Some(name) = route.remove_unused(kind) else {
                return;
            };
            // While a new kind cannot have the name.
            self.metrics.remove(&name);
            self.informer_metrics.remove(&name);
        }
        self.changed();
        self.engine.purge(kind);
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

    pub(super) fn add(
        self: &Arc<Self>,
        kind: &KindHandle,
        role: Role,
        code: Box<dyn ErasedHandler>,
    ) -> Result<HandlerId, AddError> {
        let _registration = self.registration.lock();
        self.check_handle(kind)?;
        self.check_informer(kind)?;
        if let Some(finalizer) = code.finalizer()
            && self.route.read().has_finalizer(kind.id(), finalizer)
        {
            return Err(AddError::FinalizerTaken {
                kind: kind.name().to_owned(),
                finalizer: finalizer.to_string(),
            });
        }
        let mut route = self.route.write();
        let id = route.add(kind.id(), role, code);
        // Before the chain is visible: a handler that is called may get pending calls.
        self.engine.admit(id);
        self.changed();
        Ok(id)
    }

    /// Refuses the handle of a kind of another controller.
    fn check_handle(self: &Arc<Self>, kind: &KindHandle) -> Result<(), AddError> {
        if kind.is_of(self) {
            return Ok(());
        }
        let kind = kind.name().to_owned();
        Err(AddError::OtherController { kind })
    }

    /// Refuses a handler or mapper of a kind without an informer while the controller runs. Earlier
    /// additions are checked by `run`.
    fn check_informer(&self, kind: &KindHandle) -> Result<(), AddError> {
        if !self.ran.load(Ordering::Acquire) || self.route.read().has_informer(kind.id()) {
            return Ok(());
        }
        let kind = kind.name().to_owned();
        Err(AddError::NoInformer { kind })
    }

    /// Removes the handler of `kind` with this role and id, or all with the role. Returns their
    /// number.
    pub(super) fn remove(&self, kind: KindId, role: Role, id: Option<HandlerId>) -> usize {
        let registration = self.registration.lock();
        let removed = {
            let mut route = self.route.write();
            let removed = route.remove(kind, |it| {
                it.role == role && id.is_none_or(|id| it.id == id)
            });
            self.changed();
            removed
        };
        let mut letters = Vec::new();
        for handler in &removed {
            self.engine.cancel(handler.id);
            letters.extend(self.dead_letters.lock().cancel(handler.id));
        }
        self.remove_unused(kind);
        // The code of the handlers and the states of the letters are dropped without a lock.
        drop(registration);
        drop(letters);
        removed.len()
    }

    /// Adds an informer to `kind`.
    pub(super) fn add_feed(
        self: &Arc<Self>,
        kind: &KindHandle,
        feed: Arc<dyn Feed>,
    ) -> Result<(), AddError> {
        let _registration = self.registration.lock();
        self.check_handle(kind)?;
        let id = feed.informer();
        let known = self.with_feed(id, |entry| entry.kind);
        if let Some(kind) = known {
            let kind = self.route.read().name(kind).to_string();
            return Err(AddError::InformerAlreadyAdded { kind });
        }
        let user = feed.register(self.settings.coalescing == Coalescing::Never);
        let user = user.map_err(|source| {
            let kind = kind.name().to_owned();
            AddError::SharedInformer { kind, source }
        })?;
        let (kind, name) = (kind.id(), kind.name());
        self.route.write().add_informer(kind);
        let others: Vec<_> = (self.feeds.read().iter())
            .filter(|entry| entry.kind == kind)
            .map(|entry| (entry.feed.informer(), entry.started))
            .collect();
        // Not in the condition, which would lock the route and the merge together.
        let merge = self.route.read().merge(kind);
        if let Some(merge) = merge
            && !others.is_empty()
        {
            let mut merge = merge.lock();
            if merge.is_idle() {
                for (other, started) in others {
                    merge.add(other, started);
                }
            }
            merge.add(id, false);
        }
        let optional = self.route.read().is_optional(kind);
        feed.instrument(&self.informer_metrics, name);
        let mut feeds = self.feeds.write();
        feeds.push(FeedEntry {
            kind,
            feed,
            stop: CancellationToken::new(),
            started: false,
            optional,
            user: Some(user),
        });
        if !optional && self.gates_late_informers() && self.ran.load(Ordering::Acquire) {
            // Under the lock: the run opens the gate under it, after all informers have synced.
            self.engine.set_gate(None, false);
        }
        drop(feeds);
        self.feeds_changed.notify_one();
        Ok(())
    }

    /// Returns the kind of an informer with another subscription, if this controller may delay the
    /// watch.
    pub(super) fn subscribed_elsewhere(&self) -> Option<String> {
        if self.settings.coalescing != Coalescing::Never {
            return None;
        }
        let feeds = self.feeds.read();
        let shared = feeds.iter().find(|entry| entry.feed.is_subscribed())?;
        Some(self.route.read().name(shared.kind).to_string())
    }

    /// Removes an informer. Returns whether the controller had it.
    pub(super) fn remove_feed(&self, informer: InformerId) -> bool {
        let _registration = self.registration.lock();
        let removed = {
            let mut feeds = self.feeds.write();
            let at = (feeds.iter()).position(|entry| entry.feed.informer() == informer);
            at.map(|at| feeds.remove(at))
        };
        let Some(entry) = removed else {
            return false;
        };
        entry.stop.cancel();
        entry.feed.uninstrument(&self.informer_metrics);
        let merge = {
            let mut route = self.route.write();
            route.remove_informer(entry.kind);
            route.merge(entry.kind)
        };
        if let Some(merge) = merge {
            let objects = (merge.lock()).remove(informer, &|_, key, uid| entry.feed.find(key, uid));
            self.resync(objects);
        }
        self.remove_unused(entry.kind);
        self.feeds_changed.notify_one();
        true
    }

    /// Reads the entry of `informer`, if the controller has it.
    pub(super) fn with_feed<T>(
        &self,
        informer: InformerId,
        read: impl FnOnce(&FeedEntry) -> T,
    ) -> Option<T> {
        let feeds = self.feeds.read();
        feeds
            .iter()
            .find(|it| it.feed.informer() == informer)
            .map(read)
    }

    /// Requests a resync of each object from the informer with it.
    fn resync(&self, objects: Vec<(InformerId, ObjectKey)>) {
        let mut keys: HashMap<InformerId, HashSet<ObjectKey>> = HashMap::new();
        for (informer, key) in objects {
            keys.entry(informer).or_default().insert(key);
        }
        for entry in &*self.feeds.read() {
            if let Some(keys) = keys.remove(&entry.feed.informer()) {
                entry.feed.request_resyncs(&keys, Priority::Live);
            }
        }
    }

    /// Adds a mapper from `kind` to the kind `to`.
    pub(super) fn add_mapper(
        self: &Arc<Self>,
        kind: &KindHandle,
        to: &KindHandle,
        code: Box<dyn ErasedMapper>,
    ) -> Result<HandlerId, AddError> {
        let _registration = self.registration.lock();
        self.check_handle(kind)?;
        self.check_handle(to)?;
        self.check_informer(kind)?;
        Ok(self.route.write().add_mapper(kind.id(), to.id(), code))
    }

    /// Removes the mapper of `from` with this id, or all. Returns their number.
    pub(super) fn remove_mappers(&self, from: KindId, id: Option<HandlerId>) -> usize {
        let registration = self.registration.lock();
        let (targets, removed) = {
            let mut route = self.route.write();
            let targets: Vec<_> = (route.mappers(from).iter())
                .map(|mapper| mapper.to)
                .collect();
            (targets, route.remove_mappers(from, id))
        };
        for kind in targets.into_iter().chain([from]) {
            self.remove_unused(kind);
        }
        // The code of the mappers is dropped without a lock.
        drop(registration);
        removed.len()
    }

    /// Adds a dead letter, unless its handler was removed. Returns it.
    pub(super) fn add_dead_letter(&self, call: DeadLetterEntry) -> DeadLetter {
        // Locked until the letter is added: a removal of the handler finds it.
        let route = self.route.read();
        if (route.handler(call.lane.kind, call.letter.handler)).is_none() {
            drop(route);
            return call.letter;
        }
        self.has_dead_letters.store(true, Ordering::Release);
        let (letter, dropped) = self.dead_letters.lock().put(call);
        drop(route);
        // Without the locks: user code runs when a state is dropped.
        drop(dropped);
        letter
    }

    /// Makes dead letters of pending deletes that the engine dropped because their kind had too
    /// many.
    pub(super) fn add_evicted_dead_letters(&self) {
        for (lane, pending) in self.engine.take_evicted() {
            let route = self.route.read();
            let handler = route.handler(lane.kind, pending.handler);
            let Some((handler, metrics)) = handler.zip(route.metrics(lane.kind)) else {
                continue;
            };
            drop(route);
            let failed = pending.call.failed.as_ref();
            let error = failed.map(|failed| Arc::clone(&failed.error));
            let error = error.unwrap_or_else(|| Arc::new(HandlerError::TooManyDeletes));
            log::error!(
                component = "InformerController",
                kind = &*metrics.kind,
                object = %lane.object,
                "too many deletes are pending, moved the oldest to the dead letters"
            );
            metrics.retries_exhausted();
            let Pending { action, call, .. } = pending;
            let entry = DeadLetterEntry::new(lane, &metrics.kind, &handler, action, error, call);
            self.add_dead_letter(entry);
        }
    }

    /// Removes the dead letters that `event` makes obsolete: those of its object whose handlers are
    /// `called` for it, and after a delete all except failed deletes. Returns whether there may
    /// have been some: then one of them may have become a pending call since the event was taken.
    pub(super) fn forget_dead_letters(
        &self,
        key: &LaneKey,
        event: &QueuedEvent,
        called: impl Fn(HandlerId) -> bool,
    ) -> Option<Vec<DeadLetterEntry>> {
        // A dead letter of this object was added in an earlier turn.
        if !self.has_dead_letters.load(Ordering::Acquire) {
            return None;
        }
        let action = event.action();
        let ends_deletes = self.settings.delete_retry == DeleteRetry::UntilSuccessor
            && action == Some(Action::Created);
        let forgotten = self.dead_letters.lock().clear(key, |it| {
            let is_delete = it.letter.action == Action::Deleted;
            if !it.call.is_same_object(event) {
                return is_delete && ends_deletes;
            }
            called(it.letter.handler) || (action == Some(Action::Deleted) && !is_delete)
        });
        Some(forgotten)
    }

    /// Repeats the call of a dead letter as a first attempt.
    pub(super) fn redrive(&self, number: u64) -> bool {
        // Locked until the call is pending, so that each event of the object finds it as a dead
        // letter or as a pending call.
        let mut letters = self.dead_letters.lock();
        let Some(call) = letters.take(number) else {
            return false;
        };
        let pending = Pending {
            handler: call.letter.handler,
            action: call.letter.action,
            reason: Reason::Failed,
            due: self.engine.now(),
            overtaken: false,
            call: RepeatableCall {
                attempt: 0,
                ..call.call
            },
        };
        let replaced = self.engine.add_pending(call.lane, pending);
        drop(letters);
        // Without the lock: this may drop the last reference to an object.
        drop(replaced);
        true
    }

    /// Requests resyncs of the `keys` that are in a store of `kind`. Returns their number.
    pub(super) fn request_resyncs(
        &self,
        kind: KindId,
        keys: &HashSet<ObjectKey>,
        priority: Priority,
    ) -> usize {
        let feeds = self.feeds.read();
        let feeds = feeds.iter().filter(|entry| entry.kind == kind);
        feeds
            .map(|entry| entry.feed.request_resyncs(keys, priority))
            .sum()
    }

    /// Whether an informer that is added while the controller runs stops all calls until it has
    /// synced: a level-triggered handler that reads an empty store would delete or create objects.
    pub(super) const fn gates_late_informers(&self) -> bool {
        self.settings.level_triggered && !self.settings.start_before_sync
    }

    /// The newest state of the object with this key in the stores of `kind`.
    pub(crate) fn newest(&self, kind: KindId, key: &ObjectKey) -> Option<Arc<dyn ErasedObject>> {
        let feeds = self.feeds.read();
        let feeds = feeds.iter().filter(|entry| entry.kind == kind);
        let stored = feeds.filter_map(|entry| entry.feed.stored(key));
        stored.reduce(|known, other| {
            if is_older(&*known, &*other) {
                other
            } else {
                known
            }
        })
    }

    /// The keys of all objects in the stores of `kind`.
    pub(crate) fn keys(&self, kind: KindId) -> HashSet<ObjectKey> {
        let feeds = self.feeds.read();
        let feeds = feeds.iter().filter(|entry| entry.kind == kind);
        feeds.flat_map(|entry| entry.feed.keys()).collect()
    }

    /// Queues a resync of each object of `kind` that is in a store and whose key is in `keys`, with
    /// its newest state. Returns their number.
    pub(crate) fn wake(
        &self,
        kind: KindId,
        keys: impl IntoIterator<Item = ObjectKey>,
        priority: Priority,
        reasons: Reasons,
    ) -> usize {
        let received = self.engine.now();
        let offers: Vec<_> = (keys.into_iter())
            .filter_map(|object| {
                let event = QueuedEvent {
                    event: Event::Resynced(self.newest(kind, &object)?),
                    resynced: false,
                    requested_by_mapper: true,
                    reasons,
                    from_list: false,
                    origin: TraceParent::default(),
                    received,
                    last_called: None,
                    permit: None,
                };
                let offer = Offer {
                    priority,
                    pendings_checked: false,
                    event,
                };
                Some((LaneKey { kind, object }, offer))
            })
            .collect();
        let woken = offers.len();
        let mut dropped = Vec::new();
        self.engine.offer(offers, |older, newer| {
            (self.settings.coalescing).coalesce(older, newer, &mut dropped)
        });
        woken
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

/// Whether the version of `object` is lower than that of `other`.
fn is_older(object: &dyn ErasedObject, other: &dyn ErasedObject) -> bool {
    let number = |object: &dyn ErasedObject| object.resource_version()?.parse::<u64>().ok();
    number(object)
        .zip(number(other))
        .is_some_and(|(own, others)| own < others)
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Other controllers may still use the informers.
        for entry in self.feeds.get_mut() {
            entry.feed.uninstrument(&self.informer_metrics);
        }
    }
}
