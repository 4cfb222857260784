//! Errors of building a `Controller`.

use windlass_informer::{InvalidListWatch, LateIndex};

use crate::{AddError, BuildError, InvalidFinalizer};

/// Why a [`Controller`](crate::Controller) cannot be built, or a watch cannot be added to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerBuildError {
    /// The name of the finalizer is invalid.
    #[error("invalid finalizer")]
    Finalizer {
        /// Why it is invalid.
        #[from]
        source: InvalidFinalizer,
    },

    /// A selector of a watch is invalid.
    #[error("invalid watch")]
    Watch {
        /// Why it is invalid.
        #[from]
        source: InvalidListWatch,
    },

    /// A shared informer needs an index, and has run before.
    #[error(
        "a shared informer needs an index for this controller; build the controller before the informer runs"
    )]
    Index {
        /// The error of the informer.
        #[from]
        source: LateIndex,
    },

    /// A watch has no namespace and no informer, so that its objects would never be read.
    #[error(
        "the watch of {kind} has no objects: it has no namespace, or asks for the metadata of a shared informer; give it a namespace or a list and watch of its own"
    )]
    NothingWatched {
        /// The kind.
        kind: String,
    },

    /// A handle was used before its controller was built, or after it was dropped.
    #[error(
        "the controller is not built, or was dropped; add further watches between `build` and the end of the run"
    )]
    NotBuilt,

    /// The engine refused an informer or a handler.
    #[error("cannot add to the controller")]
    Add {
        /// Why it was refused.
        source: AddError,
    },

    /// A setting of the engine is invalid.
    #[error("invalid setting")]
    Setting {
        /// Which setting, and why.
        #[from]
        source: BuildError,
    },
}
