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

    /// Selectors or settings of a shared informer were to be changed.
    #[error(
        "the informer of {kind} is shared, so that its selectors and settings cannot be changed; \
         set them in the informer, or give the controller a watch of its own"
    )]
    SharedInformer {
        /// The kind.
        kind: String,
    },

    /// A watch has no namespace, so that it has no objects.
    #[error("the watch of {kind} has no namespace; name at least one")]
    NothingWatched {
        /// The kind.
        kind: String,
    },

    /// Children are claimed by a selector, and the controller has another handle for their resource.
    #[error(
        "the children of the resource {resource} are claimed by a selector, and the controller owns or \
         claims them a second time, so that each claim would release the children of the other; use one \
         handle for the resource"
    )]
    ClaimedTwice {
        /// The resource, as `plural.group`.
        resource: String,
    },

    /// Children are watched in another cluster than that of the client, to which all calls write.
    #[error(
        "the children of the resource {resource} are watched in another cluster, and the calls write them \
         to the cluster of the client; read the objects of another cluster with `watches`, and give the \
         controller the client of the cluster that has the children"
    )]
    ChildrenOfAnotherCluster {
        /// The resource, as `plural.group`.
        resource: String,
    },

    /// A watch with a filter was added while the controller runs.
    #[error(
        "the added watch of {kind} has a filter, but that of the first watch of a handle applies to all of \
         them; set the filter of the first watch"
    )]
    FilterOfAddedWatch {
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
