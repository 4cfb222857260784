//! Errors of leader election.

use std::{sync::Arc, time::Duration};

/// Why the settings of an election were refused.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidElection {
    /// The namespace or the name of the lease is empty.
    #[error("the name or the namespace of the lease is empty; set both")]
    Unnamed,

    /// The namespace or the name of the lease is not a DNS-1123 name, which the API server refuses.
    #[error(
        "the API server refuses a lease with the {field} {name:?}; set a {field} of at most {longest} lower \
         case letters, digits{} and '-' that begins and ends with a letter or a digit",
        and_dots(.field)
    )]
    Name {
        /// `name` or `namespace`.
        field: &'static str,
        /// The invalid name.
        name: String,
        /// The length of the longest valid name.
        longest: usize,
    },

    /// The identity is empty.
    #[error(
        "the identity is empty, but an empty holder means that the lease is free; set an identity"
    )]
    Anonymous,

    /// The retry period is zero.
    #[error(
        "the retry period is zero, so a candidate would send requests without a pause; set a longer one"
    )]
    RetryPeriod,

    /// The renew deadline leaves no time for a second attempt.
    #[error(
        "the retry period of {retry:?} is not less than the renew deadline of {renew:?}; set a \
         shorter retry period"
    )]
    Tries {
        /// The retry period.
        retry: Duration,
        /// The renew deadline.
        renew: Duration,
    },

    /// The leader would still try to renew when another replica already leads.
    #[error(
        "the renew deadline of {renew:?} is not less than the lease duration of {lease:?}; \
         another replica could lead while this one still tries to renew; set a shorter renew deadline"
    )]
    RenewDeadline {
        /// The renew deadline.
        renew: Duration,
        /// The lease duration.
        lease: Duration,
    },

    /// The lease duration exceeds 68 years, which `leaseDurationSeconds` (32 bits) cannot hold.
    #[error("the lease duration of {lease:?} exceeds 68 years; set a shorter one")]
    LeaseDuration {
        /// The lease duration.
        lease: Duration,
    },
}

/// Why a leader lost its lease.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeadershipLost {
    /// No renewal succeeded within the renew deadline.
    #[error("no renewal of the lease {lease} succeeded within {deadline:?}")]
    NotRenewed {
        /// The lease, as `namespace/name`.
        lease: String,
        /// The renew deadline.
        deadline: Duration,
        /// The error of the last request, if it failed.
        source: Option<Arc<LeaseError>>,
    },

    /// Handlers blocked all threads of the runtime, so that no task of the operator ran.
    #[error(
        "the runtime ran no task for {blocked:?}, so the lease {lease} was not renewed; run blocking \
         code of handlers with tokio::task::spawn_blocking"
    )]
    Blocked {
        /// The lease, as `namespace/name`.
        lease: String,
        /// The time without progress.
        blocked: Duration,
    },

    /// Another replica holds the lease.
    #[error("the replica {holder:?} took the lease {lease}")]
    Taken {
        /// The lease, as `namespace/name`.
        lease: String,
        /// The new holder, as one line of at most 300 characters.
        holder: String,
    },

    /// Another client removed the holder from the lease.
    #[error("another client removed the holder of the lease {lease}")]
    Emptied {
        /// The lease, as `namespace/name`.
        lease: String,
    },

    /// The lease was deleted, or deleted and created again.
    #[error("the lease {lease} was deleted; another replica may have led since then")]
    Deleted {
        /// The lease, as `namespace/name`.
        lease: String,
    },
}

/// Why a lease could not be read or written.
///
/// None of these errors stops a candidate: it repeats the request until it succeeds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The API server forbids the request (`403`).
    #[error(
        "cannot {verb} the lease {lease}: forbidden{}; a Role in its namespace must grant `get`, \
         `create` and `update` on `leases` of the group `coordination.k8s.io`",
        in_brackets(.message)
    )]
    Forbidden {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The API server's message as one line of at most 300 characters.
        message: String,
    },

    /// The namespace of the lease does not exist (`404`).
    #[error("cannot {verb} the lease {lease}: its namespace does not exist{}", in_brackets(.message))]
    NoNamespace {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The API server's message as one line of at most 300 characters.
        message: String,
    },

    /// The API server rejects the request with another status code.
    #[error("cannot {verb} the lease {lease}: the API server responded with {code}{}", in_brackets(.message))]
    Refused {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The status code.
        code: u16,
        /// The API server's message as one line of at most 300 characters. Empty with 422 and 5xx,
        /// whose messages may quote an object or describe a crash.
        message: String,
    },

    /// The request timed out.
    #[error("cannot {verb} the lease {lease}: timed out after {limit:?}")]
    Silent {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The lease, as `namespace/name`.
        lease: String,
        /// The timeout of the request.
        limit: Duration,
    },

    /// The API server could not be reached, or its response could not be read.
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

/// Only a name can have dots.
fn and_dots(field: &str) -> &'static str {
    if field == "name" { ", '.'" } else { "" }
}

/// ` (message)`, or nothing without a message.
fn in_brackets(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(" ({message})")
    }
}

// === impl LeaseError ===

impl LeaseError {
    /// A stable identifier of the variant: the `reason` label of `leader_election_failures_total`.
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

#[cfg(test)]
mod tests {
    use super::LeaseError;

    #[test]
    fn the_message_of_the_server_is_in_brackets_after_the_error() {
        let refused = |message: &str| {
            let error = LeaseError::Refused {
                verb: "update",
                lease: "default/web".to_owned(),
                code: 400,
                message: message.to_owned(),
            };
            error.to_string()
        };
        let text = "cannot update the lease default/web: the API server responded with 400";
        assert_eq!(refused(""), text);
        assert_eq!(refused("bad time"), format!("{text} (bad time)"));
    }
}
