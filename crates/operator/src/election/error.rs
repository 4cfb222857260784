//! What can go wrong with an election.

use std::{sync::Arc, time::Duration};

/// Why an election cannot be as it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidElection {
    /// A lease has a namespace and a name.
    #[error("the lease has no name or no namespace; give it both")]
    Unnamed,

    /// A lease without a holder is free.
    #[error("the identity is empty, which is how a lease says that nobody holds it")]
    Anonymous,

    /// It would ask without a pause.
    #[error("the retry period is zero; a candidate would ask without a pause")]
    RetryPeriod,

    /// A leader would have no time to renew.
    #[error("the retry period of {retry:?} is not less than the renew deadline of {renew:?}")]
    Tries {
        /// The retry period.
        retry: Duration,
        /// The renew deadline.
        renew: Duration,
    },

    /// There would be two leaders.
    #[error(
        "the renew deadline of {renew:?} is not less than the lease duration of {lease:?}; \
         others would lead while a leader still tries to renew"
    )]
    RenewDeadline {
        /// The renew deadline.
        renew: Duration,
        /// The lease duration.
        lease: Duration,
    },

    /// It does not fit into a lease.
    #[error("the lease duration of {lease:?} does not fit into a lease")]
    LeaseDuration {
        /// The lease duration.
        lease: Duration,
    },
}

/// Why a leader leads no more.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeadershipLost {
    /// It could not renew in time.
    #[error("the lease {lease} was not renewed for {deadline:?}")]
    NotRenewed {
        /// The lease, as `namespace/name`.
        lease: String,
        /// How long it may take.
        deadline: Duration,
        /// What the last try met, if it met anything.
        source: Option<Arc<LeaseError>>,
    },

    /// Somebody else stands in the lease.
    #[error("the lease {lease} was taken by {holder:?}")]
    Taken {
        /// The lease, as `namespace/name`.
        lease: String,
        /// Who stands in it now.
        holder: String,
    },

    /// Somebody removed us from the lease.
    #[error("the lease {lease} was emptied by somebody else")]
    Emptied {
        /// The lease, as `namespace/name`.
        lease: String,
    },

    /// Somebody deleted the lease.
    #[error("the lease {lease} was deleted")]
    Deleted {
        /// The lease, as `namespace/name`.
        lease: String,
    },
}

/// Why a lease could not be read or written.
///
/// None of these ends a candidate: it tries again, because what helps is outside of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// We may not (`403`).
    #[error(
        "cannot {verb} the lease {lease}: forbidden ({message}); a Role in its namespace must \
         grant `get`, `create` and `update` on `leases` of the group `coordination.k8s.io`"
    )]
    Forbidden {
        /// What was tried, as RBAC calls it.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// What the API server says.
        message: String,
    },

    /// Its namespace is not there (`404`).
    #[error("cannot {verb} the lease {lease}: its namespace does not exist ({message})")]
    NoNamespace {
        /// What was tried, as RBAC calls it.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// What the API server says.
        message: String,
    },

    /// The API server says no for another reason.
    #[error("cannot {verb} the lease {lease}: the API server answers {code} ({message})")]
    Refused {
        /// What was tried, as RBAC calls it.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The status code.
        code: u16,
        /// What the API server says.
        message: String,
    },

    /// No answer came in time.
    #[error("cannot {verb} the lease {lease}: no answer within {limit:?}")]
    Silent {
        /// What was tried, as RBAC calls it.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// How long it was waited for.
        limit: Duration,
    },

    /// The API server could not be reached, or did not make sense.
    #[error("cannot {verb} the lease {lease}: the API server was not reached, or hung up")]
    Connection {
        /// What was tried, as RBAC calls it.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// What the connection says.
        source: Box<kube::Error>,
    },
}

// === impl InvalidElection ===

impl InvalidElection {
    /// One stable word for it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unnamed => "unnamed",
            Self::Anonymous => "anonymous",
            Self::RetryPeriod => "retry_period",
            Self::Tries { .. } => "tries",
            Self::RenewDeadline { .. } => "renew_deadline",
            Self::LeaseDuration { .. } => "lease_duration",
        }
    }
}

// === impl LeadershipLost ===

impl LeadershipLost {
    /// One stable word for it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotRenewed { .. } => "not_renewed",
            Self::Taken { .. } => "taken",
            Self::Emptied { .. } => "emptied",
            Self::Deleted { .. } => "deleted",
        }
    }
}

// === impl LeaseError ===

impl LeaseError {
    /// One stable word for it: the `reason` label of `leader_election_failures_total`.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Forbidden { .. } => "forbidden",
            Self::NoNamespace { .. } => "no_namespace",
            Self::Refused { .. } => "refused",
            Self::Silent { .. } => "silent",
            Self::Connection { .. } => "connection",
        }
    }
}
