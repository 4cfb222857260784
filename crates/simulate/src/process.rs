//! One run of an operator in a simulation: its connection, its handlers, its external resources.

use std::{fmt, sync::Arc};

use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use windlass_informer::Informer;

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
    caches: Arc<Mutex<Vec<Cache>>>,
}

/// Reads what an informer has.
type Cache = Arc<dyn Fn() -> Contents + Send + Sync>;

/// What an informer has.
pub(crate) struct Contents {
    pub(crate) resource: String,
    pub(crate) has_synced: bool,
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
            caches: Arc::default(),
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
        SimulatedHandler::new(Arc::clone(&self.world), self.origin, name, handler)
    }

    /// Has the store of an informer checked at the end of the run: what it has must be what the
    /// server has.
    pub fn observe<K>(&self, informer: &Informer<K>)
    where
        K: Resource + Send + Sync + 'static,
    {
        let informer = informer.clone();
        let cache = move || {
            let objects = informer.store().list();
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
            Contents {
                resource: informer.resource().to_owned(),
                has_synced: informer.has_synced(),
                objects: cached.collect(),
            }
        };
        self.caches.lock().push(Arc::new(cache));
    }

    /// Writes a line into the trace.
    pub fn log(&self, text: impl AsRef<str>) {
        self.world.log(Some(self.origin), text.as_ref());
    }

    /// What the observed informers have.
    pub(crate) fn caches(&self) -> Vec<Contents> {
        let caches = self.caches.lock().clone();
        caches.iter().map(|cache| cache()).collect()
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.origin).finish()
    }
}
