//! Errors of composite controllers.

use windlass_controller::ControllerBuildError;

/// Why a composite controller was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompositeBuildError {
    /// A kind of children was declared twice.
    #[error("the kind {kind} of {api_version} was declared twice as a kind of children")]
    DuplicateKind {
        /// The kind.
        kind: String,
        /// The group and version.
        api_version: String,
    },

    /// Children that Kubernetes does not delete are declared without a finalizer.
    #[error(
        "the kind {kind} of {api_version} has children elsewhere, which nothing would delete without a \
         finalizer; remove `without_finalizer` or `elsewhere`"
    )]
    ElsewhereWithoutFinalizer {
        /// The kind.
        kind: String,
        /// The group and version.
        api_version: String,
    },

    /// The finalizer, the selector or the settings were refused.
    #[error(transparent)]
    Controller(#[from] ControllerBuildError),
}
