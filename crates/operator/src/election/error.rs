//! Errors of an election.

use std::{sync::Arc, time::Duration};

/// Why the settings of an election were refused.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidElection {
    /// The namespace or the name of the lease is empty.
    #[error("the lease has no name or no namespace; give it both")]
    Unnamed,

    /// The identity is empty.
    #[error("the identity is empty, which in a lease means that it is free; give a name")]
    Anonymous,

    /// The retry period is zero.
    #[error("the retry period is zero; a candidate would send requests without a pause")]
    RetryPeriod,

    /// The renew deadline leaves no time for a second try.
    #[error("the retry period of {retry:?} is not less than the renew deadline of {renew:?}")]
    Tries {
        /// The retry period.
        retry: Duration,
        /// The renew deadline.
        renew: Duration,
    },

    /// Two replicas would lead at once.
    #[error(
        "the renew deadline of {renew:?} is not less than the lease duration of {lease:?}; \
         another replica would lead while the leader still tries to renew"
    )]
    RenewDeadline {
        /// The renew deadline.
        renew: Duration,
        /// The lease duration.
        lease: Duration,
    },

    /// The lease duration does not fit into a lease, which counts seconds in 32 bits.
    #[error("the lease duration of {lease:?} does not fit into a lease")]
    LeaseDuration {
        /// The lease duration.
        lease: Duration,
    },
}

/// Why a leader lost its lease.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeadershipLost {
    /// It could not renew the lease in time.
    #[error("the lease {lease} was not renewed for {deadline:?}")]
    NotRenewed {
        /// The lease, as `namespace/name`.
        lease: String,
        /// The renew deadline.
        deadline: Duration,
        /// The error of the last request, if it failed.
        source: Option<Arc<LeaseError>>,
    },

    /// Another replica holds the lease.
    #[error("the lease {lease} was taken by {holder:?}")]
    Taken {
        /// The lease, as `namespace/name`.
        lease: String,
        /// The new holder.
        holder: String,
    },

    /// Another client removed the holder from the lease.
    #[error("the lease {lease} was emptied by another client")]
    Emptied {
        /// The lease, as `namespace/name`.
        lease: String,
    },

    /// The lease was deleted, or deleted and created again.
    #[error("the lease {lease} was deleted; another replica may have led since")]
    Deleted {
        /// The lease, as `namespace/name`.
        lease: String,
    },
}

/// Why a lease could not be read or written.
///
/// None of these ends a candidate: it tries again until the cause is removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The API server forbids it (`403`).
    #[error(
        "cannot {verb} the lease {lease}: forbidden ({message}); a Role in its namespace must \
         grant `get`, `create` and `update` on `leases` of the group `coordination.k8s.io`"
    )]
    Forbidden {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The first line of the API server's message, shortened.
        message: String,
    },

    /// Its namespace does not exist (`404`).
    #[error("cannot {verb} the lease {lease}: its namespace does not exist ({message})")]
    NoNamespace {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The first line of the API server's message, shortened.
        message: String,
    },

    /// The API server refuses it for another reason.
    #[error("cannot {verb} the lease {lease}: the API server answers {code} ({message})")]
    Refused {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The status code.
        code: u16,
        /// The first line of the API server's message, shortened.
        message: String,
    },

    /// No answer came in time.
    #[error("cannot {verb} the lease {lease}: no answer within {limit:?}")]
    Silent {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The time limit.
        limit: Duration,
    },

    /// The API server could not be reached, or its answer could not be read.
    #[error("cannot {verb} the lease {lease}: the connection to the API server failed")]
    Connection {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

// === impl InvalidElection ===

impl InvalidElection {
    /// A stable word for the variant.
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
    /// A stable word for the variant.
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
    /// A stable word for the variant: the `reason` label of `leader_election_failures_total`.
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
