//! The server: a builder, a handle, and what all its requests share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::authorize::{Attributes, Authorizer, Decision};
use crate::cluster::{Cluster, ClusterOptions};
use crate::containers::{ContainerSession, ForwardedPort, Hooks, LogRequest};
use crate::managed;
use crate::profile::Profile;
use crate::service::{ApiService, MutatingLimit};
use crate::status::Status;
use crate::store::{HistoryLimits, Table};

mod clock;
mod listen;
#[cfg(feature = "tls")]
mod tls;

use clock::Clock;
pub use listen::{ListenError, Listening};

/// How much history is kept by default.
///
/// The number of writes is about that of kube-apiserver's watch cache (102,400), the age that
/// after which etcd's history is compacted in a cluster, and the bytes are what a test process
/// can spare: they hold 20,000 updates of a `ConfigMap`.
const DEFAULT_HISTORY: HistoryLimits = HistoryLimits {
    writes: 100_000,
    bytes: 64 * 1024 * 1024,
    age: Duration::from_secs(5 * 60),
};

/// A Kubernetes API server in the process, in memory.
///
/// It is for first steps and tests, not for production: it needs no credentials and has no disk.
/// What it does and does not do stands row by row in
/// `docs/apiserver.md`.
///
/// # Contract
///
/// - **As Kubernetes.** Code that works on it works on a cluster: requests, answers,
///   errors and watches are worded as those of kube-apiserver, within what the
///   documentation lists.
/// - **One counter.** Each write, to whatever resource, gets the next resourceVersion.
/// - **In the runtime's time.** Timestamps and deadlines follow tokio's clock, so a test
///   on paused time never waits.
/// - A clone is another handle on the same server. The server itself has no task; it
///   lives as long as a handle, a service or a port of it.
///
/// # Example
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass_apiserver::ApiServer;
/// use http_body_util::{BodyExt, Empty};
/// use tower::ServiceExt;
///
/// let server = ApiServer::new();
/// let request = http::Request::get("/api/v1/namespaces/default").body(Empty::<&[u8]>::new())?;
/// let response = server.service().oneshot(request).await?;
/// assert_eq!(response.status(), 200);
///
/// let body = response.into_body().collect().await?.to_bytes();
/// let namespace: serde_json::Value = serde_json::from_slice(&body)?;
/// assert_eq!(namespace["status"]["phase"], "Active");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

/// How a server is to be.
#[derive(Debug)]
#[must_use = "a builder does nothing until the server is started"]
pub struct ApiServerBuilder {
    profile: Profile,
    seed: Option<u64>,
    wall_clock: Option<SystemTime>,
    cluster: ClusterOptions,
    authorizer: Option<Authorizer>,
    hooks: Hooks,
    uses_tls: bool,
    mutating: Option<NonZeroUsize>,
}

/// What all requests to a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The version counter, for requests that wait for a future version.
    revision: watch::Sender<u64>,
    clock: Clock,
    pub(crate) profile: Profile,
    authorizer: Option<Authorizer>,
    /// What answers for the containers of pods.
    pub(crate) hooks: Hooks,
    /// Whether ports speak TLS.
    uses_tls: bool,
    /// The limit of requests that are not reads.
    pub(crate) mutating: Option<MutatingLimit>,
    /// Whether roles decide what a user may do.
    evaluates_roles: bool,
    /// Cut to end all watches that run; then another one takes its place.
    cut: Mutex<CancellationToken>,
}

#[derive(Debug)]
struct State {
    cluster: Cluster,
    /// For the watches of each resource: the revision of its last write.
    written: BTreeMap<Table, watch::Sender<u64>>,
}

// === impl ApiServer ===

