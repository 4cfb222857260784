//! Problems that an informer goes on from, as its error handler gets them.

use std::{fmt, sync::Arc, time::Duration};

use crate::{DecodeError, ErrorChain, ObjectKey, WatchError, watch::one_line};

/// What an informer met and went on from.
///
/// It prints as one line of bounded length that names the kind, the reason and what happens
/// next.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Problem<'a> {
    /// A list or a watch broke off, and is taken up again.
    Watch {
        /// The kind, as `plural.group`.
        resource: &'a str,
        /// Why it broke off.
        error: &'a WatchError,
        /// When it is taken up again.
        retry_in: Duration,
    },

    /// An object does not decode. It is set aside, and looked at again now and then.
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
                write!(f, "{error}; trying again in {retry_in:.1?}")
            }
            Self::Object {
                resource,
                key,
                error,
            } => write!(
                f,
                "{resource} {} is set aside, it does not decode: {error}",
                one_line(&key.to_string())
            ),
        }
    }
}

/// What is done where no error handler is set. An expired history is how watches go on.
pub(crate) fn log(problem: &Problem<'_>) {
    let is_routine = matches!(
        problem,
        Problem::Watch {
            error: WatchError::Expired { .. },
            ..
        }
    );
    if is_routine {
        tracing::info!("{problem}");
    } else {
        tracing::warn!("{problem}");
    }
}
