//! Leader election: one of several replicas of an operator runs its controllers.

use std::{fmt, sync::Arc, time::Duration};

use kube::{Client, Config};
use prometheus::core::Collector;
use tokio::sync::watch;
use windlass_controller::Fence;

use crate::metrics::ElectionMetrics;

// The decisions, without clock or API server.
mod campaign;

// The decisions with a clock and requests, as a task.
mod candidate;
mod leadership;
mod lease;

// Settings and errors.
mod builder;
mod error;

use self::campaign::Timing;
pub(crate) use self::leadership::{Leadership, LeadershipEnd};
pub use self::{
    builder::LeaderElectionBuilder,
    error::{InvalidElection, LeadershipLost, LeaseError},
};

/// Lets one of several replicas of an operator run its controllers, by means of a `Lease`.
///
/// # Contract
///
/// *Guaranteed.* Controllers start when this replica holds the lease, and not before. A lease of
/// another replica is taken when it is free, or when it has not changed for the duration that it
/// states, measured by this replica's own clock; the times in a lease are compared with no clock.
///
/// The deadline of a leader counts from before its last successful renewal was sent. It is a
/// [`Fence`]: after it, no call of a handler begins and a [fenced client](Self::fence) sends no
/// write, even if the process was frozen or the machine suspended meanwhile. A leader that
/// could not renew in time, or whose lease was taken, emptied or deleted, aborts its controllers,
/// and the operator ends with [`OperatorError::LeadershipLost`](crate::OperatorError).
///
/// An operator that is stopped renews until its controllers have ended. Then it waits until no
/// call is in progress, and empties the lease. If calls are still in progress, or the API server
/// does not answer in time, the lease is left to expire. Each request has a time limit, half of the
/// renew deadline.
///
/// *Required.* Handlers yield: a call that blocks its thread cannot be aborted. All replicas have
/// the same timing. In the namespace of the lease, a Role that grants `get`, `create` and `update`
/// on `leases` of the group `coordination.k8s.io`; `get` and `update` may be limited to the one
/// name.
///
/// *Not guaranteed.* That nothing which a former leader sent before its deadline arrives after it:
/// no lease can guarantee that. Write with `resourceVersion` where it matters.
///
/// An operator that has lost the lease ends, rather than standing as a candidate again: the process
/// is started anew, and keeps nothing in memory from the time in which it led.
///
/// A standby runs no informers, and fills its stores when it leads. To keep them warm, run an
/// [`Informer`](windlass_informer::Informer) yourself and add it to a controller as well: the
/// controller receives what the informer knows already.
///
/// Two replicas with the same [identity](LeaderElectionBuilder::identity) are two candidates: each
/// recognizes what it has written itself.
///
/// Clones are the same election.
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
/// // Give this client to reconcilers and finalizers: it sends no write without the lease.
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
}

/// How a [`LeaderElection`] reaches the API server.
#[derive(Clone)]
#[non_exhaustive]
pub enum LeaseClient {
    /// Through this client, on the runtime of the operator. Handlers that block all threads of
    /// the runtime delay renewals, and so may a rate limit of the client.
    Client(Client),
    /// Through a client of its own, which is made from this configuration, on a thread and a
    /// runtime of its own. The recommended way on a cluster.
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
    /// [`InvalidElection`] if the namespace or the name is empty.
    pub fn new(
        client: impl Into<LeaseClient>,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Result<Self, InvalidElection> {
        Self::builder(client, namespace, name).build()
    }

    /// Starts the settings of an election by the lease `name` in `namespace`.
    pub fn builder(
        client: impl Into<LeaseClient>,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> LeaderElectionBuilder {
        LeaderElectionBuilder::new(client.into(), namespace.into(), name.into())
    }

    /// The name under which this replica holds the lease.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    /// The deadline of this replica's lease, which each renewal moves.
    ///
    /// Its [`client`](Fence::client) and [`connect`](Fence::connect) make the clients that
    /// reconcilers and finalizers should write with.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Whether this replica holds the lease and its deadline has not passed.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.state() == ElectionState::Leader
    }

    /// The holder of the lease, as this replica last read or wrote it; none if it is free or
    /// could not be read.
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

    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        self.metrics.collectors()
    }

    /// The lease, as `namespace/name`.
    pub(crate) fn lease(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    /// The loss of a lease because the task that renewed it is gone.
    fn abandoned(&self) -> LeadershipLost {
        LeadershipLost::NotRenewed {
            lease: self.lease(),
            deadline: self.settings.timing.renew,
            source: None,
        }
    }

    /// How long one request for the lease may take.
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
