//! A cluster for one test: a fresh embedded server, or a fresh namespace of the real one.

use std::{fmt::Debug, future::Future, time::Duration};

use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, Resource, ResourceExt as _,
    api::{ObjectMeta, PostParams},
    client::ClientBuilder,
    core::NamespaceResourceScope,
    runtime::{
        wait::{self, Condition, conditions},
        watcher,
    },
};
use libtest_mimic::Trial;
use rand::Rng as _;
use serde::de::DeserializeOwned;
use tokio::{sync::RwLock, time::timeout};
use tower::Layer as _;
use windlass_apiserver::{ApiServer, Listening, Profile};

use crate::{
    connection::Connection,
    real::RealServer,
    trial::{ignore, trial},
};

/// Which of the two servers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Embedded,
    Real,
}

/// Whether some test needs the history of the shared server just now.
static HISTORY: RwLock<()> = RwLock::const_new(());

/// A cluster that one test has for itself.
pub(crate) struct Cluster {
    server: Server,
    namespace: String,
    connection: Connection,
    /// Reaches the server by another way than the one a test cuts.
    aside: Client,
}

enum Server {
    Embedded(ApiServer),
    Real(&'static RealServer),
}

/// Runs each test body on both servers.
macro_rules! on_both_servers {
    ($($(#[$meta:meta])* async fn $name:ident($cluster:ident: Cluster) $body:block)+) => {
        $($(#[$meta])* async fn $name($cluster: $crate::cluster::Cluster) $body)+

        /// The tests of this module, each on both servers.
        pub(crate) fn trials() -> Vec<::libtest_mimic::Trial> {
            let mut trials = Vec::new();
            $(trials.extend($crate::cluster::trials(module_path!(), stringify!($name), $name));)+
            trials
        }
    };
}

/// The number in an environment variable, if it is set.
///
/// # Panics
///
/// If its value is not a number.
pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(error) => panic!("{name}={text} is not a number: {error}"),
    }
}

/// The tests called `name` in `module`: the same body on each server.
pub(crate) fn trials<F: Future<Output = ()> + 'static>(
    module: &str,
    name: &str,
    body: fn(Cluster) -> F,
) -> [Trial; 2] {
    let of = |kind, server| {
        trial(&format!("{module}::{server}"), name, move || {
            run(kind, body);
        })
    };
    [
        of(Kind::Embedded, "embedded"),
        of(Kind::Real, "kube_apiserver"),
    ]
}

/// Runs one test body on one server.
fn run<F: Future<Output = ()>>(kind: Kind, body: fn(Cluster) -> F) {
    /// The timeout of one test: its condition does not become true. `WINDLASS_PATIENCE` sets another
    /// number of seconds, for long runs of random tests.
    const TIMEOUT_SECONDS: u64 = 300;
    let limit = Duration::from_secs(number("WINDLASS_PATIENCE").unwrap_or(TIMEOUT_SECONDS));

    if let Kind::Real = kind {
        RealServer::require();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let cluster = Cluster::of(kind).await;
        timeout(limit, body(cluster))
            .await
            .expect("the condition of the test becomes true before the timeout");
    });
}

/// The profile of the embedded server: that of the minor version in `WINDLASS_KUBERNETES_MINOR`,
/// which `cargo xtask test --minor` sets.
pub(crate) fn profile() -> Profile {
    match std::env::var("WINDLASS_KUBERNETES_MINOR").as_deref() {
        Err(_) | Ok("1.36") => Profile::V1_36,
        Ok("1.34") => Profile::V1_34,
        Ok(other) => panic!("WINDLASS_KUBERNETES_MINOR is {other}, not 1.34 or 1.36"),
    }
}

// === impl Cluster ===

impl Cluster {
    async fn of(kind: Kind) -> Self {
        let namespace = format!("test-{:08x}", rand::rng().random::<u32>());
        let connection = Connection::new();
        let (server, aside) = match kind {
            Kind::Embedded => {
                // No controllers run beside the real server either.
                let server = ApiServer::builder()
                    .profile(profile())
                    .garbage_collection(false)
                    .quota_status(false)
                    .start();
                let aside = Client::new(server.service(), "default");
                (Server::Embedded(server), aside)
            }
            Kind::Real => {
                let real = RealServer::shared();
                let client = Client::try_from(real.config().await).expect("a client");
                (Server::Real(real), client)
            }
        };
        let cluster = Self {
            server,
            namespace,
            connection,
            aside,
        };
        cluster.create_namespace(&cluster.namespace).await;
        cluster
    }