impl ApiServer {
    /// Starts a server with the built-in kinds and the namespaces that every cluster has.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().start()
    }

    /// Says how a server is to be before it is started.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder {
            profile: Profile::default(),
            seed: None,
            wall_clock: None,
            cluster: ClusterOptions {
                history: DEFAULT_HISTORY,
                collects_garbage: true,
                evaluates_roles: false,
                fills_namespaces: false,
                counts_quotas: true,
            },
            authorizer: None,
            hooks: Hooks::default(),
            uses_tls: false,
            mutating: None,
        }
    }

    /// The server as a tower service: what kube's `Client::new` takes.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.shared.clone())
    }

    /// A client of this server, in the namespace `default`.
    ///
    /// No socket is involved. The feature `kube` is needed for it, and a version feature of
    /// `k8s-openapi` in the program.
    ///
    /// # Panics
    ///
    /// If it is called outside of a tokio runtime, as every kube client does.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kube::Result<()> {
    /// let client = windlass_apiserver::ApiServer::new().client();
    /// assert_eq!(client.apiserver_version().await?.git_version, "v1.36.3");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "kube")]
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// Opens a loopback port for kubectl and clients in other languages, with HTTP/1.1
    /// and HTTP/2. Port 0 lets the system choose.
    ///
    /// # Errors
    ///
    /// [`ListenError`] if `addr` is not a loopback address, or the port can't be opened.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_apiserver::ListenError> {
    /// use windlass_apiserver::ApiServer;
    ///
    /// let listening = ApiServer::new().listen(([127, 0, 0, 1], 0)).await?;
    /// assert!(listening.url().starts_with("http://127.0.0.1:"));
    /// listening.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn listen(&self, addr: impl Into<SocketAddr>) -> Result<Listening, ListenError> {
        Listening::open(self, addr.into()).await
    }

    /// The counter: the resourceVersion of the last write.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.shared.read(|cluster| cluster.store.revision())
    }

    /// Every object that there is, with the name of its resource (`pods`, or `widgets.ex.io`), in
    /// the order of resources and lists. The objects have no `apiVersion` and no `kind`.
    #[must_use]
    pub fn objects(&self) -> Vec<(String, Value)> {
        self.shared.read(|cluster| {
            let all = cluster.store.all();
            all.map(|(table, stored)| {
                let mut object = stored.value().clone();
                managed::expand(&mut object);
                (table.to_string(), object)
            })
            .collect()
        })
    }

    /// Forgets the history before `resource_version`.
    ///
    /// A list or watch that requests it afterwards gets `410 Expired`. Running watches continue.
    pub fn compact(&self, resource_version: u64) {
        self.shared
            .write(|cluster, _| cluster.store.compact(resource_version));
    }

    /// Ends all watches that run, as a connection that breaks would; new ones may start
    /// at once.
    pub fn close_watches(&self) {
        std::mem::take(&mut *self.shared.cut.lock()).cancel();
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

// === impl ApiServerBuilder ===

impl ApiServerBuilder {
    /// Which Kubernetes to behave like. The default is the newest.
    pub fn profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// Makes uids and generated names the same in each run. Without a seed they differ.
    pub fn seed(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// Sets the time of day at the start, from which timestamps follow the runtime's time. The
    /// default is that of the operating system.
    ///
    /// A time that no timestamp of Kubernetes can hold is the default, too.
    pub fn wall_clock(self, time: SystemTime) -> Self {
        Self {
            wall_clock: Some(time),
            ..self
        }
    }

    /// Sets how many writes of each resource the history keeps. The default is 100,000.
    ///
    /// A watch that lags behind further is closed, and a list or watch from before gets
    /// `410 Expired`.
    pub fn history(mut self, writes: NonZeroUsize) -> Self {
        self.cluster.history.writes = writes.get();
        self
    }

    /// Sets how many bytes the history of all resources takes beside the current objects,
    /// estimated. The default is 64 MiB.
    ///
    /// The oldest writes are dropped first, with what [`history`](Self::history) says.
    pub fn history_bytes(mut self, bytes: NonZeroUsize) -> Self {
        self.cluster.history.bytes = bytes.get();
        self
    }

    /// Sets for how long the history keeps a write, in tokio's time. The default is five
    /// minutes, after which a cluster compacts its history.
    ///
    /// An old write is dropped when something is written after its time.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder()
    ///     .history_age(Duration::from_secs(3600))
    ///     .start();
    /// # drop(server);
    /// ```
    pub fn history_age(mut self, age: Duration) -> Self {
        self.cluster.history.age = age;
        self
    }

    /// Sets whether garbage is collected by owner references. The default is that it is.
    ///
    /// A cluster collects garbage: the children of an object go with it, in the background
    /// unless the deletion says `Foreground` or `Orphan`, and a child whose owners do not
    /// exist is deleted. An operator relies on it, and a test without it would pass with
    /// children that are never deleted or never owned. Here it happens within the request, so
    /// that a test has nothing to wait for.
    ///
    /// Without it the server behaves like a kube-apiserver for which no controllers run, such
    /// as envtest's: dependents stay, and the finalizers `orphan` and `foregroundDeletion`
    /// wait for a client that removes them. That suits tests of objects whose owners do not
    /// exist.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().garbage_collection(false).start();
    /// # drop(server);
    /// ```
    pub fn garbage_collection(mut self, enabled: bool) -> Self {
        self.cluster.collects_garbage = enabled;
        self
    }

    /// Sets whether each namespace has the service account `default` and the config map
    /// `kube-root-ca.crt`, as in a cluster. The default is that it has neither, as on a
    /// kube-apiserver for which no controllers run: a test that lists config maps then finds those
    /// that it created.
    ///
    /// Both are created with the namespace, come back when they are deleted, and go with the
    /// namespace. The certificate signs nothing, also not that of a port with TLS.
    ///
    /// The admission plugin for service accounts is then on, too: a new pod gets
    /// `serviceAccountName: default` if it names no account, the secrets for images of its account,
    /// and a volume `kube-api-access-xxxxx` with a token. A pod of an account that does not exist is
    /// refused with 403.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use http_body_util::Empty;
    /// use tower::ServiceExt;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().namespace_contents(true).start();
    /// let account = "/api/v1/namespaces/default/serviceaccounts/default";
    /// let request = http::Request::get(account).body(Empty::<&[u8]>::new())?;
    /// assert_eq!(server.service().oneshot(request).await?.status(), 200);
    /// # Ok(())
    /// # }
    /// ```
    pub fn namespace_contents(mut self, enabled: bool) -> Self {
        self.cluster.fills_namespaces = enabled;
        self
    }

    /// Sets whether the server fills in the status of each `ResourceQuota`, as the quota controller
    /// of a cluster does. The default is that it does.
    ///
    /// A request is checked against `status.hard` and `status.used` of the quotas of its namespace.
    /// Without a controller they stay empty until a client writes them, so that a quota limits
    /// nothing, as on envtest's kube-apiserver.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().quota_status(false).start();
    /// # drop(server);
    /// ```
    pub fn quota_status(mut self, enabled: bool) -> Self {
        self.cluster.counts_quotas = enabled;
        self
    }

    /// Sets whether the roles and bindings of `rbac.authorization.k8s.io` decide what a user may do.
    /// The default is that they do not, and everything is allowed.
    ///
    /// The server then has the roles that every cluster has, such as `view` and `cluster-admin`,
    /// and answers 403 to what no role allows. A request without a token is from a member of
    /// `system:masters`, who may do everything: to test the permissions of an operator, use a
    /// token of its service account or impersonate it. Where [`authorize`](Self::authorize) is
    /// used too, both have to allow a request.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use http_body_util::Empty;
    /// use tower::ServiceExt;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().rbac(true).start();
    /// let request = http::Request::get("/api/v1/namespaces/default/secrets")
    ///     .header("impersonate-user", "system:serviceaccount:default:operator")
    ///     .body(Empty::<&[u8]>::new())?;
    /// let response = server.service().oneshot(request).await?;
    /// assert_eq!(response.status(), 403);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rbac(mut self, enabled: bool) -> Self {
        self.cluster.evaluates_roles = enabled;
        self
    }

    /// Asks `decide` before each request to a resource, and again, with the verb `create`, before
    /// an apply or an update creates an object. The default allows everything.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_apiserver::{ApiServer, Decision};
    ///
    /// let server = ApiServer::builder()
    ///     .authorize(|request| match (request.verb.as_str(), request.resource.as_str()) {
    ///         ("list" | "watch", "secrets") => Decision::Deny,
    ///         _ => Decision::Allow,
    ///     })
    ///     .start();
    /// # drop(server);
    /// ```
    pub fn authorize(
        self,
        decide: impl Fn(&Attributes) -> Decision + Send + Sync + 'static,
    ) -> Self {
        Self {
            authorizer: Some(Authorizer::new(decide)),
            ..self
        }
    }

    /// Limits how many requests that are not reads run at the same time. The default is no limit.
    ///
    /// A request above the limit gets the response 429 of kube-apiserver: plain text, with
    /// `Retry-After: 1` and without a `Status`. As with `--max-mutating-requests-inflight`, a request
    /// counts until its response is complete, also while its body arrives; requests for the logs,
    /// commands and ports of pods do not count; and members of `system:masters`, such as a client
    /// without a token, are never rejected. To test how a client handles 429, use the token of a
    /// service account or impersonate a user.
    ///
    /// # Example
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder()
    ///     .max_mutating_requests(NonZeroUsize::MIN)
    ///     .start();
    /// # drop(server);
    /// ```
    pub fn max_mutating_requests(self, requests: NonZeroUsize) -> Self {
        Self {
            mutating: Some(requests),
            ..self
        }
    }

    /// Sets whether ports speak TLS. The default is plain HTTP.
    ///
    /// Each port gets a certificate for loopback addresses and `localhost`, from a certificate
    /// authority that is made when the port is opened and kept nowhere. It is in the
    /// [kubeconfig](Listening::kubeconfig) of the port. Clients need no certificate.
    ///
    /// The feature `tls` is needed for it.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_apiserver::ListenError> {
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().tls(true).start();
    /// let listening = server.listen(([127, 0, 0, 1], 0)).await?;
    /// assert!(listening.url().starts_with("https://127.0.0.1:"));
    /// assert!(listening.kubeconfig().contains("certificate-authority-data"));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(self, enabled: bool) -> Self {
        Self {
            uses_tls: enabled,
            ..self
        }
    }

    /// Answers requests for the logs of containers with what `log` returns.
    ///
    /// The server cuts it as `tailLines` and `limitBytes` say. With `follow` the answer ends after
    /// it, too. The pod needs no node. Without a hook, a pod without a node has an empty log, as on
    /// a cluster, and one with a node is answered with 500.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use http_body_util::{BodyExt, Full};
    /// use tower::ServiceExt;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder()
    ///     .logs(|request| format!("{} started\n", request.container))
    ///     .start();
    /// # let pods = "/api/v1/namespaces/default/pods";
    /// # let pod = r#"{"metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"i"}]}}"#;
    /// # let request = http::Request::post(pods).header("content-type", "application/json");
    /// # server.service().oneshot(request.body(Full::new(pod.as_bytes()))?).await?;
    /// let log = http::Request::get("/api/v1/namespaces/default/pods/web/log");
    /// let response = server.service().oneshot(log.body(Full::new(&b""[..]))?).await?;
    /// assert_eq!(response.into_body().collect().await?.to_bytes(), "main started\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn logs(mut self, log: impl Fn(LogRequest) -> String + Send + Sync + 'static) -> Self {
        self.hooks.logs = Some(Arc::new(log));
        self
    }

    /// Runs `run` for each command that a client executes in a container, and for each attachment
    /// to one. Its result is the exit code.
    ///
    /// A client connects on a [port](ApiServer::listen), over a WebSocket with the protocol
    /// `v5.channel.k8s.io` or `v4.channel.k8s.io`, as kube and kubectl do; the service without a
    /// socket refuses it. The future is dropped when the client goes. The size of a terminal is
    /// ignored. The pod needs no node.
    ///
    /// # Example
    ///
    /// ```
    /// use tokio::io::AsyncWriteExt;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder()
    ///     .exec(|mut session| async move {
    ///         let text = session.command.join(" ");
    ///         match session.stdout.write_all(text.as_bytes()).await {
    ///             Ok(()) => 0,
    ///             Err(_) => 1,
    ///         }
    ///     })
    ///     .start();
    /// # drop(server);
    /// ```
    pub fn exec<F>(mut self, run: impl Fn(ContainerSession) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = u8> + Send + 'static,
    {
        self.hooks.exec = Some(Hooks::boxed(run));
        self
    }

    /// Runs `serve` for each port of a pod that a client forwards.
    ///
    /// A client connects on a [port](ApiServer::listen), over a WebSocket with the protocol
    /// `v4.channel.k8s.io`, as kube does. `kubectl port-forward` speaks SPDY and is refused. The
    /// future is dropped when the client goes. The pod needs no node.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder()
    ///     .port_forward(|port| async move {
    ///         // Sends back what it receives.
    ///         let (mut reader, mut writer) = tokio::io::split(port.stream);
    ///         _ = tokio::io::copy(&mut reader, &mut writer).await;
    ///     })
    ///     .start();
    /// # drop(server);
    /// ```
    pub fn port_forward<F>(
        mut self,
        serve: impl Fn(ForwardedPort) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.hooks.port_forward = Some(Hooks::boxed(serve));
        self
    }

    /// Starts the server.
    #[must_use]
    pub fn start(self) -> ApiServer {
        let wall = (self.wall_clock).and_then(|time| Timestamp::try_from(time).ok());
        let clock = Clock::start(wall.unwrap_or_else(Timestamp::now));
        let cluster = Cluster::new(self.seed, self.cluster, &clock::written(clock.now()));
        let revision = watch::Sender::new(cluster.store.revision());
        let state = State {
            cluster,
            written: BTreeMap::new(),
        };
        ApiServer {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                revision,
                clock,
                profile: self.profile,
                authorizer: self.authorizer,
                hooks: self.hooks,
                uses_tls: self.uses_tls,
                mutating: self.mutating.map(MutatingLimit::new),
                evaluates_roles: self.cluster.evaluates_roles,
                cut: Mutex::default(),
            }),
        }
    }
}

