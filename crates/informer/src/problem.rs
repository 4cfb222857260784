//! Problems that an informer recovers from, for its error handler.

use std::{fmt, sync::Arc, time::Duration};

use crate::{DecodeError, ErrorChain, ObjectKey, WatchError, WatchErrorCause, log};

/// A problem from which the informer recovers.
///
/// Displays as one line of bounded length with the kind, the reason, and the next step.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Problem<'a> {
    /// A list or a watch broke, and is retried.
    Watch {
        /// The kind, as `plural.group`.
        resource: &'a str,
        /// Why it broke.
        error: &'a WatchError,
        /// The time until the retry.
        retry_in: Duration,
    },

    /// An object does not decode. It is quarantined, and requested again later.
    Object {
        /// The kind, as `plural.group`.
        resource: &'a str,
        /// Which object.
        key: &'a ObjectKey,
        /// Why it does not decode.
        error: &'a DecodeError,
    },
}

/// A user's error handler.
pub(crate) type ErrorHandler = Arc<dyn Fn(&Problem<'_>) + Send + Sync>;

// === impl Problem ===

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch {
                error, retry_in, ..
            } => {
                let error = ErrorChain::new(*error);
                write!(f, "{error}; retrying in {retry_in:.1?}")
            }
            Self::Object {
                resource,
                key,
                error,
            } => write!(f, "cannot decode {resource} {key}, quarantined: {error}"),
        }
    }
}

/// The default error handler: logs the problem. An expired history is routine, so it is logged as
/// information.
pub(crate) fn log(problem: &Problem<'_>) {
    match problem {
        Problem::Watch {
            resource,
            error,
            retry_in,
        } => {
            let (reason, chain) = (error.reason(), ErrorChain::new(*error));
            if let WatchErrorCause::Expired { .. } = error.cause {
                log::info!(resource, reason, error = %chain, ?retry_in, "watch expired, relisting");
            } else {
                log::warn!(resource, reason, error = %chain, ?retry_in, "list or watch failed, retrying");
            }
        }
        Problem::Object {
            resource,
            key,
            error,
        } => {
            log::warn!(resource, %key, %error, "object does not decode, quarantined");
        }
    }
}
