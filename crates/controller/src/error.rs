//! Errors of a controller, and of the user's code in it.

use std::{error::Error, time::Duration};

use windlass_informer::{InformerError, SharedInformerError};

use crate::FinalizerError;

/// Why a call of a handler did not succeed.
///
/// What the handler itself said is the [`source`](Error::source).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerError {
    /// The handler returned an error.
    #[error("the handler failed")]
    Failed {
        /// What it returned.
        source: Box<dyn Error + Send + Sync>,
    },

    /// The handler panicked. Nothing else was harmed.
    #[error("the handler panicked: {message}")]
    Panicked {
        /// The beginning of the panic's message.
        message: String,
    },

    /// The handler took longer than it was given, and was dropped.
    #[error("the handler took longer than {limit:?}")]
    TimedOut {
        /// What it was given.
        limit: Duration,
    },

    /// A pending `Deleted` was dropped because its kind had too many.
    #[error("too many failed deletes of this kind are pending")]
    TooManyDeletes,
}

// === impl HandlerError ===

impl HandlerError {
    /// The least time to wait before the next attempt, if the API server named one when a wrapper
    /// wrote a finalizer.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed { source } => source.downcast_ref::<FinalizerError>()?.retry_after(),
            _ => None,
        }
    }
}

/// Why an informer, a watcher, a reconciler or a mapper could not be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The same informer is there already.
    #[error("this informer is already added, as {kind:?}")]
    InformerAlreadyAdded {
        /// The name of the kind under which it was added.
        kind: String,
    },

    /// The informer has other users, and this controller, or another one that has the informer,
    /// makes the watch wait for slow handlers
    /// ([`Coalescing::Never`](crate::Coalescing::Never)).
    #[error(
        "the informer of {kind:?} cannot be shared, because one of its controllers has \
         `Coalescing::Never` and makes the watch wait for its handlers; give that controller an \
         informer of its own, or another `Coalescing`"
    )]
    SharedInformer {
        /// The name of the kind.
        kind: String,
        /// What the informer says.
        source: SharedInformerError,
    },

    /// The name of the kind is empty.
    #[error("the name of a kind must not be empty")]
    EmptyKind,

    /// A mapper is to name objects of a kind that is not there.
    #[error("there is no kind {kind:?} yet: add its informer or its handlers before the mapper")]
    UnknownKind {
        /// The name of the kind.
        kind: String,
    },

    /// A handler or a mapper was added to a kind without an informer while the controller runs.
    #[error(
        "the kind {kind:?} has no informer{}; add the informer first",
        did_you_mean(closest.as_ref())
    )]
    NoInformer {
        /// The name of the kind.
        kind: String,
        /// The kind with an informer whose name is most like it.
        closest: Option<String>,
    },

    /// Another handler of this type of objects has the same finalizer: the two would take each
    /// other's objects for their own.
    #[error(
        "a handler of {kind:?} has the finalizer {finalizer} already; \
         give each wrapped handler a finalizer of its own"
    )]
    FinalizerTaken {
        /// The name of the kind.
        kind: String,
        /// The finalizer.
        finalizer: String,
    },

    /// The kind of that name is of another type.
    #[error("{kind:?} is a kind of {known} objects, and this is for {given}")]
    OtherType {
        /// The name of the kind.
        kind: String,
        /// The type of its objects.
        known: &'static str,
        /// The type of the objects of what was to be added.
        given: &'static str,
    },
}

/// Why a controller could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The names of the metrics would not be names.
    #[error("{namespace:?} cannot begin the name of a metric: use letters, digits and _")]
    MetricsNamespace {
        /// What was asked for.
        namespace: String,
        /// What the metrics library says.
        source: prometheus::Error,
    },
}

/// Why a controller stopped without having been told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It runs already, or has run: a controller runs once.
    #[error("the controller runs already, or has run; a controller runs once")]
    AlreadyRan,

    /// A kind has handlers or mappers and no informer, so that they would never be called.
    #[error(
        "the kind {kind:?} has handlers and no informer{}",
        did_you_mean(closest.as_ref())
    )]
    NoInformer {
        /// The name of the kind.
        kind: String,
        /// The kind with an informer whose name is most like it.
        closest: Option<String>,
    },

    /// The controller has [`Coalescing::Never`](crate::Coalescing::Never), which makes the watch
    /// wait for its handlers, and the informer has a subscription by other code.
    #[error(
        "the informer of {kind:?} has a subscription besides this controller, which has \
         `Coalescing::Never` and makes the watch wait for its handlers; give the controller an \
         informer of its own, or another `Coalescing`"
    )]
    SharedInformer {
        /// The name of the kind.
        kind: String,
    },

    /// The lists of some informers made no progress for the time limit.
    #[error(
        "timed out after {timeout:?} without progress waiting for informers to sync: {informers}"
    )]
    NotSynced {
        /// Their kinds, and the state of each.
        informers: String,
        /// The limit.
        timeout: Duration,
    },

    /// An informer failed permanently.
    #[error("the informer of {kind:?} failed permanently")]
    Informer {
        /// The name of the kind.
        kind: String,
        /// Why it did.
        source: InformerError,
    },

    /// A task of the engine ended that must not. A bug of ours; please report it.
    #[error("a task of the controller panicked: {message}")]
    Broken {
        /// The beginning of the panic's message.
        message: String,
    },
}

/// An object was not of the type that a handler is for.
#[derive(Debug, thiserror::Error)]
#[error("{key} is not a {expected}")]
pub(crate) struct CannotCast {
    pub(crate) key: windlass_informer::ObjectKey,
    pub(crate) expected: &'static str,
}

/// An object that a store keeps in another form does not decode.
#[derive(Debug, thiserror::Error)]
#[error("{key} does not decode")]
pub(crate) struct Undecodable {
    pub(crate) key: windlass_informer::ObjectKey,
    pub(crate) source: windlass_informer::DecodeError,
}

/// The end of a message about a name that is not known.
fn did_you_mean(closest: Option<&String>) -> String {
    closest.map_or_else(String::new, |closest| {
        format!(" (did you mean {closest:?}?)")
    })
}

// === impl HandlerError ===

impl HandlerError {
    /// One stable word for it: the `reason` label of metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "failed",
            Self::Panicked { .. } => "panicked",
            Self::TimedOut { .. } => "timed_out",
            Self::TooManyDeletes => "too_many_deletes",
        }
    }

    /// The handler's own error, if it is an `E`.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Failed { source } => source.downcast_ref(),
            _ => None,
        }
    }
}

impl AddError {
    /// One stable word for it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::InformerAlreadyAdded { .. } => "informer_already_added",
            Self::SharedInformer { .. } => "shared_informer",
            Self::EmptyKind => "empty_kind",
            Self::UnknownKind { .. } => "unknown_kind",
            Self::NoInformer { .. } => "no_informer",
            Self::FinalizerTaken { .. } => "finalizer_taken",
            Self::OtherType { .. } => "other_type",
        }
    }
}
