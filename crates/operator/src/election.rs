//! Leader election: one of several replicas of an operator runs its controllers.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::{Client, Config};
use prometheus::core::Collector;
use tokio::sync::watch;
use windlass_controller::Fence;

use crate::metrics::ElectionMetrics;

// The state machine, without clock and API server.
mod campaign;
mod record;

// The state machine with a clock and requests, as a task.
mod candidate;
mod leadership;
mod lease;

// Settings and errors.
mod builder;
mod error;

pub(crate) use self::leadership::{Leadership, LeadershipEnd};
use self::record::Timing;
pub use self::{
    builder::LeaderElectionBuilder,
    error::{InvalidElection, LeadershipLost, LeaseError},
};

/// Leader election by a `Lease`: only one of several replicas of an operator runs its controllers.
///
/// # Contract
///
/// *Guaranteed.* Controllers start only after this replica has acquired the lease. It acquires a
/// lease that is free, or that has not changed for its `leaseDurationSeconds`, measured by this
/// replica's own clock. It never compares the times in the lease with a clock.
///
/// The deadline of a leader is the time at which its last successful renewal was sent, plus the
/// [renew deadline](LeaderElectionBuilder::renew_deadline) (10 s by default). A [`Fence`] enforces
/// it: after the deadline no call of a handler begins and a [fenced client](Self::fence) sends no
/// write, even if the process was frozen or the machine suspended meanwhile. A leader that could
/// not renew in time, or whose lease another client took, emptied or deleted, aborts its
/// controllers, and the operator ends with [`OperatorError::LeadershipLost`](crate::OperatorError).
///
/// An operator that is stopped renews the lease until its controllers have ended, and then releases
/// it. Calls that are still in progress at the end of the drain timeout are aborted first. The lease is
/// not released, but expires, if a call does not end, because it blocks its thread, if the API server does
/// not respond in time, or if a write of a [fenced client](Self::fence) was aborted after the stop, which
/// the API server may still apply. The timeout of each request is half of the renew deadline.
///
/// A leader whose runtime is blocked for [a minute](crate::OperatorBuilder::resign_blocked_after)
/// does not renew the lease any more.
///
/// *Required.* Handlers must yield: a call that blocks its thread cannot be aborted. All replicas
/// must have the same timing. A Role in the namespace of the lease must grant `get`, `create` and
/// `update` on `leases` of the group `coordination.k8s.io`; `get` and `update` can be limited to
/// the name of the lease.
///
/// *Not guaranteed.* A request that a former leader sent before its deadline can arrive after it;
/// no lease can prevent that. Send a `resourceVersion` with writes for which this matters.
///
/// An operator that has lost its lease ends and does not become a candidate again. The restarted
/// process then has no state from the time in which it led.
///
/// A standby, a replica that does not lead, does not run the informers of controllers; it lists when it
/// begins to lead. To have its stores filled before, run an [`Informer`](windlass_informer::Informer) in
/// [each replica](crate::Operator::add_to_each_replica) and add it to a controller too: the controller
/// then receives the objects that the informer already has.
///
/// Two replicas with the same [identity](LeaderElectionBuilder::identity) are still two candidates:
/// each recognizes its own writes by their `renewTime`.
///
/// All clones share one election.
///
/// # Example
///
/// ```
/// use tokio_util::sync::CancellationToken;
/// use windlass_apiserver::ApiServer;
/// use windlass_operator::{LeaderElection, Operator};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = ApiServer::new().client();
/// let election = LeaderElection::new(client.clone(), "default", "website-operator")?;
/// // Give this client to reconcilers and finalizers: it sends no write without the lease. On a
/// // cluster use `Operator::connect`.
/// let client = election.fence().client(client);
///
/// let operator = Operator::builder().leader_election(election).build();
/// // operator.add_controller(...)?;
///
/// let stop = CancellationToken::new();
/// # stop.cancel();
/// operator.run_until(stop).await?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaderElection {
    settings: Arc<Settings>,
    metrics: ElectionMetrics,
    state: Arc<watch::Sender<ElectionState>>,
    fence: Fence,
    /// The time for which the runtime of the operator is blocked, if it is blocked for too long.
    blocked: Arc<Mutex<Option<Duration>>>,
}

/// The connection of a [`LeaderElection`] to the API server.
#[derive(Clone)]
#[non_exhaustive]
pub enum LeaseClient {
    /// Uses this client, on the runtime of the operator. Handlers that block all threads of the
    /// runtime delay renewals, and so does a rate limit of the client.
    Client(Client),
    /// Creates a separate client from this configuration, on a separate thread and runtime.
    /// Recommended on a cluster.
    Config(Box<Config>),
}

/// The settings of an election.
struct Settings {
    client: LeaseClient,
    namespace: String,
    name: String,
    identity: String,
    timing: Timing,
    seed: Option<u64>,
}

/// The state of a replica in its election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ElectionState {
    /// The lease has not been read yet.
    #[default]
    Unknown,
    /// Another replica holds the lease, or it is free.
    Standby { holder: String },
    /// This replica holds the lease.
    Leader,
    /// This replica held the lease, and its deadline has passed without a renewal.
    Expired,
    /// The lease cannot be read.
    Failing { error: String },
    /// This replica held the lease, and has lost or released it.
    Ended,
}

