//! How an operator is to be.

use std::time::Duration;

use super::Operator;
use crate::{AdminServer, LeaderElection};

/// What an operator is to be like, before it is one.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_operator::{AdminServer, Operator};
///
/// let operator = Operator::builder()
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
    /// A pod has 30 seconds from the signal to its end; five of them are kept for what comes
    /// after: what did not end is dropped, and the lease is released.
    pub const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

    pub(super) fn new() -> Self {
        Self {
            election: None,
            admin: None,
            drain: Self::DEFAULT_DRAIN_TIMEOUT,
        }
    }

    /// Has the controllers run only while this replica leads. The default is that they run in
    /// each replica.
    pub fn leader_election(self, election: LeaderElection) -> Self {
        Self {
            election: Some(election),
            ..self
        }
    }

    /// Has the operator tell over HTTP how it is, for as long as it runs. The default is that
    /// it does not.
    pub fn admin_server(self, server: AdminServer) -> Self {
        Self {
            admin: Some(server),
            ..self
        }
    }

    /// How long the controllers may take to end once they are told to; then they are dropped.
    /// The default is 25 s. It should be less than the pod's `terminationGracePeriodSeconds`.
    pub fn drain_timeout(self, drain: Duration) -> Self {
        Self { drain, ..self }
    }

    /// Makes the operator, without controllers.
    #[must_use]
    pub fn build(self) -> Operator {
        Operator::from_builder(self)
    }
}
