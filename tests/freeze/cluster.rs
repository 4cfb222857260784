//! A server behind a proxy, with the objects that replicas reconcile.

use std::{sync::Mutex, thread, time::Duration};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::runtime::Runtime;
use windlass_apiserver::ApiServer;

use crate::{
    FINALIZED, LIMIT, OBJECTS, now,
    proxy::{Fault, Proxy, Write},
    real::RealServer,
    replica::Replica,
};

/// The server of a test.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Embedded,
    Real,
}

/// A server behind a recording proxy.
pub(crate) struct Cluster {
    runtime: Runtime,
    /// A client that does not use the proxy.
    client: Client,
    proxy: Proxy,
}

// === impl Cluster ===

impl Cluster {
    /// Starts the server. `seed` selects the writes that the proxy delays.
    pub(crate) fn start(kind: Kind, seed: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let client = runtime.block_on(async {
            match kind {
                Kind::Embedded => ApiServer::new().client(),
                Kind::Real => {
                    let mut config = RealServer::shared().config().await;
                    config.default_retry = false;
                    Client::try_from(config).expect("a client")
                }
            }
        });
        let rng = Mutex::new(StdRng::seed_from_u64(seed));
        let proxy = Proxy::start(client.clone(), now, move |parts| {
            let mut rng = rng.lock().expect("no panic");
            // Some writes are delayed for longer than a lease, but not those of the lease, nor its
            // creation: otherwise another replica than the first one leads.
            if parts.uri.path().contains("/leases") || !rng.random_bool(0.02) {
                return Fault::None;
            }
            Fault::Delayed(Duration::from_millis(rng.random_range(0..6000)))
        });
        let cluster = Self {
            proxy: runtime.block_on(proxy),
            runtime,
            client,
        };
        cluster.create("default", "freeze", OBJECTS);
        cluster
    }

    /// Creates this many objects with `label` in `namespace`.
    fn create(&self, namespace: &str, label: &str, objects: usize) {
        let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let create = |number| {
            let mut config = ConfigMap::default();
            let name = if label == "freeze" { "object" } else { label };
            config.metadata.name = Some(format!("{name}-{number}"));
            let labels = [(label.to_owned(), "yes".to_owned())];
            config.metadata.labels = Some(labels.into());
            let configs = configs.clone();
            async move { configs.create(&PostParams::default(), &config).await }
        };
        let created = stream::iter((0..objects).map(create)).buffer_unordered(8);
        let created: Vec<_> = self.runtime.block_on(created.collect());
        for created in created {
            created.expect("new");
        }
    }

    /// Starts a replica, which writes into a separate namespace.
    pub(crate) fn replica(&self, name: &str) -> Replica {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        let params = PostParams::default();
        let created = namespaces.create(&params, &namespace);
        self.runtime.block_on(created).expect("new");
        self.create(name, "freeze", OBJECTS);
        self.create(name, "finalized", FINALIZED);
        Replica::start(name, &self.proxy.url())
    }

    /// Waits until `replica` has added its finalizer to its objects, and deletes them, so that it
    /// begins to clean up. False if it ended before that.
    pub(crate) fn delete_finalized(&self, replica: &mut Replica) -> bool {
        let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), replica.name());
        let finalized = ListParams::default().labels("finalized=yes");
        let began = now();
        loop {
            let list = self.runtime.block_on(configs.list(&finalized));
            let list = list.expect("the server responds");
            if list.iter().all(|it| !it.finalizers().is_empty()) {
                break;
            }
            assert!(
                now() < began + LIMIT,
                "{} adds no finalizer",
                replica.name()
            );
            if replica.has_ended() {
                return false;
            }
            // Poll the writes of another process.
            thread::sleep(Duration::from_millis(10));
        }
        let params = DeleteParams::default();
        let deletes = (0..FINALIZED).map(|number| {
            let (configs, name) = (configs.clone(), format!("finalized-{number}"));
            let params = params.clone();
            async move { configs.delete(&name, &params).await.map(drop) }
        });
        let requests = stream::iter(deletes).buffer_unordered(8);
        let responses: Vec<_> = self.runtime.block_on(requests.collect());
        for response in responses {
            response.expect("it exists");
        }
        true
    }

    /// The writes of a replica, in the order of their arrival.
    pub(crate) fn writes(&self, replica: &str) -> Vec<Write> {
        let path = format!("/api/v1/namespaces/{replica}/");
        let is_its = |write: &&Write| write.path.starts_with(&path);
        (self.proxy).writes(|writes| writes.iter().filter(is_its).cloned().collect())
    }

    /// The number of writes of a replica that arrived and have no response yet.
    pub(crate) fn unanswered(&self, replica: &str) -> usize {
        let writes = self.writes(replica);
        writes.iter().filter(|it| it.answered.is_none()).count()
    }

    /// Waits for this many writes of `replica`. False if it ended before that.
    pub(crate) fn until_it_writes(&self, replica: &mut Replica, writes: usize) -> bool {
        let began = now();
        while self.writes(replica.name()).len() < writes {
            assert!(now() < began + LIMIT, "{} does not write", replica.name());
            if replica.has_ended() {
                return false;
            }
            // Poll the writes of other processes.
            thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// The arrival time of the last write of the lease. Only a leader writes it.
    pub(crate) fn last_renewal(&self) -> Duration {
        let is_lease = |write: &&Write| write.path.contains("/leases");
        let last = (self.proxy).writes(|writes| writes.iter().rfind(is_lease).cloned());
        last.expect("a leader").received
    }
}
