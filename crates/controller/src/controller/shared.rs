//! What the tasks of a controller share.

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_informer::{InformerMetrics, ObjectKey, Stored};

use super::{
    builder::Settings,
    engine::Engine,
    feed::Feed,
    notice::{Notice, Owed},
    shelf::{Shelf, Shelved},
};
use crate::{
    AddError, AnyObject, BuildError, Fence, FencePermit, HandlerId,
    metrics::{KindMetrics, Metrics},
    route::{By, KindId, ObjectType, Role, Route},
    schedule::{Class, LaneKey, Pending, Reason},
    work::{Handle, Map, ask},
};

/// What the tasks of a controller share.
pub(crate) struct Shared {
    pub(super) settings: Settings,
    pub(super) engine: Arc<Engine<Notice, Owed>>,
    pub(super) route: RwLock<Route>,
    /// By the number of the kind.
    pub(super) kinds: RwLock<Vec<Arc<KindMetrics>>>,
    /// How often the two have changed, and once more.
    changes: AtomicU64,
    pub(super) feeds: RwLock<Vec<Fed>>,
    /// Told when an informer is added.
    pub(super) fed: Notify,
    pub(super) shelf: Mutex<Shelf>,
    /// Whether something has ever been given up: where nothing was, nobody need look.
    shelved: AtomicBool,
    pub(super) metrics: Metrics,
    pub(super) informer_metrics: InformerMetrics,
    pub(super) random: Mutex<StdRng>,
    /// What the retry policy says of itself.
    pub(super) max_attempts: Option<u32>,
    pub(super) ran: AtomicBool,
    /// Permits calls; without one every call is permitted.
    pub(super) fence: OnceLock<Fence>,
}

