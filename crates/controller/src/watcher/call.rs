//! Calls the method of a watcher for a request.
//!
//! The methods of a watcher receive objects and return nothing. A watcher with a finalizer also needs
//! to know whether its call is repeated, and says whether it did nothing for its event. A value of
//! the task has both, so that they pass through the watchers around it.

use std::{cell::Cell, sync::Arc};

use tokio::task_local;

use super::Watcher;
use crate::{Action, Failure, Outcome, Request, reconciler::Attempt};

task_local! {
    /// The innermost call of a watcher in this task.
    static CALL: WatcherCall;
}

/// The parts of a request and of an outcome that the methods of a watcher do not have.
struct WatcherCall {
    attempt: Attempt,
    is_declined: Cell<bool>,
}

/// Calls the method of `watcher` for the action of `request`.
///
/// # Cancel safety
///
/// Dropping the future drops the future of the method.
pub(crate) async fn call_method<K, W>(watcher: &W, request: Request<K>) -> Result<Outcome, Failure>
where
    K: Send + Sync + 'static,
    W: Watcher<K>,
{
    let (object, old) = (Arc::clone(request.object()), request.old().cloned());
    let action = request.action();
    let has_lost_old = request.attempt.has_lost_old || (action == Action::Updated && old.is_none());
    let call = WatcherCall {
        attempt: Attempt {
            has_lost_old,
            ..request.attempt
        },
        is_declined: Cell::new(false),
    };
    let called = async move {
        // Boxed, because the future of a method can be large: each function that it passes through
        // would copy it, which takes more than the stack of a thread in a debug build.
        let called = match (action, old) {
            (Action::Updated, Some(old)) => Box::pin(watcher.update(old, object)).await,
            (Action::Deleted, _) => Box::pin(watcher.delete(object)).await,
            (Action::Resynced, _) => Box::pin(watcher.resync(object)).await,
            // Also if the old state does not decode: no handler has received it.
            _ => Box::pin(watcher.add(object)).await,
        };
        called.map_err(Into::into)?;
        let is_declined = CALL.with(|call| call.is_declined.get());
        Ok(if is_declined {
            Outcome::declined()
        } else {
            Outcome::done()
        })
    };
    CALL.scope(call, called).await
}

/// The attempt of the call in this task, if a controller makes it.
pub(crate) fn current_attempt() -> Attempt {
    let attempt = CALL.try_with(|call| call.attempt.clone());
    attempt.unwrap_or_default()
}

/// Notes that the call in this task did nothing for its event.
pub(crate) fn decline_current() {
    // Without a controller there are no pending calls to keep.
    _ = CALL.try_with(|call| call.is_declined.set(true));
}
