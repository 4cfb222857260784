//! The server: its handle, and the state that all requests share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::authorize::{Attributes, Authorizer};
use crate::cluster::Cluster;
use crate::containers::Hooks;
use crate::managed;
use crate::profile::Profile;
use crate::revisions::{RevisionReader, Revisions};
use crate::service::{ApiService, MutatingLimit};
use crate::status::Status;
use crate::store::Table;
use crate::user::User;

mod builder;
mod clock;
mod listen;
#[cfg(feature = "tls")]
mod tls;

pub use builder::ApiServerBuilder;
use clock::Clock;
pub use listen::{ListenError, Listening};

/// A Kubernetes API server in the process, in memory.
///
/// It is for first steps and tests, not for production: it requires no credentials and stores
/// nothing on disk. `docs/apiserver.md` states for each behaviour of kube-apiserver whether this
/// server has it.
///
/// # Contract
///
/// - **Like Kubernetes.** The requests, responses, errors and watches are those of kube-apiserver,
///   with the exceptions that `docs/apiserver.md` states.
/// - **One version counter.** Each write of any resource gets the next `resourceVersion`.
/// - **Time of the runtime.** Timestamps and timeouts follow tokio's time, which tests can pause.
/// - A clone is another handle of the same server. The server has no task of its own, and exists as
///   long as one of its handles, services or ports.
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

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The version counter, for requests that wait for a future version.
    revision: Revisions,
    clock: Clock,
    pub(crate) profile: Profile,
    authorizer: Option<Authorizer>,
    /// The functions that respond for the containers of pods.
    pub(crate) hooks: Hooks,
    /// Whether ports use TLS.
    uses_tls: bool,
    /// The limit of requests that are not reads.
    pub(crate) mutating_limit: Option<MutatingLimit>,
    /// Whether roles authorize requests.
    evaluates_roles: bool,
    /// Ends all watches that have started since it was replaced.
    cut: Mutex<CancellationToken>,
}

#[derive(Debug)]
struct State {
    cluster: Cluster,
    /// The revision of the last write of each resource that is watched.
    written: BTreeMap<Table, Revisions>,
}

// === impl ApiServer ===

impl ApiServer {
    /// Starts a server with the default settings, the built-in kinds and the initial namespaces of a
    /// cluster.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().start()
    }

    /// Returns a builder for a server with other settings.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::new()
    }

    /// Returns the server as a tower service, which kube's `Client::new` accepts.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.shared.clone())
    }

    /// Returns a client of this server, without a socket, whose default namespace is `default`.
    ///
    /// Requires the feature `kube`, and a version feature of `k8s-openapi` in the program.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, like every kube client.
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

    /// Opens a loopback port for kubectl and clients in other languages, with HTTP/1.1 and HTTP/2.
    /// For port 0, the operating system chooses a free port.
    ///
    /// # Errors
    ///
    /// [`ListenError`] if `addr` is not a loopback address or the port cannot be opened.
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

    /// Returns the `resourceVersion` of the last write.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.shared.read(|cluster| cluster.store.revision())
    }

    /// Returns all objects, each with the name of its resource, such as `pods` or `widgets.ex.io`.
    ///
    /// They are ordered by resource and then as in a list. The objects have no `apiVersion` and no
    /// `kind`.
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

    /// Drops the history before `resource_version`.
    ///
    /// A later list or watch of an older version gets `410 Expired`. Running watches continue.
    pub fn compact(&self, resource_version: u64) {
        self.shared
            .write(|cluster, _| cluster.store.compact(resource_version));
    }

    /// Ends all running watches, like a broken connection. New watches can start immediately.
    pub fn close_watches(&self) {
        std::mem::take(&mut *self.shared.cut.lock()).cancel();
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Shared ===

impl Shared {
    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A random factor of at least 1 and less than 2.
    pub(crate) fn spread(&self) -> f64 {
        self.state.lock().cluster.spread()
    }

    /// Calls `read` with the cluster, under the lock.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Cluster) -> T) -> T {
        read(&self.state.lock().cluster)
    }

    /// Whether requests are authorized.
    pub(crate) fn authorizes(&self) -> bool {
        self.authorizer.is_some() || self.evaluates_roles
    }

    /// Whether requests are authorized by roles alone.
    pub(crate) fn authorizes_by_roles(&self) -> bool {
        self.authorizer.is_none() && self.evaluates_roles
    }

    /// Whether a request is allowed.
    pub(crate) fn allows(&self, attributes: &Attributes) -> bool {
        let by_roles = !self.evaluates_roles || self.read(|cluster| cluster.permits(attributes));
        let authorizer = self.authorizer.as_ref();
        by_roles && authorizer.is_none_or(|authorizer| authorizer.allows(attributes))
    }

    /// Whether a request for a path that is not a resource is allowed. The authorizer decides about
    /// resources only.
    pub(crate) fn allows_path(&self, user: &User, verb: &str, path: &str) -> bool {
        !self.evaluates_roles || self.read(|cluster| cluster.permits_path(user, verb, path))
    }

    /// Checks that a request is allowed.
    ///
    /// # Errors
    ///
    /// 403 if it is denied.
    pub(crate) fn authorize(&self, attributes: &Attributes) -> Result<(), Status> {
        if self.allows(attributes) {
            Ok(())
        } else {
            Err(attributes.forbidden())
        }
    }

    /// Calls `change` with the cluster and the time, under the lock, and notifies the watches and
    /// requests that wait for a write.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Cluster, &str) -> T) -> T {
        let now = self.time();
        self.write_at(&now, |cluster| change(cluster, &now))
    }

    /// The current time in the format of `creationTimestamp`.
    pub(crate) fn time(&self) -> String {
        clock::written(self.clock.now())
    }

    /// Like [`write`](Self::write), at the time `now`.
    pub(crate) fn write_at<T>(&self, now: &str, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut state = self.state.lock();
        state.cluster.store.advance(self.clock.elapsed());
        let before = state.cluster.store.revision();
        state.cluster.delete_expired_events();
        let outcome = change(&mut state.cluster);
        state.cluster.settle(now);
        let after = state.cluster.store.revision();
        for table in state.cluster.take_retired() {
            // Drops the only sender, which ends the watches of this resource.
            state.written.remove(&table);
        }
        if after != before {
            let State { cluster, written } = &mut *state;
            written.retain(|table, written| {
                written.set(cluster.store.last_write(table));
                written.is_read()
            });
            self.revision.set(after);
        }
        outcome
    }

    /// Calls `read` with the cluster, and subscribes to the writes of a resource under the same
    /// lock.
    pub(crate) fn subscribe<T>(
        &self,
        table: &Table,
        read: impl FnOnce(&Cluster) -> T,
    ) -> (T, RevisionReader, CancellationToken) {
        let mut state = self.state.lock();
        let result = read(&state.cluster);
        let last = state.cluster.store.last_write(table);
        let written = state
            .written
            .entry(table.clone())
            .or_insert_with(|| Revisions::new(last));
        (result, written.reader(), self.cut.lock().clone())
    }

    /// Waits until the version counter has reached `revision`, for at most three seconds.
    pub(crate) async fn reach(&self, revision: u64) {
        /// The timeout of kube-apiserver.
        const TIMEOUT: Duration = Duration::from_secs(3);
        let mut newest = self.revision.reader();
        _ = tokio::time::timeout(TIMEOUT, newest.wait_for(|newest| newest >= revision)).await;
    }
}
