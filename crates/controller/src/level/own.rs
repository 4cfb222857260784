//! Own writes: a call waits until the stores have the writes of the earlier calls for its object, and
//! the events of its own writes cause no further call.

use std::{
    sync::{Arc, OnceLock, Weak, atomic::Ordering},
    time::Duration,
};

use hashbrown::HashSet;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams},
    core::PartialObjectMeta,
};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};
use windlass_informer::{ErasedObject, Event, LazyObject, ObjectKey, resource_name};

use super::{Informers, Watchable, triggers::Target};
use crate::{
    Failure, Mode, Reasons, content,
    controller::{EventFilter, OwnEvents},
    event::AnyEvent,
    mode::WritePaused,
    own_writes::{
        CallAnswers, CallRecorder, EventDecision, EventMark, OwnWrites, Readiness, Scope, Shown,
        parse_version, recording_client,
    },
    route::KindId,
    work::call_user_code,
};

/// The own writes of a controller, and the stores that show them.
pub(crate) struct OwnWriteTracker {
    writes: Arc<Mutex<OwnWrites>>,
    /// Lanes whose last call has failed, so that a retry is scheduled.
    failing: Mutex<HashSet<ObjectKey>>,
    watched: RwLock<Vec<WatchedKind>>,
    /// Set when the controller is built.
    primary: OnceLock<Primary>,
}

/// The primary kind of a controller.
struct Primary {
    kind: KindId,
    /// Weak, because the filter of a user's reconciler holds this tracker.
    passes: Weak<EventFilter>,
}

/// Returns what the informers of a kind show of the object with a key.
type ReadShown = dyn Fn(&ObjectKey) -> Shown + Send + Sync;

/// A kind of a controller, with erased types.
struct WatchedKind {
    resource: String,
    types: ApiResource,
    shown: Box<ReadShown>,
}

/// The writes of one call.
pub(super) struct CallWriter {
    tracker: Arc<OwnWriteTracker>,
    recorder: CallRecorder,
    client: OnceLock<Client>,
    /// Woken if the object is reconciled again because of an event during the call.
    target: Target,
}

/// Whether a call can begin.
pub(super) enum Begin {
    Now { is_stale: bool },
    After(Duration),
}

// === impl OwnWriteTracker ===

