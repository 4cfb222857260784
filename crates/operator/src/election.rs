//! The election: which of several replicas is the one that works.

use std::{fmt, sync::Arc, time::Duration};

use kube::Client;
use prometheus::core::Collector;
use tokio::sync::watch;

use crate::metrics::ElectionMetrics;

// What is decided.
mod campaign;

// Who decides: with a clock, and requests.
mod candidate;
mod lease;

// What is set, and what can go wrong.
mod builder;
mod error;

use self::campaign::Timing;
pub(crate) use self::candidate::Candidate;
pub use self::{
    builder::LeaderElectionBuilder,
    error::{InvalidElection, LeadershipLost, LeaseError},
};

/// Has only one of several replicas of an operator work, by means of a `Lease`.
///
/// # Contract
///
/// *Promised.* Controllers are started when this replica holds the lease, and not before. A
/// lease of somebody else is taken when it is free, or when it has not changed for the time
/// that stands in it, by this replica's own monotonic clock; the times in a lease are compared
/// with no clock. The time in which a leader must renew counts from before its request was
/// sent. A leader that could not renew in that time, or whose lease was taken, emptied or
/// deleted, drops all controllers at once, before anybody else takes the lease for expired, and
/// the operator ends with [`OperatorError::LeadershipLost`](crate::OperatorError). Told to
/// stop, it renews until its controllers have ended, and then empties the lease: the lease goes
/// last. Each request has a time limit, half of the renew deadline.
///
/// *Asked.* Handlers yield: a call that blocks its thread cannot be dropped. The same timing in
/// all replicas. A client without a rate limit, or one of its own: a renewal should not wait
/// behind what controllers ask. In the namespace of the lease, a Role that grants `get`,
/// `create` and `update` on `leases` of the group `coordination.k8s.io`; `get` and `update` may
/// be limited to the one name.
///
/// *Not promised.* That nothing which a former leader sent arrives after the lease was taken:
/// no lease can do that. Write with `resourceVersion` where it matters. Nor does a lease help a
/// virtual machine that is paused, and wakes believing that no time has passed.
///
/// An operator that has lost the lease ends, rather than standing as a candidate again, so that
/// what runs after a loss has begun after it: the process is started anew by whoever started
/// it, with nothing left in it of the time in which it led.
///
/// A candidate that waits runs no informers, and fills its stores when it leads. Whoever wants
/// them warm runs an [`Informer`](windlass_informer::Informer) by itself, and adds it to its
/// controller all the same: it is told what the informer knows already.
///
/// Two replicas with the same [identity](LeaderElectionBuilder::identity) are two all the same:
/// each knows what it has written itself.
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
/// let operator = Operator::builder()
///     .leader_election(LeaderElection::new(client, "default", "website-operator")?)
///     .build();
/// // operator.add_controller(...)?;
///
/// let stop = CancellationToken::new();
/// # stop.cancel();
/// operator.run_until(stop).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaderElection {
    settings: Arc<Settings>,
    metrics: ElectionMetrics,
    standing: Arc<watch::Sender<Standing>>,
}

/// Which lease, who we are, and how long everything takes.
struct Settings {
    client: Client,
    namespace: String,
    name: String,
    identity: String,
    timing: Timing,
    seed: Option<u64>,
}

/// Where an operator stands in its election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has not looked yet.
    #[default]
    Unknown,
    /// Somebody else holds the lease.
    Waits { holder: String },
    /// It holds the lease.
    Leads,
    /// It cannot even look.
    Troubled { error: String },
    /// It held the lease, and does no more.
    Ended,
}

// === impl LeaderElection ===

impl LeaderElection {
    /// An election by the lease `name` in `namespace`, with everything else as it is by default.
    ///
    /// # Errors
    ///
    /// [`InvalidElection`] if the namespace or the name is empty.
    pub fn new(
        client: Client,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Result<Self, InvalidElection> {
        Self::builder(client, namespace, name).build()
    }

    /// Begins an election by the lease `name` in `namespace`.
    pub fn builder(
        client: Client,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> LeaderElectionBuilder {
        LeaderElectionBuilder::new(client, namespace.into(), name.into())
    }

    /// Under which name this replica holds the lease.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    /// Whether this replica holds the lease, as far as it knows.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        *self.standing.borrow() == Standing::Leads
    }

    /// Who holds the lease, when this replica last looked; none if nobody does, or it could not
    /// look.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        match &*self.standing.borrow() {
            Standing::Leads => Some(self.identity().to_owned()),
            Standing::Waits { holder } if !holder.is_empty() => Some(holder.clone()),
            _ => None,
        }
    }

    fn from_settings(settings: Settings) -> Self {
        Self {
            metrics: ElectionMetrics::new(&settings.name),
            settings: Arc::new(settings),
            standing: Arc::default(),
        }
    }

    pub(crate) fn candidate(&self) -> Candidate {
        Candidate::new(self.clone())
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        self.metrics.collectors()
    }

    /// The lease, as `namespace/name`.
    pub(crate) fn lease(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    /// Why nobody leads, where whoever renewed is gone.
    pub(crate) fn abandoned(&self) -> LeadershipLost {
        LeadershipLost::NotRenewed {
            lease: self.lease(),
            deadline: self.renew_deadline(),
            source: None,
        }
    }

    /// How long the leader may be without having renewed.
    fn renew_deadline(&self) -> Duration {
        self.settings.timing.renew
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