    /// A client whose list and watch requests pass the [`connection`](Self::connection).
    pub(crate) async fn client(&self) -> Client {
        match &self.server {
            Server::Embedded(server) => {
                Client::new(self.connection.layer(server.service()), &self.namespace)
            }
            Server::Real(real) => ClientBuilder::try_from(real.config().await)
                .expect("a client")
                .with_layer(&self.connection)
                .build(),
        }
    }

    /// A client without the test connection: cuts and pauses do not affect it.
    pub(crate) fn aside(&self) -> Client {
        self.aside.clone()
    }

    /// A client that hands on each answer as it comes, where kube's own would try again.
    pub(crate) async fn plain(&self) -> Client {
        match &self.server {
            Server::Embedded(_) => self.aside(),
            Server::Real(real) => {
                let mut config = real.config().await;
                config.default_retry = false;
                Client::try_from(config).expect("a client")
            }
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The objects of kind `K` in this test's namespace, through the [`connection`](Self::connection).
    pub(crate) async fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client().await, &self.namespace)
    }

    /// The same objects, by the other way.
    pub(crate) fn api_aside<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.aside(), &self.namespace)
    }

    /// The configuration of a client whose requests pass a socket. The embedded server answers on a
    /// port for as long as the guard lives.
    pub(crate) async fn config(&self) -> (Config, Option<Listening>) {
        match &self.server {
            Server::Embedded(server) => {
                let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
                let url = listening.url().parse().expect("a URL");
                (Config::new(url), Some(listening))
            }
            Server::Real(real) => (real.config().await, None),
        }
    }

    /// A kubeconfig for a program that is not ours, as YAML. The embedded server answers on
    /// a port for as long as the guard lives.
    pub(crate) async fn kubeconfig(&self) -> (String, Option<Listening>) {
        match &self.server {
            Server::Embedded(server) => {
                let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
                (listening.kubeconfig(), Some(listening))
            }
            Server::Real(real) => {
                let kubeconfig = serde_yaml_ng::to_string(&real.kubeconfig);
                (kubeconfig.expect("a kubeconfig"), None)
            }
        }
    }

    /// Keeps the history of a server that other tests share from being forgotten, for as
    /// long as the guard lives.
    pub(crate) async fn remember_history(&self) -> Option<impl Drop + use<>> {
        if self.is_shared() {
            Some(HISTORY.read().await)
        } else {
            None
        }
    }

    /// Whether this is the server in the process.
    pub(crate) const fn is_embedded(&self) -> bool {
        matches!(self.server, Server::Embedded(_))
    }

    /// The minor version that both servers have, such as `36`.
    pub(crate) fn minor() -> String {
        let version = profile().git_version();
        version
            .split('.')
            .nth(1)
            .expect("a version has it")
            .to_owned()
    }

    /// Whether a real server has the minor version of the embedded server's default profile. Only
    /// then a test can compare the messages and fields of both in detail.
    pub(crate) fn has_the_default_version(&self) -> bool {
        let minor = |version: &str| version.split('.').nth(1).map(str::to_owned);
        match &self.server {
            Server::Embedded(_) => true,
            Server::Real(real) => minor(&real.version) == minor(Profile::default().git_version()),
        }
    }

    /// Ends the test as ignored unless it [`has_the_default_version`](Self::has_the_default_version).
    pub(crate) fn require_the_default_version(&self) {
        if let Server::Real(real) = &self.server
            && !self.has_the_default_version()
        {
            let embedded = Profile::default().git_version();
            ignore(format!(
                "the real server is {}, the embedded one {embedded}",
                real.version
            ));
        }
    }

    /// Whether other tests use the same server. An embedded one has a history of its own: a test
    /// of it that waited for the tests of the real one would wait for minutes on a busy machine.
    const fn is_shared(&self) -> bool {
        matches!(self.server, Server::Real(_))
    }

    /// Makes everything before now too old to be asked for.
    pub(crate) async fn forget_history(&self) {
        let _alone = if self.is_shared() {
            Some(HISTORY.write().await)
        } else {
            None
        };
        // A compaction spares the newest revision, so that there must be a newer one than
        // any that the test has seen.
        let later = format!(
            "{}-later-{:08x}",
            self.namespace,
            rand::rng().random::<u32>()
        );
        self.create_namespace(&later).await;
        match &self.server {
            Server::Embedded(server) => server.compact(server.resource_version()),
            Server::Real(real) => real.compact(),
        }
    }

    /// A client of a user without permissions.
    pub(crate) async fn powerless(&self) -> Client {
        match &self.server {
            Server::Embedded(_) => {
                let server = ApiServer::builder()
                    .authorize(|_| windlass_apiserver::Decision::Deny)
                    .start();
                Client::new(server.service(), &self.namespace)
            }
            Server::Real(real) => with_token(real, &real.powerless_token).await,
        }
    }

    /// A client of the shared server with this token; nothing for the server in the process.
    pub(crate) async fn with_token(&self, token: &str) -> Option<Client> {
        match &self.server {
            Server::Embedded(_) => None,
            Server::Real(real) => Some(with_token(real, token).await),
        }
    }

    /// Makes sure that a kind exists, and waits until it is served.
    pub(crate) async fn install(&self, crd: &CustomResourceDefinition) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.aside());
        match crds.create(&PostParams::default(), crd).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => panic!("cannot install {}: {error}", crd.name_any()),
        }
        let name = crd.name_any();
        let served = await_condition(crds, &name, conditions::is_crd_established());
        served.await.expect("a kind that is served");
        let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
        let version = crd.spec.versions.iter().find(|it| it.served);
        let version = &version.expect("a served version").name;
        let path = format!("/apis/{group}/{version}/{plural}?limit=1");
        loop {
            let request = http::Request::get(&path).body(Vec::new());
            let listed = self.aside().request_text(request.expect("a request")).await;
            // The real server begins to serve a kind shortly after it says so.
            if !matches!(listed, Err(kube::Error::Api(status)) if status.is_not_found()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn create_namespace(&self, name: &str) {
        create_namespace(self.aside(), name).await;
    }
}

/// Creates a namespace through `client`.
pub(crate) async fn create_namespace(client: Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client);
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .expect("a fresh namespace");
}

async fn with_token(real: &RealServer, token: &str) -> Client {
    let mut config = real.config().await;
    config.auth_info = kube::config::AuthInfo {
        token: Some(token.to_owned().into()),
        ..Default::default()
    };
    Client::try_from(config).expect("a client")
}

/// Waits like kube's function, and begins anew if another test has compacted the shared history.
pub(crate) async fn await_condition<K>(
    api: Api<K>,
    name: &str,
    condition: impl Condition<K>,
) -> Result<Option<K>, wait::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    loop {
        let matches = |object: Option<&K>| condition.matches_object(object);
        match wait::await_condition(api.clone(), name, matches).await {
            Err(wait::Error::ProbeFailed(watcher::Error::WatchError(status)))
                if status.code == 410 => {}
            ended => return ended,
        }
    }
}
