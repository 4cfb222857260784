//! The work: the user's code is called here, and nowhere else.
//!
//! Whatever it does comes back as a value: a panic and a call that takes too long are errors
//! of that call. No lock of ours is held meanwhile.

use std::{
    any::Any,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use windlass_informer::Event;

use crate::{
    Failure, HandlerError, Outcome, Reconciler, State, Watcher,
    reconciler::{Call, Retry, cast},
    route::Handler,
};

/// A watcher or a reconciler, whatever the type of its objects and errors.
pub(crate) trait Handle: Send + Sync {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Failure>>;
}

/// A watcher as a handler.
pub(crate) struct Watching<K, W>(W, PhantomData<fn(K)>);

/// A reconciler as a handler.
pub(crate) struct Reconciling<K, R>(R, PhantomData<fn(K)>);

/// What a call that did not succeed comes to.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: HandlerError,
    pub(crate) state: Option<State>,
    pub(crate) retry: Retry,
}

/// Calls `handler`, for as long as `limit` at most.
///
/// # Cancel safety
///
/// Dropping the future drops the handler's.
pub(crate) async fn call(
    handler: &Handler,
    call: Call,
    limit: Option<Duration>,
) -> Result<Outcome, Failed> {
    // The call is made inside of the future, so that a handler that panics before its first
    // `await` is caught too.
    let called = AssertUnwindSafe(async { handler.code.call(call).await }).catch_unwind();
    let ended = match limit {
        None => called.await,
        Some(limit) => match tokio::time::timeout(limit, called).await {
            Ok(ended) => ended,
            Err(_) => return Err(HandlerError::TimedOut { limit }.into()),
        },
    };
    match ended {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(failure)) => {
            let (source, state, retry) = failure.into_parts();
            Err(Failed {
                error: HandlerError::Failed { source },
                state,
                retry,
            })
        }
        Err(panic) => {
            let message = message(&*panic);
            Err(HandlerError::Panicked { message }.into())
        }
    }
}

/// Asks code of the user's that is not a handler: a policy, or a hook. None if it panicked.
pub(crate) fn ask<T>(what: &'static str, code: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(said) => Some(said),
        Err(panic) => {
            let panic = message(&*panic);
            tracing::error!(
                component = "InformerController",
                what,
                panic,
                "user code panicked"
            );
            None
        }
    }
}

/// The beginning of a panic's message.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    /// Enough to find the place, and not enough to fill a log with an object.
    const LIMIT: usize = 256;
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message");
    let mut short: String = message.chars().take(LIMIT).collect();
    if short.len() < message.len() {
        short.push('…');
    }
    short
}

// === impl Failed ===

impl From<HandlerError> for Failed {
    fn from(error: HandlerError) -> Self {
        Self {
            error,
            state: None,
            retry: Retry::Policy,
        }
    }
}

// === impl Watching ===

impl<K, W> Watching<K, W> {
    pub(crate) const fn new(watcher: W) -> Self {
        Self(watcher, PhantomData)
    }
}

impl<K: Send + Sync + 'static, W: Watcher<K>> Handle for Watching<K, W> {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Failure>> {
        async move {
            let Call { key, event, .. } = call;
            let told = match event {
                Event::Added(object) => self.0.add(cast(object, &key)?).await,
                Event::Updated { old, new } => {
                    self.0.update(cast(old, &key)?, cast(new, &key)?).await
                }
                Event::Deleted { last, .. } => self.0.delete(cast(last, &key)?).await,
                Event::Resynced(object) => self.0.resync(cast(object, &key)?).await,
                _ => Ok(()),
            };
            told.map(|()| Outcome::done()).map_err(Into::into)
        }
        .boxed()
    }
}

// === impl Reconciling ===

impl<K, R> Reconciling<K, R> {
    pub(crate) const fn new(reconciler: R) -> Self {
        Self(reconciler, PhantomData)
    }
}

impl<K: Send + Sync + 'static, R: Reconciler<K>> Handle for Reconciling<K, R> {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Failure>> {
        async move {
            let request = call.request()?;
            self.0.reconcile(request).await.map_err(Into::into)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_panic_is_cut_between_characters() {
        let panic: Box<dyn Any + Send> = Box::new("ä".repeat(1_000));
        let message = message(&*panic);
        assert_eq!(message.chars().count(), 257);
        assert!(message.ends_with('…'));
    }

    #[test]
    fn a_panic_of_any_type_is_told() {
        let panic: Box<dyn Any + Send> = Box::new(7_u8);
        assert_eq!(message(&*panic), "a panic without a message");
    }

    #[test]
    fn a_policy_that_panics_has_no_opinion() {
        assert_eq!(ask("policy", || 1), Some(1));
        assert_eq!(ask("policy", || -> u8 { panic!("no") }), None);
    }
}
