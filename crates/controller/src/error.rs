//! Errors of controllers and of calls of user code.

use std::{error::Error, mem, time::Duration};

use windlass_informer::{HistoryWentBack, InformerError, InvalidListWatch, log};

use crate::{FinalizerError, InvalidFinalizer, work::call_user_code};

/// Why a call of a handler failed.
///
/// The handler's own error is the [`source`](Error::source), which `to_string` does not show:
/// [`ErrorChain`](windlass_informer::ErrorChain) shows both. If its `Drop` panics, the panic is logged
/// with the text of the error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerError {
    /// The handler returned an error.
    #[error("the handler failed")]
    Failed {
        /// The error.
        source: Box<dyn Error + Send + Sync>,
    },

    /// The handler panicked. Other calls are not affected.
    #[error("the handler panicked: {message}")]
    Panicked {
        /// The message of the panic, cut to 256 characters.
        message: String,
    },

    /// The handler exceeded the time limit, and its call was dropped.
    #[error("the handler timed out after {limit:?}")]
    TimedOut {
        /// The time limit.
        limit: Duration,
    },

    /// A pending `Deleted` became a dead letter because its kind had more than 10,000.
    #[error("too many failed deletes of this kind are pending")]
    TooManyDeletes,
}

/// Why an informer, a watcher, a reconciler or a mapper could not be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The same informer was already added.
    #[error("this informer was already added, to the kind {kind:?}")]
    InformerAlreadyAdded {
        /// The kind to which it was added.
        kind: String,
    },

    /// The name of the kind is empty.
    #[error("the name of a kind must not be empty")]
    EmptyKind,

    /// A kind with this name exists.
    #[error("the kind {kind:?} already exists; clone its handle, or choose another name")]
    KindExists {
        /// The name of the kind.
        kind: String,
    },

    /// The handle of the kind was created by another controller.
    #[error(
        "the kind {kind:?} belongs to another controller; \
         create a kind with `InformerController::kind` of the controller to which you add"
    )]
    OtherController {
        /// The name of the kind.
        kind: String,
    },

    /// A handler or a mapper was added to a kind without an informer while the controller runs.
    #[error("the kind {kind:?} has no informer; add its informer first")]
    NoInformer {
        /// The name of the kind.
        kind: String,
    },

    /// Another handler has a finalizer with this name on objects that both receive. Each of the two
    /// would treat the other's finalizer as its own.
    #[error(
        "{kind:?} cannot have the finalizer {finalizer} of {resource}: a handler of {other_kind:?} in \
         the controller {controller:?} has it; give each wrapped handler a finalizer of its own, or \
         watch different namespaces"
    )]
    FinalizerTaken {
        /// The name of the kind.
        kind: String,
        /// The finalizer, or its in-progress form or legacy name that is taken.
        finalizer: String,
        /// The resource, as `plural.group`.
        resource: String,
        /// The kind of the other handler.
        other_kind: String,
        /// The controller of the other handler.
        controller: String,
    },

    /// The run of the controller has ended, and a controller runs once.
    #[error(
        "nothing can be added to the kind {kind:?}: the controller has ended; create another one"
    )]
    Ended {
        /// The name of the kind.
        kind: String,
    },
}

/// Why a controller cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The prefix of the metrics is invalid.
    #[error("{namespace:?} cannot begin the name of a metric: use letters, digits and _")]
    MetricsNamespace {
        /// The given prefix.
        namespace: String,
        /// The error of the metrics library.
        source: prometheus::Error,
    },
}

/// Why a controller ended without a stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It was run before: a controller runs once.
    #[error("the controller runs already, or has run; a controller runs once")]
    AlreadyRan,

    /// A kind has handlers or mappers and no informer, so that they would never be called.
    #[error("the kind {kind:?} has handlers and no informer; add its informer before the run")]
    NoInformer {
        /// The name of the kind.
        kind: String,
    },

    /// The lists of some informers of the start made no progress for the timeout.
    #[error(
        "timed out after {timeout:?} without progress waiting for informers to sync: {informers}; \
         create a kind whose resource may be missing with `optional_kind`, or set another \
         `cache_sync_timeout`"
    )]
    NotSynced {
        /// Their kinds, with the health of each.
        informers: String,
        /// The timeout.
        timeout: Duration,
    },

    /// An informer failed permanently: its source is not a `ListWatch`, which retries all errors, or
    /// it panicked.
    #[error("the informer of {kind:?} failed permanently")]
    Informer {
        /// The name of the kind.
        kind: String,
        /// The error of the informer.
        source: InformerError,
    },

    /// The history of the API server went back, for example because a cluster was restored from a
    /// backup. What the process remembers may never have happened on this server. No handler was
    /// called with a state of the new history.
    #[error(
        "the history of the API server went back while {kind:?} was watched, as after a restore \
         from a backup; end the process and start it again, because what it remembers may never \
         have happened on this server"
    )]
    HistoryWentBack {
        /// The name of the kind.
        kind: String,
        /// What showed it.
        source: HistoryWentBack,
    },

    /// The controller runs already. It can be run again after that run has ended.
    #[error("the controller runs already; wait until that run has ended")]
    AlreadyRuns,

    /// The settings of the controller are invalid.
    #[error("the controller cannot be built")]
    Build {
        /// The error of the builder.
        #[from]
        source: BuildError,
    },

    /// The informer cannot be added to the controller.
    #[error("the informer cannot be added to the controller")]
    Add {
        /// The error of the addition.
        #[from]
        source: AddError,
    },

    /// Kubernetes would reject the name of the finalizer.
    #[error("the finalizer of the controller is not valid")]
    Finalizer {
        /// Why it is invalid.
        #[from]
        source: InvalidFinalizer,
    },

    /// A selector of the controller is invalid.
    #[error("a selector of the controller is not valid")]
    Selector {
        /// Why it is invalid.
        #[from]
        source: InvalidListWatch,
    },

    /// A nested controller failed.
    #[error("the nested controller {name:?} failed")]
    Nested {
        /// Its name.
        name: String,
        /// Its error.
        source: Box<dyn Error + Send + Sync>,
    },

    /// The background task of a resource panicked.
    #[error("the background task of the controller panicked: {message}")]
    Background {
        /// The message of the panic, cut to 256 characters.
        message: String,
    },

    /// A task of the engine panicked. This is a bug in Windlass; please report it.
    #[error("a task of the controller panicked: {message}; please report this bug")]
    Broken {
        /// The message of the panic, cut to 256 characters.
        message: String,
    },
}

