//! The builder of an operator.

use std::time::Duration;

use super::Operator;
use crate::{AdminServer, LeaderElection, watchdog::BlockedTimeouts, webhook::WebhookServer};

/// Configures and creates an [`Operator`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_operator::{AdminServer, Listen, Operator};
///
/// let operator = Operator::builder()
///     // All addresses, because the kubelet and Prometheus connect from outside the pod. A
///     // NetworkPolicy should admit only these two.
///     .admin_server(AdminServer::new(Listen::port(8080)))
///     .drain_timeout(Duration::from_secs(50))
///     .build();
/// # drop(operator);
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct OperatorBuilder {
    pub(super) election: Option<LeaderElection>,
    pub(super) admin: Option<AdminServer>,
    pub(super) webhooks: Option<WebhookServer>,
    pub(super) drain: Duration,
    pub(super) blocked: BlockedTimeouts,
}

// === impl OperatorBuilder ===

impl OperatorBuilder {
    /// The default of [`drain_timeout`](Self::drain_timeout). Kubernetes by default kills a pod 30 s
    /// after SIGTERM. That leaves 5 s after the drain, of which the operator takes up to 2 s: 1 s to
    /// abort controllers and release the lease, and 1 s to stop the admin server.
    pub(crate) const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

    pub(super) fn new() -> Self {
        Self {
            election: None,
            admin: None,
            webhooks: None,
            drain: Self::DEFAULT_DRAIN_TIMEOUT,
            blocked: BlockedTimeouts::default(),
        }
    }

    /// Runs the controllers only while this replica leads. By default they run in each replica.
    pub fn leader_election(self, election: LeaderElection) -> Self {
        Self {
            election: Some(election),
            ..self
        }
    }

    /// Serves health, metrics and your own pages over HTTP while the operator runs. By default
    /// there is no admin server.
    pub fn admin_server(self, server: AdminServer) -> Self {
        Self {
            admin: Some(server),
            ..self
        }
    }

    /// Serves admission and conversion webhooks while the operator runs, in each replica. By default
    /// there is no webhook server.
    ///
    /// With the default [drain timeout](Self::drain_timeout) of 25 s, the pod needs a
    /// `terminationGracePeriodSeconds` of more than 37 s. The default of Kubernetes is 30 s.
    #[cfg(feature = "webhook")]
    pub fn webhook_server(self, server: WebhookServer) -> Self {
        Self {
            webhooks: Some(server),
            ..self
        }
    }

    /// Sets the time for the controllers to end after the operator was stopped, and for the release
    /// of the lease. Controllers that have not ended by then are aborted. The default is 25 s.
    ///
    /// Set the pod's `terminationGracePeriodSeconds` at least 3 s higher, or 12 s with webhooks: a process
    /// whose runtime is blocked exits after that time. A stop takes up to 2 s more than the drain timeout:
    /// 1 s to abort the controllers and release the lease, and 1 s for the admin server to complete the
    /// requests in progress. With webhooks, whose requests in progress have 9 s after the controllers have
    /// ended, it takes up to 11 s more. The same holds for a replica that does not lead.
    ///
    /// With tasks of [each replica](Operator::add_to_each_replica), which are stopped after the webhooks, set
    /// it at least 4 s higher, or 13 s with webhooks: a stop takes up to 1.1 s longer.
    pub fn drain_timeout(self, drain: Duration) -> Self {
        Self { drain, ..self }
    }

    /// Sets the time after which a blocked runtime is reported. The default is 30 s.
    ///
    /// A runtime is blocked if handlers block all of its threads, so that no task runs. The log and
    /// the pages `/live` and `/ready` then name the calls in progress, and `/live` fails, so that a
    /// kubelet restarts the container. Rounded up to seconds, and at least 3 s: a busy machine can delay
    /// all tasks for a second.
    pub fn report_blocked_after(mut self, time: Duration) -> Self {
        self.blocked.report = time;
        self
    }

    /// Sets the time after which a replica with a blocked runtime stops to renew its lease, so that
    /// another replica leads. Then [`Operator::run`] ends with
    /// [`LeadershipLost::Blocked`](crate::LeadershipLost), if the runtime continues. The default is
    /// 60 s; [`Duration::MAX`] keeps the lease. Rounded up to seconds, and at least 3 s.
    pub fn resign_blocked_after(mut self, time: Duration) -> Self {
        self.blocked.resign = time;
        self
    }

    /// Creates the operator, without controllers.
    #[must_use]
    pub fn build(self) -> Operator {
        Operator::from_builder(self)
    }
}
