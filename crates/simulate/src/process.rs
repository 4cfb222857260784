//! One run of an operator in a simulation: its connection, its handlers, its external resources.

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

/// One run of an operator in a simulation, from its start to its end or crash.
///
/// Everything that the operator does to the world goes through it: requests through
/// [`client`](Self::client), writes to anything else through [`external`](Self::external).
/// Clones are the same process.
#[derive(Clone)]
pub struct Process {
    world: Arc<World>,
    origin: Origin,
    stop: CancellationToken,
    caches: Caches,
}

/// The informers of a process that are observed.
#[derive(Clone, Default)]
pub(crate) struct Caches(Arc<Mutex<Vec<Arc<dyn Observed>>>>);

/// An informer that is observed.
trait Observed: Send + Sync {
    fn resource(&self) -> &str;
    fn has_synced(&self) -> bool;
    fn is_stopped(&self) -> bool;
    fn contents(&self) -> Contents;
}

/// What an informer has.
pub(crate) struct Contents {
    pub(crate) resource: String,
    pub(crate) has_synced: bool,
    /// What is wrong with its watch, by its own account.
    pub(crate) problem: Option<String>,
    pub(crate) objects: Vec<Cached>,
}

/// An object in the store of an informer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cached {
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
            caches: Caches::default(),
        }
    }

    /// A client of the simulated API server, in the namespace `default`. Faults happen to its
    /// requests, replies and watches.
    ///
    /// # Panics
    ///
    /// Outside of the simulation, as every kube client panics outside of a tokio runtime.
    #[must_use]
    pub fn client(&self) -> Client {
        let connection = Connection::new(Arc::clone(&self.world), self.origin);
        Client::new(connection, "default")
    }

    /// Cancelled when the process is to end in good order ([`Fault::Restart`](crate::Fault)).
    /// A process that ignores it is dropped 30 s later.
    #[must_use]
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Which replica it is, from 0.
    #[must_use]
    pub const fn replica(&self) -> usize {
        self.origin.replica
    }

    /// A name that no other process of the run has: an identity for leader election.
    #[must_use]
    pub fn name(&self) -> String {
        format!(
            "replica-{}-{}",
            self.origin.replica, self.origin.incarnation
        )
    }

    /// Resources outside of the cluster, such as DNS records. They outlive the process and are
    /// part of the end state.
    #[must_use]
    pub fn external(&self) -> External {
        External::new(Arc::clone(&self.world), self.origin)
    }

    /// Puts faults around the calls of a watcher or reconciler, and checks that calls for one
    /// object do not overlap and that versions never go back. `name` is how a report names it.
    ///
    /// A handler inside of an opinionated wrapper is given to it before it is wrapped.
    #[must_use]
    pub fn handler<H>(&self, name: &str, handler: H) -> SimulatedHandler<H> {
        let (world, caches) = (Arc::clone(&self.world), self.caches.clone());
        SimulatedHandler::new(world, self.origin, caches, name, handler)
    }

    /// Has an informer checked. At the end of the run its store must have what the server has, of
    /// the namespace and with the selectors that it watches, and its health must say that its
    /// watch is up. No call of a [`handler`](Self::handler) of this process may begin before its
    /// first list is complete.
    ///
    /// If the process watches several selections of one kind, the store must have what the server
    /// has of one of them.
    pub fn observe<K>(&self, informer: &Informer<K>)
    where
        K: Resource + Send + Sync + 'static,
    {
        self.caches.0.lock().push(Arc::new(informer.clone()));
    }

    /// Writes a line into the trace.
    pub fn log(&self, text: impl AsRef<str>) {
        self.world.log(Some(self.origin), text.as_ref());
    }

    pub(crate) const fn origin(&self) -> Origin {
        self.origin
    }

    /// What the observed informers have.
    pub(crate) fn caches(&self) -> Vec<Contents> {
        let caches = self.caches.0.lock().clone();
        caches.iter().map(|cache| cache.contents()).collect()
    }
}

// === impl Cached ===

impl Cached {
    /// An object of the server.
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

// === impl Caches ===

impl Caches {
    /// The resource of an informer that has not synced, if there is one.
    pub(crate) fn not_synced(&self) -> Option<String> {
        let caches = self.0.lock();
        // One that was stopped may have synced before: its last calls are made now.
        let late = caches
            .iter()
            .find(|it| !it.has_synced() && !it.is_stopped());
        late.map(|cache| cache.resource().to_owned())
    }
}

impl<K> Observed for Informer<K>
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

    fn contents(&self) -> Contents {
        let objects = self.store().list();
        let cached = objects.iter().map(|object| {
            let meta = object.meta().clone();
            Cached {
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
        Contents {
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