impl OwnWriteTracker {
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            writes: Arc::new(Mutex::new(OwnWrites::new(timeout))),
            failing: Mutex::default(),
            watched: RwLock::default(),
            primary: OnceLock::new(),
        }
    }

    /// Whether own writes are waited for and recognized.
    pub(super) fn recognizes(&self) -> bool {
        self.writes.lock().recognizes()
    }

    /// Adds a kind whose stores show own writes.
    pub(super) fn watch<C: Watchable>(&self, informers: &Informers<C>) {
        let types = ApiResource::erase::<C>(informers.types());
        let shown = informers.clone();
        self.watched.write().push(WatchedKind {
            resource: resource_name::<C>(informers.types()),
            types,
            shown: Box::new(move |key| shown.shown(key)),
        });
    }

    /// Sets the primary kind, and the filter of its events.
    pub(super) fn set_primary(&self, kind: KindId, passes: &Arc<EventFilter>) {
        let passes = Arc::downgrade(passes);
        _ = self.primary.set(Primary { kind, passes });
    }

    /// Whether `is` is true of what each kind with this resource shows.
    fn shown_by_all(&self, resource: &str, key: &ObjectKey, is: &dyn Fn(&Shown) -> bool) -> bool {
        let watched = self.watched.read();
        let mut kinds = watched.iter().filter(|kind| kind.resource == resource);
        kinds.all(|kind| is(&(kind.shown)(key)))
    }

    /// Whether a call for `lane` can begin. Asks the server for its version after a write with an
    /// unknown result.
    pub(super) async fn before_call(
        &self,
        lane: &ObjectKey,
        client: &Client,
        mut now: Instant,
    ) -> Begin {
        /// The pause after a question that the server did not answer in time.
        const PAUSE: Duration = Duration::from_secs(1);
        let mut has_asked = false;
        loop {
            let by_all = |resource: &str, key: &ObjectKey, is: &dyn Fn(&Shown) -> bool| {
                self.shown_by_all(resource, key, is)
            };
            let ready = self.writes.lock().before_call(lane, now, &by_all);
            match ready {
                Readiness::Ready => return Begin::Now { is_stale: false },
                Readiness::Stale => return Begin::Now { is_stale: true },
                Readiness::Wait(wait) => return Begin::After(wait),
                // The worker is not held while the server does not answer.
                Readiness::FindVersions(_) if has_asked => return Begin::After(PAUSE),
                Readiness::FindVersions(scopes) => {
                    has_asked = true;
                    for scope in scopes {
                        let version = self.version(&scope, client).await;
                        now = Instant::now();
                        self.writes.lock().passes(lane, &scope, version, now);
                    }
                }
            }
        }
    }

    /// The current version of the server for the objects in `scope`: the one of a list of them.
    async fn version(&self, scope: &Scope, client: &Client) -> Option<u64> {
        /// The limit of the request: a call waits for it.
        const LIMIT: Duration = Duration::from_secs(5);
        type Objects = Api<PartialObjectMeta<DynamicObject>>;
        let api: Objects = {
            let watched = self.watched.read();
            let kind = (watched.iter()).find(|kind| kind.resource == *scope.resource)?;
            match &scope.namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.types),
                None => Api::all_with(client.clone(), &kind.types),
            }
        };
        let one = ListParams::default().limit(1);
        let list = timeout(LIMIT, api.list_metadata(&one)).await.ok()?.ok()?;
        parse_version(list.metadata.resource_version.as_deref()?)
    }

    /// Begins a call. `target` is woken if its object has to be reconciled again.
    pub(super) fn begin(
        self: &Arc<Self>,
        lane: &ObjectKey,
        mode: Mode,
        target: Target,
    ) -> CallWriter {
        let by_all = |resource: &str, key: &ObjectKey, is: &dyn Fn(&Shown) -> bool| {
            self.shown_by_all(resource, key, is)
        };
        self.writes.lock().begin(lane, Instant::now(), &by_all);
        CallWriter {
            tracker: Arc::clone(self),
            recorder: CallRecorder {
                lane: lane.clone(),
                writes: Arc::clone(&self.writes),
                answers: Arc::default(),
                paused: (mode == Mode::Paused).then(Arc::default),
            },
            client: OnceLock::new(),
            target,
        }
    }

    /// Notes whether the last call of `lane` has failed, so that a retry is scheduled.
    pub(super) fn set_failing(&self, lane: &ObjectKey, is_failing: bool) {
        let mut failing = self.failing.lock();
        if is_failing {
            failing.insert(lane.clone());
        } else if !failing.is_empty() {
            failing.remove(lane);
        }
    }

    /// Forgets an object that was deleted, unless another one has its name.
    pub(super) fn forget(&self, lane: &ObjectKey, has_successor: impl Fn() -> bool) {
        self.failing.lock().remove(lane);
        if !has_successor() {
            self.writes.lock().forget(lane);
        }
    }

    fn has_writes(&self) -> bool {
        self.writes.lock().len() > 0
    }

    fn decide(&self, lane: &ObjectKey, mark: EventMark) -> EventDecision {
        // Locked until the event is noted: a call that is not repeated asks for it.
        let failing = self.failing.lock();
        let is_in_backoff = failing.contains(lane);
        self.writes.lock().event(lane, mark, is_in_backoff)
    }
}

// === impl OwnEvents ===

