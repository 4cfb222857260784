//! Errors of finalizer writes.

use std::{sync::Arc, time::Duration};

use windlass_informer::ObjectKey;

use super::FinalizerName;
use crate::error::demanded_delay;

/// Why finalizers of an object could not be changed.
///
/// The error of the API server is the [`source`](std::error::Error::source), without its message if
/// that may quote the object (422 and 5xx). [`ErrorChain`](windlass_informer::ErrorChain) displays
/// both.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// The API server rejected the patch, or was not reached.
    #[error("cannot write finalizer {finalizer} of {key}")]
    Write {
        /// What was to be done.
        change: FinalizerChange,
        /// Our finalizer.
        finalizer: FinalizerName,
        /// The object.
        key: ObjectKey,
        /// The error.
        source: kube::Error,
    },

    /// The object could not be read.
    #[error("cannot read {key} for its finalizer {finalizer}")]
    Read {
        /// What was to be done.
        change: FinalizerChange,
        /// Our finalizer.
        finalizer: FinalizerName,
        /// The object.
        key: ObjectKey,
        /// The error.
        source: kube::Error,
    },

    /// A permission is missing (`403`).
    #[error(
        "cannot {verb} {resource} {key} for finalizer {finalizer}: forbidden; a Role or \
         ClusterRole must grant `get` and `patch` on {resource}"
    )]
    Forbidden {
        /// What was to be done.
        change: FinalizerChange,
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// Our finalizer.
        finalizer: FinalizerName,
        /// The object.
        key: ObjectKey,
        /// The error.
        source: kube::Error,
    },

    /// Another writer changed the finalizers before each attempt, or a mutating webhook during it.
    #[error(
        "cannot write finalizer {finalizer} of {key}: other writers, or a mutating webhook, changed its finalizers during each of {tries} attempts"
    )]
    Contended {
        /// What was to be done.
        change: FinalizerChange,
        /// Our finalizer.
        finalizer: FinalizerName,
        /// The object.
        key: ObjectKey,
        /// The number of attempts.
        tries: u32,
    },

    /// The object has no uid, so that a recreated object could not be distinguished from it.
    /// Objects from an API server have a uid.
    #[error(
        "cannot add a finalizer to {key}: it has no uid, so it does not come from an API server"
    )]
    NoUid {
        /// The object.
        key: ObjectKey,
    },
}

/// What was to be done with a finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinalizerChange {
    /// The finalizer was to be added, or written in another form.
    Add,
    /// The finalizer was to be removed.
    Remove,
}

// === impl FinalizerError ===

impl FinalizerError {
    /// Whether the finalizer was to be removed, or the object was read to decide about that: it was
    /// deleted.
    pub(crate) const fn is_removal(&self) -> bool {
        match self {
            Self::Write { change, .. }
            | Self::Read { change, .. }
            | Self::Forbidden { change, .. }
            | Self::Contended { change, .. } => matches!(change, FinalizerChange::Remove),
            Self::NoUid { .. } => false,
        }
    }

    /// The least time to wait before the next attempt, at most 5 minutes, if the API server named
    /// one: in the `Retry-After` header, or as `retryAfterSeconds`. The engine waits at least as
    /// long before it repeats the call.
    #[doc(hidden)]
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let (Self::Write { source, .. }
        | Self::Read { source, .. }
        | Self::Forbidden { source, .. }) = self
        else {
            return None;
        };
        demanded_delay(source)
    }

    /// The short name of the error in the tables of tests.
    #[cfg(test)]
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Write { .. } => "finalizer_write",
            Self::Read { .. } => "finalizer_read",
            Self::Forbidden { .. } => "finalizer_forbidden",
            Self::Contended { .. } => "finalizer_contended",
            Self::NoUid { .. } => "no_uid",
        }
    }
}
