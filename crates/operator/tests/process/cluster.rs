//! An API server on a thread of its own, for operators whose runtime is blocked, and its lease.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Api, Config, api::PostParams};
use tokio::runtime::{Builder, Runtime};
use windlass_apiserver::ApiServer;
use windlass_operator::{LeaderElection, LeaderElectionBuilder};

pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// An API server on a thread of its own, with one `ConfigMap`.
pub(crate) struct Cluster {
    runtime: Runtime,
    pub(crate) server: ApiServer,
    url: String,
}

// === impl Cluster ===

impl Cluster {
    pub(crate) fn start() -> Self {
        let server = ApiServer::new();
        let (send, url) = mpsc::channel();
        let listener = server.clone();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listening = listener.listen(([127, 0, 0, 1], 0)).await.expect("a port");
                send.send(format!("http://{}", listening.addr()))
                    .expect("it is received");
                std::future::pending::<()>().await;
            });
        });
        let url = url.recv().expect("it listens");
        let runtime = Builder::new_current_thread().enable_all().build();
        let cluster = Self {
            runtime: runtime.expect("a runtime"),
            server,
            url,
        };
        let mut config = ConfigMap::default();
        config.metadata.name = Some("web".to_owned());
        cluster.runtime.block_on(async {
            let configs: Api<ConfigMap> = Api::namespaced(cluster.server.client(), "default");
            let created = configs.create(&PostParams::default(), &config).await;
            created.expect("it is new");
        });
        cluster
    }

    pub(crate) fn config(&self) -> Config {
        Config::new(self.url.parse().expect("a URL"))
    }

    /// An election that renews on a thread of its own.
    pub(crate) fn election(&self) -> LeaderElectionBuilder {
        LeaderElection::builder(self.config(), "default", "web")
            .identity("us")
            .lease_duration(LEASE)
            .renew_deadline(Duration::from_secs(2))
            .retry_period(Duration::from_millis(200))
    }

    /// The time of the last renewal, as text; `None` before the lease exists. Not on a thread of a
    /// runtime.
    pub(crate) fn renewed(&self) -> Option<String> {
        let lease = self.runtime.block_on(async {
            let leases: Api<Lease> = Api::namespaced(self.server.client(), "default");
            leases.get_opt("web").await.expect("an answer")
        });
        let renewed = lease?.spec.and_then(|it| it.renew_time);
        Some(format!("{:?}", renewed.expect("a time")))
    }

    /// Waits until the lease exists, and was not renewed for longer than it lasts.
    pub(crate) fn wait_for_expiry(&self) {
        for _ in 0..20 {
            let renewed = self.renewed();
            // Real time, because a lease expires in real time.
            thread::sleep(LEASE + Duration::from_secs(1));
            if renewed.is_some() && self.renewed() == renewed {
                return;
            }
        }
        panic!("the lease is renewed");
    }
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
