//! Errors of finalizer writes.

use std::{sync::Arc, time::Duration};

use windlass_informer::ObjectKey;

use super::FinalizerName;

/// Why the finalizers of an object could not be made as they should be.
///
/// What the API server said is the [`source`](std::error::Error::source), without its message
/// where that may quote the object (422 and 5xx). [`ErrorChain`](windlass_informer::ErrorChain)
/// displays both.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// The API server did not take the change.
    #[error("cannot write finalizer {finalizer} of {key}")]
    Write {
        /// Our finalizer.
        finalizer: FinalizerName,
        /// Whose.
        key: ObjectKey,
        /// What the API server said.
        source: kube::Error,
    },

    /// The API server did not say how the object is.
    #[error("cannot read {key} for its finalizer {finalizer}")]
    Read {
        /// Our finalizer.
        finalizer: FinalizerName,
        /// Whose.
        key: ObjectKey,
        /// What the API server said.
        source: kube::Error,
    },

    /// The API server forbids it (`403`).
    #[error(
        "cannot {verb} {resource} {key} for finalizer {finalizer}: forbidden; a Role or \
         ClusterRole must grant `get` and `patch` on {resource}"
    )]
    Forbidden {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// Our finalizer.
        finalizer: FinalizerName,
        /// Whose.
        key: ObjectKey,
        /// What the API server said.
        source: kube::Error,
    },

    /// Another writer changed the finalizers before each attempt.
    #[error("finalizer {finalizer} of {key} was written over by others {tries} times")]
    Contended {
        /// Our finalizer.
        finalizer: FinalizerName,
        /// Whose.
        key: ObjectKey,
        /// How often we tried.
        tries: u32,
    },

    /// The object has no uid, so that it cannot be told from a recreated one. Objects from an API
    /// server have one.
    #[error("{key} has no uid, and gets no finalizer without one")]
    NoUid {
        /// Whose.
        key: ObjectKey,
    },
}

// === impl FinalizerError ===

impl FinalizerError {
    /// The least time to wait before the next attempt, at most 5 minutes, if the API server named
    /// one: in the `Retry-After` header, or as `retryAfterSeconds`. The engine waits at least as
    /// long before it repeats the call.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let (Self::Write { source, .. }
        | Self::Read { source, .. }
        | Self::Forbidden { source, .. }) = self
        else {
            return None;
        };
        let kube::Error::Api(status) = source else {
            return None;
        };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// One stable word for it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Write { .. } => "finalizer_write",
            Self::Read { .. } => "finalizer_read",
            Self::Forbidden { .. } => "finalizer_forbidden",
            Self::Contended { .. } => "finalizer_contended",
            Self::NoUid { .. } => "no_uid",
        }
    }
}