/// An informer, and the kind that it feeds.
pub(super) struct Fed {
    pub(super) kind: KindId,
    pub(super) feed: Arc<dyn Feed>,
    pub(super) stop: CancellationToken,
    pub(super) started: bool,
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
        let informer_metrics = InformerMetrics::new(prefix).map_err(refused)?;
        let random = match settings.seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::from_os_rng(),
        };
        let max_attempts = ask("retry_policy", || settings.retry.max_attempts());
        Ok(Self {
            settings,
            engine: Arc::default(),
            route: RwLock::default(),
            kinds: RwLock::default(),
            changes: AtomicU64::new(1),
            feeds: RwLock::default(),
            fed: Notify::new(),
            shelf: Mutex::default(),
            shelved: AtomicBool::new(false),
            metrics,
            informer_metrics,
            random: Mutex::new(random),
            max_attempts: max_attempts.flatten(),
            ran: AtomicBool::new(false),
            fence: OnceLock::new(),
        })
    }

    /// Waits until the fence, if there is one, permits a call.
    pub(super) async fn permit(&self) -> Option<FencePermit> {
        match self.fence.get() {
            Some(fence) => Some(fence.permit().await),
            None => None,
        }
    }

    /// The kind called `name`, made if it is new.
    pub(super) fn kind<K: Stored>(&self, name: &str, by: By) -> Result<KindId, AddError> {
        let mut route = self.route.write();
        let id = route.kind(name, ObjectType::of::<K::Object>())?;
        route.form(id, ObjectType::of::<K>(), by)?;
        let name = route.name(id);
        drop(route);
        let mut kinds = self.kinds.write();
        if kinds.len() <= id.0 as usize {
            kinds.push(Arc::new(KindMetrics::new(&self.metrics, &name)));
            self.changed();
        }
        Ok(id)
    }

    /// How often chains have changed, for whoever knows them. What was changed before is there.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that a chain has changed: after that, and before anybody is told so.
    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub(super) fn kind_metrics(&self, kind: KindId) -> Arc<KindMetrics> {
        Arc::clone(&self.kinds.read()[kind.0 as usize])
    }

    pub(super) fn add<K: Stored>(
        &self,
        kind: &str,
        role: Role,
        code: Box<dyn Handle>,
    ) -> Result<HandlerId, AddError> {
        let kind = self.kind::<K>(kind, By::Handler)?;
        let mut route = self.route.write();
        let id = route.add(kind, role, code);
        // Before anybody can read the chain: whoever is called may be owed a call.
        self.engine.admit(id);
        self.changed();
        Ok(id)
    }

    pub(super) fn remove(&self, kind: &str, role: Role, id: Option<HandlerId>) -> usize {
        let gone = {
            let mut route = self.route.write();
            let Some(kind) = route.find(kind) else {
                return 0;
            };
            let gone = route.remove(kind, |it| {
                it.role == role && id.is_none_or(|id| it.id == id)
            });
            self.changed();
            gone
        };
        for id in &gone {
            self.engine.cancel(*id);
            let _shelved = self.shelf.lock().cancel(*id);
        }
        gone.len()
    }

    /// Adds a mapper from the kind called `kind` to the one called `to`, which is there already.
    pub(super) fn add_mapper<K: Stored>(
        &self,
        kind: &str,
        to: &str,
        code: Box<dyn Map>,
    ) -> Result<HandlerId, AddError> {
        let to = self.route.read().find(to).ok_or_else(|| {
            let kind = to.to_owned();
            AddError::UnknownKind { kind }
        })?;
        let kind = self.kind::<K>(kind, By::Handler)?;
        Ok(self.route.write().add_mapper(kind, to, code))
    }

    pub(super) fn remove_mappers(&self, kind: &str, id: Option<HandlerId>) -> usize {
        let mut route = self.route.write();
        let kind = route.find(kind);
        kind.map_or(0, |kind| route.remove_mappers(kind, id))
    }

    /// Keeps a call that was given up, unless its handler is gone.
    pub(super) fn shelve(&self, call: Shelved) {
        let handler = (self.route.read()).handler(call.lane.kind, call.told.handler);
        if handler.is_some() {
            self.shelved.store(true, Ordering::Release);
            let _gone = self.shelf.lock().put(call);
        }
    }

    /// Forgets what was given up for an object by those who are told of something new.
    pub(super) fn unshelve(&self, key: &LaneKey, told: impl Fn(HandlerId) -> bool) {
        // What was given up for this object was so in a turn before this one.
        if self.shelved.load(Ordering::Acquire) {
            let _gone = self.shelf.lock().clear(key, told);
        }
    }

    /// Makes a call again that was given up, as if it had not been made before.
    pub(super) fn redrive(&self, number: u64) -> bool {
        let Some(call) = self.shelf.lock().take(number) else {
            return false;
        };
        let pending = Pending {
            handler: call.told.handler,
            action: call.told.action,
            reason: Reason::Failed,
            due: self.engine.now(),
            overtaken: false,
            call: Owed {
                attempt: 0,
                ..call.call
            },
        };
        self.engine.owe(call.lane, pending);
        true
    }

    /// The newest state of an object, of whichever informer has it.
    pub(super) fn latest(&self, kind: KindId, key: &ObjectKey) -> Option<Arc<dyn AnyObject>> {
        let feeds = self.feeds.read();
        let mut feeds = feeds.iter().filter(|fed| fed.kind == kind);
        feeds.find_map(|fed| fed.feed.latest(key))
    }

    /// Has those of `keys` told again that are there, of whichever informers have them. Returns
    /// how many those are.
    pub(super) fn wake(&self, kind: KindId, keys: &HashSet<ObjectKey>, class: Class) -> usize {
        let feeds = self.feeds.read();
        let feeds = feeds.iter().filter(|fed| fed.kind == kind);
        feeds.map(|fed| fed.feed.wake(keys, class)).sum()
    }

    /// A number in `[0, 1)`.
    pub(super) fn random(&self) -> f64 {
        self.random.lock().random()
    }
}
