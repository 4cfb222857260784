//! The builder of a leader election.

use std::{fmt, time::Duration};

use rand::Rng as _;
use windlass_controller::Fence;
use windlass_informer::{host_name, one_line};

use super::{InvalidElection, LeaderElection, LeaseClient, Settings, record::Timing};

/// Configures and creates a [`LeaderElection`].
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
    client: LeaseClient,
    namespace: String,
    name: String,
    identity: Option<String>,
    timing: Timing,
    seed: Option<u64>,
    fence: Fence,
}

// === impl LeaderElectionBuilder ===

impl LeaderElectionBuilder {
    /// The default of [`lease_duration`](Self::lease_duration), as in client-go: after a crash
    /// another replica leads after 15 s plus at most a few [retry periods](Self::retry_period).
    pub(crate) const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(15);

    /// The default of [`renew_deadline`](Self::renew_deadline), as in client-go. It leaves 5 s
    /// between the deadline and the expiry of the lease, so that requests that were sent before the
    /// deadline can arrive.
    pub(crate) const DEFAULT_RENEW_DEADLINE: Duration = Duration::from_secs(10);

    /// The default of [`retry_period`](Self::retry_period), as in client-go: several attempts before
    /// the renew deadline.
    pub(crate) const DEFAULT_RETRY_PERIOD: Duration = Duration::from_secs(2);

    pub(super) fn new(client: LeaseClient, namespace: String, name: String) -> Self {
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
            fence: Fence::new(),
        }
    }

    /// Sets the identity that this replica writes into the lease. It is not secret. The default is
    /// the host name (in a pod, its name), an underscore and a random number.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self {
            identity: Some(identity.into()),
            ..self
        }
    }

    /// Sets the time without a renewal after which another replica can acquire the lease. The
    /// default is 15 s.
    pub fn lease_duration(mut self, lease: Duration) -> Self {
        self.timing.lease = lease;
        self
    }

    /// Sets the time without a successful renewal after which the leader stops. The default is
    /// 10 s.
    pub fn renew_deadline(mut self, renew: Duration) -> Self {
        self.timing.renew = renew;
        self
    }

    /// Sets the time between two renewals of the leader. A candidate that does not lead reads the
    /// lease at random intervals of 1 to 2.2 times this period. The default is 2 s.
    pub fn retry_period(mut self, retry: Duration) -> Self {
        self.timing.retry = retry;
        self
    }

    /// Seeds the jitter and the random part of the identity, for reproducible tests.
    pub fn seed(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// Sets the fence, whose clock measures the deadline of the lease. For tests that control this
    /// clock. The default is a [new fence](Fence::new).
    pub fn fence(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// Creates the election.
    ///
    /// # Errors
    ///
    /// [`InvalidElection`] if the identity is empty, the namespace is no DNS-1123 label or the name no
    /// DNS-1123 subdomain, or unless the retry period is less than the renew deadline and the renew
    /// deadline less than the lease duration.
    pub fn build(self) -> Result<LeaderElection, InvalidElection> {
        let Timing {
            lease,
            renew,
            retry,
        } = self.timing;
        if self.namespace.is_empty() || self.name.is_empty() {
            return Err(InvalidElection::Unnamed);
        }
        check_name("namespace", &self.namespace, 63, is_label)?;
        check_name("name", &self.name, 253, |name| {
            name.split('.').all(is_label)
        })?;
        if retry.is_zero() {
            return Err(InvalidElection::RetryPeriod);
        }
        if retry >= renew {
            return Err(InvalidElection::Tries { retry, renew });
        }
        if renew >= lease {
            return Err(InvalidElection::RenewDeadline { renew, lease });
        }
        if lease > Self::MAX_LEASE_DURATION {
            return Err(InvalidElection::LeaseDuration { lease });
        }
        let identity = match self.identity {
            Some(identity) if identity.is_empty() => return Err(InvalidElection::Anonymous),
            Some(identity) => identity,
            None => format!("{}_{:016x}", host_name(), random(self.seed)),
        };
        let settings = Settings {
            client: self.client,
            namespace: self.namespace,
            name: self.name,
            identity,
            timing: self.timing,
            seed: self.seed,
        };
        Ok(LeaderElection::from_settings(settings, self.fence))
    }

    /// The largest number of seconds that a lease can hold: 68 years.
    const MAX_LEASE_DURATION: Duration = Duration::from_secs(i32::MAX as u64);
}

/// Refuses a name that is not valid: a candidate would send it again and again.
fn check_name(
    field: &'static str,
    name: &str,
    longest: usize,
    is_valid: impl Fn(&str) -> bool,
) -> Result<(), InvalidElection> {
    if name.len() <= longest && is_valid(name) {
        return Ok(());
    }
    let name = one_line(name).into_owned();
    Err(InvalidElection::Name {
        field,
        name,
        longest,
    })
}

/// Whether `text` is a part between the dots of a DNS-1123 subdomain.
fn is_label(text: &str) -> bool {
    let is_valid = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    !text.is_empty() && text.bytes().all(is_valid) && !text.starts_with('-') && !text.ends_with('-')
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
