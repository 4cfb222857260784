//! A simulated process of an operator: its client, its handlers and its external resources.

use std::{fmt, sync::Arc};

use kube::{Client, Resource};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_informer::{HealthState, Informer};

use crate::{
    External, SimulatedHandler,
    connection::Connection,
    world::{Origin, World},
};

/// A simulated process of an operator, from its start to its end or crash.
///
/// The operator must use it for all effects: [`client`](Self::client) for requests to the API
/// server, and [`external`](Self::external) for all other writes. Clones refer to the same process.
#[derive(Clone)]
pub struct Process {
    world: Arc<World>,
    origin: Origin,
    stop: CancellationToken,
    informers: ObservedInformers,
}

/// The informers of a process that were registered with [`Process::observe`].
#[derive(Clone, Default)]
pub(crate) struct ObservedInformers(Arc<Mutex<Vec<Arc<dyn ObservedInformer>>>>);

/// A type-erased informer of a process.
trait ObservedInformer: Send + Sync {
    fn resource(&self) -> &str;
    fn has_synced(&self) -> bool;
    fn is_stopped(&self) -> bool;
    fn snapshot(&self) -> InformerSnapshot;
}

/// The state of an informer: its store and its health.
pub(crate) struct InformerSnapshot {
    pub(crate) resource: String,
    pub(crate) has_synced: bool,
    /// The problem that the health of the informer reports, if any.
    pub(crate) problem: Option<String>,
    pub(crate) objects: Vec<CachedObject>,
}

/// The identity and version of an object in the store of an informer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CachedObject {
    pub(crate) key: String,
    pub(crate) uid: String,
    pub(crate) version: String,
}

// === impl Process ===

impl Process {
    pub(crate) fn new(world: Arc<World>, origin: Origin, stop: CancellationToken) -> Self {
        Self {
            world,
            origin,
            stop,
            informers: ObservedInformers::default(),
        }
    }

    /// Returns a client of the simulated API server, with the default namespace `default`. Faults
    /// are injected into its requests, responses and watches.
    ///
    /// # Panics
    ///
    /// Outside of the simulation: every kube client panics outside of a tokio runtime.
    #[must_use]
    pub fn client(&self) -> Client {
        let connection = Connection::new(Arc::clone(&self.world), self.origin);
        Client::new(connection, "default")
    }

    /// Returns a token that is cancelled when the process has to shut down gracefully
    /// ([`Fault::Restart`](crate::Fault)). A process that is still running 30 s later is dropped.
    #[must_use]
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// The index of the replica, counted from 0.
    #[must_use]
    pub const fn replica(&self) -> usize {
        self.origin.replica
    }

    /// A name that is unique among the processes of the run: an identity for leader election.
    #[must_use]
    pub fn name(&self) -> String {
        format!(
            "replica-{}-{}",
            self.origin.replica, self.origin.incarnation
        )
    }

    /// Returns the resources outside of the cluster, such as DNS records. They outlive the process
    /// and are part of the end state.
    #[must_use]
    pub fn external(&self) -> External {
        External::new(Arc::clone(&self.world), self.origin)
    }

    /// Wraps a watcher, a reconciler, the reconciler of a `Controller`, an `ApplyCleanup`, a
    /// `KeyedResource` or an `AsyncCompositeHandler`: injects faults into its calls, and checks that calls for one object do not
    /// overlap and that their versions never decrease. Reports use `name`.
    ///
    /// At the end of a run, each object that a handler was called for was called for in its newest
    /// state, and for its deletion. The reconciler of a `Controller` is level-triggered: it was called
    /// for each object that exists, and need not be called for a deletion, but for the clean-up of an
    /// object that had a finalizer if the controller has one.
    ///
    /// Wrap a handler with this method before you wrap it with `OpinionatedWatcher` or
    /// `OpinionatedReconciler`.
    #[must_use]
    pub fn handler<H>(&self, name: &str, handler: H) -> SimulatedHandler<H> {
        let (world, informers) = (Arc::clone(&self.world), self.informers.clone());
        SimulatedHandler::new(world, self.origin, informers, name, handler)
    }

    /// Registers an informer for checks. At the end of the run its store must equal the objects of
    /// the server in the namespace and with the selectors that it watches, and its health must
    /// report a working watch. No call of a [`handler`](Self::handler) of this process may begin
    /// before the first list of the informer is complete.
    ///
    /// If the process watches several selections of one kind, the store must equal one of them.
    pub fn observe<K>(&self, informer: &Informer<K>)
    where
        K: Resource + Send + Sync + 'static,
    {
        self.informers.0.lock().push(Arc::new(informer.clone()));
    }

    /// Writes a line into the trace.
    pub fn log(&self, text: impl AsRef<str>) {
        self.world.log(Some(self.origin), text.as_ref());
    }

    pub(crate) const fn origin(&self) -> Origin {
        self.origin
    }

    /// The states of the observed informers.
    pub(crate) fn informer_snapshots(&self) -> Vec<InformerSnapshot> {
        let informers = self.informers.0.lock().clone();
        informers.iter().map(|it| it.snapshot()).collect()
    }
}

// === impl CachedObject ===

impl CachedObject {
    /// The identity and version of an object of the server.
    pub(crate) fn of(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        Self {
            key: format!("{}/{}", text("namespace"), text("name")),
            uid: text("uid"),
            version: text("resourceVersion"),
        }
    }
}

// === impl ObservedInformers ===

impl ObservedInformers {
    /// The resource of the first informer that has not synced, if any.
    pub(crate) fn not_synced(&self) -> Option<String> {
        let informers = self.0.lock();
        // An informer that was stopped may have synced before: its last calls are still allowed.
        let late = informers
            .iter()
            .find(|it| !it.has_synced() && !it.is_stopped());
        late.map(|informer| informer.resource().to_owned())
    }
}

impl<K> ObservedInformer for Informer<K>
where
    K: Resource + Send + Sync + 'static,
{
    fn resource(&self) -> &str {
        Self::resource(self)
    }

    fn has_synced(&self) -> bool {
        Self::has_synced(self)
    }

    fn is_stopped(&self) -> bool {
        matches!(self.health().state, HealthState::Stopped)
    }

    fn snapshot(&self) -> InformerSnapshot {
        let objects = self.store().list();
        let cached = objects.iter().map(|object| {
            let meta = object.meta().clone();
            CachedObject {
                key: format!(
                    "{}/{}",
                    meta.namespace.unwrap_or_default(),
                    meta.name.unwrap_or_default()
                ),
                uid: meta.uid.unwrap_or_default(),
                version: meta.resource_version.unwrap_or_default(),
            }
        });
        let health = self.health();
        let is_up = matches!(health.state, HealthState::Listing | HealthState::Watching);
        InformerSnapshot {
            resource: self.resource().to_owned(),
            has_synced: self.has_synced(),
            problem: (!is_up).then(|| health.to_string()),
            objects: cached.collect(),
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.origin).finish()
    }
}
