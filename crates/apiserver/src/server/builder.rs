//! The settings of a server.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ApiServer;
use crate::authorize::{Attributes, Authorizer, Decision};
use crate::cluster::{Cluster, ClusterOptions};
use crate::containers::Hooks;
use crate::mutating_limit::MutatingLimit;
use crate::profile::Profile;
use crate::revisions::Revisions;
use crate::shared::{Clock, Shared, State, written};
use crate::store::HistoryLimits;

mod containers;

/// The default limits of the history.
///
/// The watch cache of kube-apiserver keeps 102,400 writes, and a cluster compacts etcd after five
/// minutes. 64 MiB contain 20,000 updates of a `ConfigMap`.
const DEFAULT_HISTORY: HistoryLimits = HistoryLimits {
    writes: 100_000,
    bytes: 64 * 1024 * 1024,
    age: Duration::from_secs(5 * 60),
};

/// The default of `--event-ttl` of kube-apiserver.
const DEFAULT_EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// Builds an [`ApiServer`] with other settings than the defaults.
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
    max_mutating_requests: Option<NonZeroUsize>,
}

// === impl ApiServerBuilder ===

impl ApiServerBuilder {
    pub(super) fn new() -> Self {
        Self {
            profile: Profile::default(),
            seed: None,
            wall_clock: None,
            cluster: ClusterOptions {
                history: DEFAULT_HISTORY,
                event_ttl: DEFAULT_EVENT_TTL,
                collects_garbage: true,
                evaluates_roles: false,
                fills_namespaces: false,
                counts_quotas: true,
            },
            authorizer: None,
            hooks: Hooks::default(),
            uses_tls: false,
            max_mutating_requests: None,
        }
    }

    /// Sets the Kubernetes version that the server behaves like. The default is the newest
    /// [`Profile`].
    pub fn profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// Sets the seed of the random uids and generated names, so that they are the same in each run.
    /// By default, they differ.
    pub fn seed(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// Sets the time at the start of the server, to which tokio's time is added for each timestamp.
    /// The default is the time of the operating system.
    ///
    /// A time that a timestamp of Kubernetes cannot contain has no effect.
    pub fn wall_clock(self, time: SystemTime) -> Self {
        Self {
            wall_clock: Some(time),
            ..self
        }
    }

    /// Sets how many writes of each resource the history keeps. The default is 100,000.
    ///
    /// A watch that has not sent a dropped write is closed. A list or watch that requests an older
    /// version gets `410 Expired`.
    pub fn history(mut self, writes: NonZeroUsize) -> Self {
        self.cluster.history.writes = writes.get();
        self
    }

    /// Sets how many bytes of memory, estimated, the history of all resources takes in addition to
    /// the current objects. The default is 64 MiB.
    ///
    /// The oldest writes are dropped first, with the consequences that [`history`](Self::history)
    /// states.
    pub fn history_bytes(mut self, bytes: NonZeroUsize) -> Self {
        self.cluster.history.bytes = bytes.get();
        self
    }

    /// Sets for how long the history keeps a write, in tokio's time. The default is five minutes,
    /// as in a cluster.
    ///
    /// A write that is older is dropped at the next write.
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

    /// Sets how long an `Event` is kept after its last write, in tokio's time, like `--event-ttl` of
    /// kube-apiserver. The default is one hour. With zero, events do not expire.
    ///
    /// An event that has expired is deleted at the next write or request for events. Watches
    /// receive `DELETED`.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().event_ttl(Duration::from_secs(60)).start();
    /// # drop(server);
    /// ```
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.cluster.event_ttl = ttl;
        self
    }

    /// Sets whether the server deletes the dependents of deleted owners. The default is `true`.
    ///
    /// The garbage collector of a cluster deletes an object whose owners do not exist, in the
    /// background unless the deletion of the owner requests `Foreground` or `Orphan`. This server
    /// does it within the request that deletes the owner, so that a test does not have to wait.
    ///
    /// With `false`, the server behaves like a kube-apiserver without controllers, such as that of
    /// envtest: dependents stay, and so do the finalizers `orphan` and `foregroundDeletion`, until a
    /// client removes them. A test can then create objects whose owners do not exist. It does not
    /// detect an operator that forgets the owner references of what it creates.
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
    /// `kube-root-ca.crt`, as in a cluster. The default is `false`, so that a test that lists config
    /// maps finds only those that it created.
    ///
    /// Both are created and deleted with the namespace, and recreated when they are deleted before.
    /// The certificate in the config map has signed nothing, not even the certificate of a port with
    /// TLS.
    ///
    /// With `true`, the admission plugin for service accounts is on too: a new pod gets
    /// `serviceAccountName: default` if it names no account, the image pull secrets of its account,
    /// and a volume `kube-api-access-xxxxx` with a token. A pod whose account does not exist gets
    /// 403.
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

    /// Sets whether the server writes the status of each `ResourceQuota`, as the quota controller of
    /// a cluster does. The default is `true`.
    ///
    /// A request is checked against `status.hard` and `status.used` of the quotas of its namespace.
    /// With `false`, they are empty until a client writes them, so that a quota limits nothing, as
    /// on the kube-apiserver of envtest.
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

    /// Sets whether the roles and bindings of `rbac.authorization.k8s.io` authorize requests. The
    /// default is `false`: every request is allowed.
    ///
    /// With `true`, the server has the initial roles and bindings of a cluster, such as `view` and
    /// `cluster-admin`, and a request that no role allows gets 403. A client without a token is a
    /// member of `system:masters`, whose requests are always allowed. To test the permissions of an
    /// operator, use a token of its service account or impersonate it. If
    /// [`authorize`](Self::authorize) is used too, a request is allowed if both allow it.
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

    /// Sets the function that allows or denies each request for a resource. By default, every
    /// request is allowed.
    ///
    /// It is called a second time, with the verb `create`, before an apply or an update creates an
    /// object.
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
            max_mutating_requests: Some(requests),
            ..self
        }
    }

    /// Sets whether ports use TLS. The default is `false`: plain HTTP.
    ///
    /// When a port is opened, it gets a new certificate authority and a certificate for loopback
    /// addresses and `localhost`. Neither is stored on disk. The certificate of the authority is in
    /// the [kubeconfig](crate::Listening::kubeconfig) of the port. Clients need no certificate.
    ///
    /// Requires the feature `tls`.
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

    /// Starts the server, which runs as long as a handle, a service or a port of it exists.
    #[must_use]
    pub fn start(self) -> ApiServer {
        let wall = (self.wall_clock).and_then(|time| Timestamp::try_from(time).ok());
        let clock = Clock::start(wall.unwrap_or_else(Timestamp::now));
        let cluster = Cluster::new(self.seed, self.cluster, &written(clock.now()));
        let revision = Revisions::new(cluster.store.revision());
        ApiServer {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(cluster)),
                revision,
                clock,
                profile: self.profile,
                authorizer: self.authorizer,
                hooks: self.hooks,
                uses_tls: self.uses_tls,
                mutating_limit: self.max_mutating_requests.map(MutatingLimit::new),
                evaluates_roles: self.cluster.evaluates_roles.into(),
                cut: Mutex::default(),
            }),
        }
    }
}
