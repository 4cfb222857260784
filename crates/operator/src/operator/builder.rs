//! The settings of an operator.

use std::time::Duration;

use super::Operator;
use crate::{AdminServer, LeaderElection};

/// The settings of an [`Operator`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_operator::{AdminServer, Operator};
///
/// let operator = Operator::builder()
///     // All addresses: in a pod, a kubelet and Prometheus connect from outside of it. A
///     // NetworkPolicy should let only them in.
///     .admin_server(AdminServer::new(([0, 0, 0, 0], 8080)))
///     .drain_timeout(Duration::from_secs(50))
///     .build();
/// # drop(operator);
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct OperatorBuilder {
    pub(super) election: Option<LeaderElection>,
    pub(super) admin: Option<AdminServer>,
    pub(super) drain: Duration,
}

// === impl OperatorBuilder ===

impl OperatorBuilder {
    /// A pod has 30 s by default from the signal to its end. 5 s are left for what follows the
    /// drain: up to 1 s to abort what did not end, and up to 1 s to release the lease.
    pub const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

    pub(super) fn new() -> Self {
        Self {
            election: None,
            admin: None,
            drain: Self::DEFAULT_DRAIN_TIMEOUT,
        }
    }

    /// Runs the controllers only while this replica leads. By default they run in each replica.
    pub fn leader_election(self, election: LeaderElection) -> Self {
        Self {
            election: Some(election),
            ..self
        }
    }

    /// Serves health, metrics and pages over HTTP while the operator runs. By default nothing is
    /// served.
    pub fn admin_server(self, server: AdminServer) -> Self {
        Self {
            admin: Some(server),
            ..self
        }
    }

    /// How long a stop may take: the end of the controllers, and then the release of the lease.
    /// Controllers that have not ended by then are aborted. The default is 25 s.
    ///
    /// If the controllers take all of it, the abort and the release take up to 2 s more; together
    /// that should be less than the pod's `terminationGracePeriodSeconds`.
    pub fn drain_timeout(self, drain: Duration) -> Self {
        Self { drain, ..self }
    }

    /// Creates the operator, without controllers.
    #[must_use]
    pub fn build(self) -> Operator {
        Operator::from_builder(self)
    }
}