// === impl Shared ===

impl Shared {
    /// What time it is.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A random factor of at least 1 and less than 2.
    pub(crate) fn spread(&self) -> f64 {
        self.state.lock().cluster.spread()
    }

    /// Looks at the cluster.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Cluster) -> T) -> T {
        look(&self.state.lock().cluster)
    }

    /// Whether something decides what a user may do.
    pub(crate) fn authorizes(&self) -> bool {
        self.authorizer.is_some() || self.evaluates_roles
    }

    /// Whether roles alone decide what a user may do.
    pub(crate) fn authorizes_by_roles(&self) -> bool {
        self.authorizer.is_none() && self.evaluates_roles
    }

    /// Whether a request is allowed.
    pub(crate) fn allows(&self, attributes: &Attributes) -> bool {
        let by_roles = !self.evaluates_roles || self.read(|cluster| cluster.permits(attributes));
        let authorizer = self.authorizer.as_ref();
        by_roles && authorizer.is_none_or(|authorizer| authorizer.allows(attributes))
    }

    /// # Errors
    ///
    /// 403 if a request is denied.
    pub(crate) fn authorize(&self, attributes: &Attributes) -> Result<(), Status> {
        if self.allows(attributes) {
            Ok(())
        } else {
            Err(attributes.forbidden())
        }
    }

    /// Changes the cluster, and wakes the watches and requests that wait for the change.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Cluster, &str) -> T) -> T {
        let now = self.time();
        self.write_at(&now, |cluster| change(cluster, &now))
    }

    /// The time as objects carry it.
    pub(crate) fn time(&self) -> String {
        clock::written(self.clock.now())
    }

    /// As [`write`](Self::write), at the time `now`.
    pub(crate) fn write_at<T>(&self, now: &str, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut state = self.state.lock();
        state.cluster.store.advance(self.clock.elapsed());
        let before = state.cluster.store.revision();
        let outcome = change(&mut state.cluster);
        state.cluster.settle(now);
        let after = state.cluster.store.revision();
        for table in state.cluster.take_retired() {
            // The last sender: the watches of this resource see it close, and end.
            state.written.remove(&table);
        }
        if after != before {
            let State { cluster, written } = &mut *state;
            written.retain(|table, written| {
                let last = cluster.store.last_write(table);
                written.send_if_modified(|told| std::mem::replace(told, last) != last);
                written.receiver_count() > 0
            });
            self.revision.send_replace(after);
        }
        outcome
    }

    /// Looks at the cluster, and subscribes to the writes to a resource in the same
    /// moment.
    pub(crate) fn subscribe<T>(
        &self,
        table: &Table,
        look: impl FnOnce(&Cluster) -> T,
    ) -> (T, watch::Receiver<u64>, CancellationToken) {
        let mut state = self.state.lock();
        let seen = look(&state.cluster);
        let last = state.cluster.store.last_write(table);
        let written = state
            .written
            .entry(table.clone())
            .or_insert_with(|| watch::Sender::new(last));
        (seen, written.subscribe(), self.cut.lock().clone())
    }

    /// Waits until the counter has reached `revision`, for at most three seconds.
    pub(crate) async fn reach(&self, revision: u64) {
        /// As long as kube-apiserver waits.
        const PATIENCE: Duration = Duration::from_secs(3);
        let mut current = self.revision.subscribe();
        _ = tokio::time::timeout(PATIENCE, current.wait_for(|current| *current >= revision)).await;
    }
}
