//! Errors of an informer that failed or is not synced.

use std::sync::Arc;

use crate::WatchError;

/// Why an informer failed. All callers of [`Informer::run`](crate::Informer::run) get the same
/// error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InformerError {
    /// The source failed permanently.
    #[error("the informer of {resource} failed: its source cannot continue")]
    Source {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// Why.
        source: Arc<WatchError>,
    },

    /// Code of the source or of the user's types panicked, for example `Drop`, `Hash`, `Eq` or `Clone`
    /// of an index value, and the informer cannot continue.
    #[error(
        "the informer of {resource} failed: its source, or code of its types such as `Drop` or `Hash`, panicked: {message}; this is a defect of that code"
    )]
    Panicked {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// The message of the panic, cut to 256 characters.
        message: Arc<str>,
    },
}

/// Why [`Informer::synced`](crate::Informer::synced) stopped waiting.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// No caller of [`Informer::run`](crate::Informer::run) drives the informer.
    #[error(
        "the informer of {resource} is not synced: it has not been run within 10 s; call `Informer::run` and poll its future, or add the informer to a controller that runs"
    )]
    NotRun {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
    },

    /// The last caller of [`Informer::run`](crate::Informer::run) stopped the informer.
    #[error(
        "the informer of {resource} is not synced: the last caller of `Informer::run` stopped it; run it again first"
    )]
    Stopped {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
    },

    /// The informer failed.
    #[error("the informer of {resource} is not synced: it failed")]
    Failed {
        /// The kind, as `plural.group`.
        resource: Arc<str>,
        /// Why.
        source: InformerError,
    },
}
