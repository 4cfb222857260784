//! `ApplyCleanupError`: an error, and the step that failed.

use crate::FinalizerError;

/// An error for an object of an [`ApplyCleanup`](super::ApplyCleanup), with the step that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyCleanupError<E: std::error::Error + 'static> {
    /// `apply` failed.
    #[error("cannot apply the object")]
    ApplyFailed(#[source] E),

    /// `cleanup` failed.
    #[error("cannot clean up after the object")]
    CleanupFailed(#[source] E),

    /// The finalizer was not added, so that `apply` was not called.
    #[error("cannot add the finalizer")]
    AddFinalizer(#[source] FinalizerError),

    /// The finalizer was not removed after the clean-up.
    #[error("cannot remove the finalizer")]
    RemoveFinalizer(#[source] FinalizerError),
}