impl OwnEvents for OwnWriteTracker {
    fn wakes(
        &self,
        lane: &ObjectKey,
        resource: &str,
        event: &AnyEvent,
        is_from_list: bool,
    ) -> bool {
        let Some(object) = event.object().filter(|_| self.has_writes()) else {
            return true;
        };
        let is_deleted = matches!(event, Event::Deleted { .. });
        let version = object.resource_version().and_then(parse_version);
        let mark = EventMark {
            resource: Arc::from(resource),
            uid: object.uid().map(Arc::from),
            version: version.filter(|_| !is_deleted),
            is_from_watch: !is_from_list,
            is_new_generation: false,
            reason: Reasons::RELATED,
        };
        self.decide(lane, mark) == EventDecision::Wake
    }

    fn may_be_own_write(&self, kind: KindId, event: &AnyEvent) -> bool {
        let (Some(primary), Event::Updated { new, .. }) = (self.primary.get(), event) else {
            return false;
        };
        if primary.kind != kind || !self.writes.lock().has(&new.key()) {
            return false;
        }
        let Some(passes) = primary.passes.upgrade() else {
            return false;
        };
        // The filter can be code of the user.
        call_user_code("filter", || passes(event)).unwrap_or(true)
    }

    fn is_own_write(&self, resource: &str, event: &AnyEvent, is_from_list: bool) -> bool {
        let Event::Updated { old, new } = event else {
            return false;
        };
        let old = &**old.as_erased();
        let is_marked = |object: &dyn ErasedObject| object.metadata().deletion_timestamp.is_some();
        let mark = EventMark {
            resource: Arc::from(resource),
            uid: new.uid().map(Arc::from),
            version: new.resource_version().and_then(parse_version),
            is_from_watch: !is_from_list,
            is_new_generation: content::has_changed(old, &**new)
                || is_marked(&**new) != is_marked(old),
            reason: Reasons::CHANGED,
        };
        self.decide(&new.key(), mark) != EventDecision::Wake
    }

    fn not_repeated(&self, lane: &ObjectKey) -> Option<Reasons> {
        let mut failing = self.failing.lock();
        failing.remove(lane);
        self.writes.lock().not_repeated(lane)
    }
}

// === impl CallWriter ===

impl CallWriter {
    /// The client of the call, through `client`.
    pub(super) fn client(&self, client: impl FnOnce() -> Client) -> Client {
        let recording = || recording_client(client(), self.recorder.clone());
        self.client.get_or_init(recording).clone()
    }

    /// The newer one of the stored object and the responses of this call.
    pub(super) fn newest<C>(
        &self,
        resource: &str,
        key: &ObjectKey,
        stored: Option<LazyObject<C>>,
    ) -> Option<LazyObject<C>>
    where
        C: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        self.answers().lock().newest(resource, key, stored)
    }

    /// The objects that this call created and whose keys are not `known`.
    pub(super) fn created<C>(
        &self,
        resource: &str,
        known: impl Fn(&ObjectKey) -> bool,
    ) -> Vec<LazyObject<C>>
    where
        C: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        self.answers().lock().created(resource, known)
    }

    /// Whether a write of the call was refused because its object is paused.
    pub(super) fn has_refused(&self) -> bool {
        let paused = self.recorder.paused.as_ref();
        paused.is_some_and(|refused| refused.load(Ordering::Acquire))
    }

    /// Refuses a write because the object of the call is paused.
    pub(super) fn refuse(&self, method: &'static str, resource: &str, key: &ObjectKey) -> Failure {
        if let Some(refused) = &self.recorder.paused {
            refused.store(true, Ordering::Release);
        }
        let target = format!("{resource} {key}");
        Failure::new(WritePaused { method, target })
    }

    fn answers(&self) -> &Mutex<CallAnswers> {
        &self.recorder.answers
    }
}

/// Ends a call when it is dropped: also if the call is dropped before its end, or code of the user
/// keeps its context.
pub(super) struct RunningCall<'a>(pub(super) &'a CallWriter);

// === impl RunningCall ===

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let lane = &self.0.recorder.lane;
        let is_in_backoff = self.0.tracker.failing.lock().contains(lane);
        let reasons = self.0.tracker.writes.lock().end(lane, is_in_backoff);
        if let Some(reasons) = reasons {
            self.0.target.wake([lane.clone()], reasons);
        }
    }
}