// === impl LeaderElection ===

impl LeaderElection {
    /// Creates an election by the lease `name` in `namespace`, with the default settings.
    ///
    /// `client` is a [`Config`] (recommended) or a [`Client`]; see [`LeaseClient`].
    ///
    /// # Errors
    ///
    /// [`InvalidElection`] if the namespace is no DNS-1123 label or the name no DNS-1123 subdomain.
    pub fn new(
        client: impl Into<LeaseClient>,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Result<Self, InvalidElection> {
        Self::builder(client, namespace, name).build()
    }

    /// Returns a builder for an election by the lease `name` in `namespace`.
    pub fn builder(
        client: impl Into<LeaseClient>,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> LeaderElectionBuilder {
        LeaderElectionBuilder::new(client.into(), namespace.into(), name.into())
    }

    /// The identity that this replica writes into the lease as its holder.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    /// The fence at the deadline of this replica's lease. Each renewal moves the deadline.
    ///
    /// Create the clients of reconcilers and finalizers with [`Fence::connect`], as
    /// [`Operator::connect`](crate::Operator::connect) does. [`Fence::client`] is for clients without
    /// a [`Config`]; it checks the deadline less strictly.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Whether this replica holds the lease and its deadline has not passed.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.state() == ElectionState::Leader
    }

    /// The holder of the lease, as this replica last read or wrote it, as one line of at most 300
    /// characters; none if the lease is free or could not be read.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        match self.state() {
            ElectionState::Leader => Some(self.identity().to_owned()),
            ElectionState::Standby { holder } if !holder.is_empty() => Some(holder),
            _ => None,
        }
    }

    fn from_settings(settings: Settings, fence: Fence) -> Self {
        Self {
            metrics: ElectionMetrics::new(&settings.name),
            settings: Arc::new(settings),
            state: Arc::default(),
            blocked: Arc::default(),
            fence,
        }
    }

    pub(crate) fn state(&self) -> ElectionState {
        let state = self.state.borrow().clone();
        if state == ElectionState::Leader && !self.fence.is_open() {
            return ElectionState::Expired;
        }
        state
    }

    /// Sets whether the runtime of the operator is blocked for too long. Then this replica does not
    /// renew the lease.
    pub(crate) fn set_blocked(&self, blocked: Option<Duration>) {
        *self.lock_blocked() = blocked;
    }

    pub(crate) fn blocked(&self) -> Option<Duration> {
        *self.lock_blocked()
    }

    fn lock_blocked(&self) -> MutexGuard<'_, Option<Duration>> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        self.metrics.collectors()
    }

    /// The lease, as `namespace/name`.
    pub(crate) fn lease(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    /// The error if the task that renews the lease has panicked.
    fn abandoned(&self) -> LeadershipLost {
        LeadershipLost::NotRenewed {
            lease: self.lease(),
            deadline: self.settings.timing.renew,
            source: None,
        }
    }

    /// The timeout of one request for the lease.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.settings.timing.renew / 2
    }
}

impl fmt::Debug for LeaderElection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElection")
            .field("lease", &self.lease())
            .field("identity", &self.identity())
            .field("timing", &self.settings.timing)
            .finish_non_exhaustive()
    }
}

// === impl LeaseClient ===

impl From<Client> for LeaseClient {
    fn from(client: Client) -> Self {
        Self::Client(client)
    }
}

impl From<Config> for LeaseClient {
    fn from(config: Config) -> Self {
        Self::Config(Box::new(config))
    }
}

impl fmt::Debug for LeaseClient {
    /// Without the configuration, which may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client(_) => "Client(..)",
            Self::Config(_) => "Config(..)",
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::Config;

    use super::{ElectionState, LeaderElection};

    #[test]
    fn the_holder_is_known_while_the_lease_has_one_and_can_be_read() {
        let config = Config::new("http://127.0.0.1:1".parse().expect("a URL"));
        let election = LeaderElection::builder(config, "default", "web").identity("us");
        let election = election.build().expect("valid settings");
        let standby = |holder: &str| ElectionState::Standby {
            holder: holder.to_owned(),
        };
        let error = "refused".to_owned();
        for (state, holder) in [
            (ElectionState::Unknown, None),
            (standby(""), None),
            (standby("them"), Some("them")),
            (ElectionState::Leader, Some("us")),
            (ElectionState::Failing { error }, None),
            (ElectionState::Ended, None),
        ] {
            // The fence of a leader is open until its deadline.
            election.fence.open_until(std::time::Duration::MAX);
            election.state.send_replace(state.clone());
            assert_eq!(election.holder().as_deref(), holder, "{state:?}");
            assert_eq!(election.is_leader(), state == ElectionState::Leader);
        }
        election.state.send_replace(ElectionState::Leader);
        election.fence.close();
        assert_eq!(election.holder(), None, "its deadline has passed");
        assert!(!election.is_leader());
    }
}
