//! An API server, for operators whose runtime is blocked, and its lease.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process,
    sync::mpsc,
    thread,
    time::{Duration, SystemTime},
};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace},
};
use kube::{Api, Client, Config, api::PostParams, config::KubeConfigOptions};
use tokio::runtime::{Builder, Runtime};
use windlass_apiserver::ApiServer;
use windlass_operator::{LeaderElection, LeaderElectionBuilder};

use crate::child::{Kind, LIMIT, kubeconfig};

/// A namespace of an API server, with one `ConfigMap`. The embedded server is on a thread of its own.
pub(crate) struct Cluster {
    runtime: Runtime,
    config: Config,
    client: Client,
    namespace: String,
}

// === impl Cluster ===

impl Cluster {
    /// Uses the server of this kind, in a child process. Not on a thread of a runtime.
    pub(crate) fn start(kind: Kind) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let config = match kind {
            Kind::Embedded => Config::new(embedded().parse().expect("a URL")),
            Kind::Real => {
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(kubeconfig(), &options);
                runtime
                    .block_on(config)
                    .expect("the kubeconfig is complete")
            }
        };
        let client = runtime.block_on(async { Client::try_from(config.clone()) });
        let cluster = Self {
            runtime,
            config,
            client: client.expect("a client"),
            // The tests share the real server.
            namespace: format!("process-{}", process::id()),
        };
        cluster.runtime.block_on(async {
            let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(cluster.namespace.clone());
            let created = namespaces.create(&PostParams::default(), &namespace).await;
            created.expect("it is new");
        });
        cluster.create("web");
        cluster
    }

    /// Creates a `ConfigMap`. Not on a thread of a runtime.
    pub(crate) fn create(&self, name: &str) {
        let mut config = ConfigMap::default();
        config.metadata.name = Some(name.to_owned());
        self.runtime.block_on(async {
            let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
            let created = configs.create(&PostParams::default(), &config).await;
            created.expect("it is new");
        });
    }

    pub(crate) fn config(&self) -> Config {
        self.config.clone()
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// An election that renews on a thread of its own. The lease outlasts a pause of the machine.
    pub(crate) fn election(&self) -> LeaderElectionBuilder {
        LeaderElection::builder(self.config(), &self.namespace, "web")
            .identity("us")
            .lease_duration(Duration::from_secs(60))
            .renew_deadline(Duration::from_secs(50))
            .retry_period(Duration::from_millis(200))
    }

    /// The time of the last renewal, as text; `None` before the lease exists. Not on a thread of a
    /// runtime.
    pub(crate) fn renewed(&self) -> Option<String> {
        let renewed = self.lease()?.spec.and_then(|it| it.renew_time);
        Some(format!("{:?}", renewed.expect("a time")))
    }

    /// The holder of the lease; `None` if it is released. Not on a thread of a runtime.
    pub(crate) fn holder(&self) -> Option<String> {
        let holder = self.lease()?.spec.and_then(|it| it.holder_identity);
        holder.filter(|it| !it.is_empty())
    }

    fn lease(&self) -> Option<Lease> {
        self.runtime.block_on(async {
            let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
            leases.get_opt("web").await.expect("an answer")
        })
    }

    /// Waits until the lease was renewed `count` times. Not on a thread of a runtime.
    pub(crate) fn wait_for_renewals(&self, count: usize) {
        let mut last = self.renewed();
        for _ in 0..count {
            let began = SystemTime::now();
            // Ends: the lease is renewed, or the timeout passes.
            while self.renewed() == last {
                assert!(began.elapsed().unwrap_or_default() < LIMIT, "no renewal");
                // A lease is polled: a watch would need a descriptor.
                thread::sleep(Duration::from_millis(20));
            }
            last = self.renewed();
        }
    }

    /// Waits until the lease exists, and was not renewed for longer than `lease`, which it lasts.
    pub(crate) fn wait_for_expiry(&self, lease: Duration) {
        let (began, mut since) = (SystemTime::now(), SystemTime::now());
        let mut last = None;
        while began.elapsed().unwrap_or_default() < 2 * LIMIT {
            let renewed = self.renewed();
            if renewed.is_none() || renewed != last {
                (last, since) = (renewed, SystemTime::now());
            } else if since.elapsed().unwrap_or_default() > lease + Duration::from_secs(1) {
                return;
            }
            // Real time, because a lease expires in real time.
            thread::sleep(Duration::from_millis(200));
        }
        panic!("the lease is renewed");
    }
}

/// Starts an embedded server on a thread of its own. Returns its URL.
fn embedded() -> String {
    let (send, url) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let server = ApiServer::new();
            let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
            send.send(format!("http://{}", listening.addr()))
                .expect("it is received");
            std::future::pending::<()>().await;
        });
    });
    url.recv().expect("it listens")
}

/// The response to a `GET` of `path`.
pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}