/// Takes the place of an error that is dropped.
#[derive(Debug, thiserror::Error)]
#[error("dropped")]
struct Dropped;

/// An object has another type than its handler.
#[derive(Debug, thiserror::Error)]
#[error("{key} is not a {expected}")]
pub(crate) struct CannotCast {
    pub(crate) key: windlass_informer::ObjectKey,
    pub(crate) expected: &'static str,
}

/// An object that is kept as JSON does not decode.
#[derive(Debug, thiserror::Error)]
#[error("{key} does not decode")]
pub(crate) struct Undecodable {
    pub(crate) key: windlass_informer::ObjectKey,
    pub(crate) source: windlass_informer::DecodeError,
}

/// The longest wait that a server can demand: longer than any API server demands.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The time that the API server demands before the next request, if its response names one.
pub(crate) fn demanded_delay(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// An error and its sources, at most 16: a source that returns itself ends nothing.
fn sources<'a>(
    first: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let next = |error: &&'a (dyn Error + 'static)| (**error).source();
    std::iter::successors(Some(first), next).take(16)
}

/// An error as a [`kube::Error`]. A field `source: Box<kube::Error>` of another error is the box.
fn kube_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a kube::Error> {
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(|it| &**it);
    error.downcast_ref::<kube::Error>().or_else(boxed)
}

// === impl HandlerError ===

impl HandlerError {
    /// The value of the metric label `reason`. It never changes.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "failed",
            Self::Panicked { .. } => "panicked",
            Self::TimedOut { .. } => "timed_out",
            Self::TooManyDeletes => "too_many_deletes",
        }
    }

    /// The handler's own error, if it has the type `E`.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Failed { source } => source.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the API server refused a write because the object had changed.
    pub(crate) fn is_conflict(&self) -> bool {
        let Self::Failed { source } = self else {
            return false;
        };
        let is_conflict = |error: &kube::Error| match error {
            kube::Error::Api(status) => status.code == 409 && status.reason == "Conflict",
            _ => false,
        };
        sources(&**source)
            .find_map(kube_error)
            .is_some_and(is_conflict)
    }

    /// Whether a finalizer could not be read or written. An object without a uid can have none.
    pub(crate) fn is_finalizer_failure(&self) -> bool {
        let Self::Failed { source } = self else {
            return false;
        };
        let mut errors = sources(&**source);
        let error = errors.find_map(|error| error.downcast_ref::<FinalizerError>());
        error.is_some_and(|error| !matches!(error, FinalizerError::NoUid { .. }))
    }

    /// The minimum time until the next attempt, if the API server demanded one: the handler's error
    /// or one of its sources is a [`kube::Error`] with `retryAfterSeconds`, or a [`FinalizerError`]
    /// with one. At most 5 minutes.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let Self::Failed { source } = self else {
            return None;
        };
        sources(&**source)
            .find_map(|error| match kube_error(error) {
                Some(error) => demanded_delay(error),
                None => error.downcast_ref::<FinalizerError>()?.retry_after(),
            })
            .map(|delay| delay.min(MAX_RETRY_AFTER))
    }
}

/// The last reference to an error is dropped by a task of the controller, which a panic of the user's
/// `Drop` must not end.
impl Drop for HandlerError {
    fn drop(&mut self) {
        let Self::Failed { source } = self else {
            return;
        };
        // A box of an empty type takes no memory.
        let source = mem::replace(source, Box::new(Dropped));
        if call_user_code("drop of an error of a handler", || drop(source)).is_none() {
            log::error!(
                component = "InformerController",
                "the `Drop` of a handler's error panicked"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_an_error_that_is_dropped_is_caught() {
        #[derive(Debug, thiserror::Error)]
        #[error("refused")]
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("test");
            }
        }
        let source = Box::new(Bomb);
        let error = HandlerError::Failed { source };
        assert!(error.downcast_ref::<Bomb>().is_some());
        drop(error);
    }
}
