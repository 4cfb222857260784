//! The report of a failed call.

use std::{fmt, sync::Arc, time::Duration};

use windlass_informer::{ErasedObject, ErrorChain, ObjectKey, log};

use crate::{Action, HandlerError, HandlerId, Role};

/// A failed call of a handler or mapper. A mapper is not called again.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ErrorReport<'a> {
    /// The name of the kind.
    pub kind: &'a str,
    /// The object's namespace and name.
    pub key: &'a ObjectKey,
    /// The handler that was called.
    pub handler: HandlerId,
    /// The type of that handler, as Rust names it: its path, or where its closure is.
    pub handler_type: &'a str,
    /// Whether that is a watcher, a reconciler or a mapper.
    pub role: Role,
    /// The action of the call. For a wrapper with a finalizer, such as
    /// [`OpinionatedReconciler`](crate::OpinionatedReconciler), that of the call of its inner handler:
    /// `Deleted` for a clean-up, whose event is an update. If it fails before it decides about a call,
    /// that of the event.
    pub action: Action,
    /// The number of earlier failed calls of the same request: 0 for a first call. A finalizer that
    /// could not be written does not count.
    pub attempt: u32,
    /// The error.
    pub error: &'a HandlerError,
    /// The delay until the retry. `None` if there is no retry, and in a call of a
    /// [`RetryPolicy`](crate::RetryPolicy).
    pub retry_in: Option<Duration>,
    /// The object of the call, in the form in which the store has it: [`typed`] returns it as its
    /// type, or as its metadata for an informer of metadata. For a delete, its last state.
    ///
    /// [`typed`]: windlass_informer::ErasedObject#method.typed
    pub object: Option<&'a Arc<dyn ErasedObject>>,
    /// For a [`RetryPolicy`](crate::RetryPolicy), a number in `[0, 1)` for jitter, which is the same in
    /// a run with the same seed. Otherwise 0.
    pub random: f64,
}

/// A call of a watcher or reconciler that has ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallReport<'a> {
    /// The name of the kind.
    pub kind: &'a str,
    /// The object's namespace and name.
    pub key: &'a ObjectKey,
    /// The handler that was called.
    pub handler: HandlerId,
    /// Whether that is a watcher or a reconciler.
    pub role: Role,
    /// The action of the event. A wrapper with a finalizer may have called its inner handler with
    /// another one: for a clean-up, this is `Updated`, and `Deleted` only in the [`ErrorReport`].
    pub action: Action,
    /// The number of earlier failed calls of the same request: 0 for a first call. A finalizer that
    /// could not be written does not count.
    pub attempt: u32,
    /// How the call ended.
    pub outcome: CallOutcome<'a>,
    /// The time from the begin to the end of the call.
    pub duration: Duration,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CallOutcome<'a> {
    /// It succeeded.
    Succeeded,
    /// It succeeded, and is repeated after this delay.
    Requeued(Duration),
    /// It failed.
    Failed(&'a HandlerError),
    /// Another writer was faster: [`Failure::conflict`](crate::Failure::conflict).
    Conflict(&'a HandlerError),
    /// It was dropped before its end, because the controller was dropped, or refused by the fence. It
    /// is repeated by the next leader or after the next start.
    Abandoned,
}

/// The hook for ended calls.
pub(crate) type CallHook = Box<dyn Fn(&CallReport<'_>) + Send + Sync>;

/// The error hook. By default it logs.
pub(crate) type Hook = Box<dyn Fn(&ErrorReport<'_>) + Send + Sync>;

/// Logs a failed call of an `InformerController`.
pub(crate) fn log(report: &ErrorReport<'_>) {
    log_as("InformerController", report);
}

/// Logs a failed call of a `Controller`.
pub(crate) fn log_level_triggered(report: &ErrorReport<'_>) {
    log_as("Controller", report);
}

fn log_as(component: &str, report: &ErrorReport<'_>) {
    let error = ErrorChain::new(report.error);
    let next = match (report.retry_in, report.role) {
        (Some(_), _) => "call failed, retrying",
        (None, Role::Mapper) => "mapper failed",
        (None, _) if report.attempt == 0 => "call failed, not retried",
        (None, _) => "call failed, retries exhausted",
    };
    log::error!(
        component,
        kind = report.kind,
        object = %report.key,
        // Before the type of the handler, which can have hundreds of characters.
        error = %error,
        retry_in = report.retry_in.map(tracing::field::debug),
        attempt = report.attempt,
        action = report.action.as_str(),
        role = report.role.as_str(),
        handler = %report.handler,
        handler_type = report.handler_type,
        "{next}"
    );
}

// === impl ErrorReport ===

impl fmt::Display for ErrorReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} ({}) of {} {} on {}: {}",
            self.role.as_str(),
            self.handler,
            self.handler_type,
            self.kind,
            self.key,
            self.action.as_str(),
            ErrorChain::new(self.error)
        )
    }
}
