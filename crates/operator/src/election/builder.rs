//! How an election is to be.

use std::{fmt, time::Duration};

use kube::Client;
use rand::Rng as _;

use super::{InvalidElection, LeaderElection, Settings, campaign::Timing};

/// What an election is to be like, before it is one.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_apiserver::ApiServer;
/// use windlass_operator::{InvalidElection, LeaderElection};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), InvalidElection> {
/// let client = ApiServer::new().client();
/// let election = LeaderElection::builder(client.clone(), "default", "website-operator")
///     .identity("website-operator-0")
///     .lease_duration(Duration::from_secs(30))
///     .build()?;
/// assert_eq!(election.identity(), "website-operator-0");
///
/// let refused = LeaderElection::builder(client, "default", "website-operator")
///     .renew_deadline(Duration::from_secs(15))
///     .build();
/// assert!(matches!(refused, Err(InvalidElection::RenewDeadline { .. })));
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct LeaderElectionBuilder {
    client: Client,
    namespace: String,
    name: String,
    identity: Option<String>,
    timing: Timing,
    seed: Option<u64>,
}

// === impl LeaderElectionBuilder ===

impl LeaderElectionBuilder {
    /// What client-go uses: a crash costs a quarter of a minute.
    pub const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(15);

    /// What client-go uses: it leaves a leader five seconds in which all that it began is
    /// dropped.
    pub const DEFAULT_RENEW_DEADLINE: Duration = Duration::from_secs(10);

    /// What client-go uses: a few tries before the deadline, and no load worth mentioning.
    pub const DEFAULT_RETRY_PERIOD: Duration = Duration::from_secs(2);

    pub(super) fn new(client: Client, namespace: String, name: String) -> Self {
        Self {
            client,
            namespace,
            name,
            identity: None,
            timing: Timing {
                lease: Self::DEFAULT_LEASE_DURATION,
                renew: Self::DEFAULT_RENEW_DEADLINE,
                retry: Self::DEFAULT_RETRY_PERIOD,
            },
            seed: None,
        }
    }

    /// Under which name this replica holds the lease. The default is the name of the host,
    /// which is that of the pod, an underscore and something random. It is no secret.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self {
            identity: Some(identity.into()),
            ..self
        }
    }

    /// Nobody else leads until the lease has not changed for so long. The default is 15 s.
    pub fn lease_duration(mut self, lease: Duration) -> Self {
        self.timing.lease = lease;
        self
    }

    /// A leader that could not renew for so long stops. The default is 10 s.
    pub fn renew_deadline(mut self, renew: Duration) -> Self {
        self.timing.renew = renew;
        self
    }

    /// How long after a renewal the next one follows, and the least time between two looks of a
    /// candidate; the most is a bit more than twice that. The default is 2 s.
    pub fn retry_period(mut self, retry: Duration) -> Self {
        self.timing.retry = retry;
        self
    }

    /// Makes the jitter and the random part of the identity the same in each run.
    pub fn seed(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// Makes the election.
    ///
    /// # Errors
    ///
    /// [`InvalidElection`] if a name is empty, or the times do not go together: the retry
    /// period must be less than the renew deadline, and that less than the lease duration.
    pub fn build(self) -> Result<LeaderElection, InvalidElection> {
        let Timing {
            lease,
            renew,
            retry,
        } = self.timing;
        if self.namespace.is_empty() || self.name.is_empty() {
            return Err(InvalidElection::Unnamed);
        }
        if retry.is_zero() {
            return Err(InvalidElection::RetryPeriod);
        }
        if retry >= renew {
            return Err(InvalidElection::Tries { retry, renew });
        }
        if renew >= lease {
            return Err(InvalidElection::RenewDeadline { renew, lease });
        }
        // So that no point in time lies beyond what can be counted.
        if lease > Self::MAX_LEASE_DURATION {
            return Err(InvalidElection::LeaseDuration { lease });
        }
        let identity = match self.identity {
            Some(identity) if identity.is_empty() => return Err(InvalidElection::Anonymous),
            Some(identity) => identity,
            None => format!("{}_{:016x}", host(), random(self.seed)),
        };
        Ok(LeaderElection::from_settings(Settings {
            client: self.client,
            namespace: self.namespace,
            name: self.name,
            identity,
            timing: self.timing,
            seed: self.seed,
        }))
    }

    /// What fits into a lease: 68 years.
    const MAX_LEASE_DURATION: Duration = Duration::from_secs(i32::MAX as u64);
}

/// The name of the host: in a pod, the name of the pod.
fn host() -> String {
    let named = std::env::var("HOSTNAME").ok();
    let named = named.or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let named = named.map(|name| name.trim().to_owned());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "windlass".to_owned())
}

fn random(seed: Option<u64>) -> u64 {
    super::candidate::rng(seed).random()
}

impl fmt::Debug for LeaderElectionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElectionBuilder")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}
