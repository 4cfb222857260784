//! `ExhaustedCall`, and the hook that receives it.

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use windlass_informer::{ErrorChain, panic_message};

use super::dead_letters::DeadLetter;
use crate::{
    event::AnyEvent,
    work::{call_user_code, typed},
};

/// A call whose retries are exhausted, with its object.
///
/// [`on_exhausted`](crate::InformerControllerBuilder::on_exhausted) receives it, for example to
/// write the failure into the object's status.
#[derive(Clone)]
pub struct ExhaustedCall {
    call: DeadLetter,
    event: AnyEvent,
}

/// The user's hook.
pub(crate) type Hook = Box<dyn Fn(ExhaustedCall) -> BoxFuture<'static, ()> + Send + Sync>;

/// Calls the hook and waits for it, at most `limit`. Logs a panic.
pub(super) async fn call(hook: &Hook, exhausted: ExhaustedCall, limit: Option<Duration>) {
    let key = exhausted.call.key.clone();
    let Some(called) = call_user_code("on_exhausted", || hook(exhausted)) else {
        return;
    };
    let mut called = AssertUnwindSafe(called).catch_unwind();
    let ended = match limit {
        None => Ok((&mut called).await),
        Some(limit) => tokio::time::timeout(limit, &mut called).await,
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => {
            let message = panic_message(panic);
            tracing::error!(object = %key, %message, "on_exhausted panicked");
        }
        Err(_) => tracing::error!(object = %key, ?limit, "on_exhausted timed out"),
    }
    // Dropping the future runs user code again.
    call_user_code("on_exhausted", || drop(called));
}

// === impl ExhaustedCall ===

impl ExhaustedCall {
    pub(super) const fn new(call: DeadLetter, event: AnyEvent) -> Self {
        Self { call, event }
    }

    /// The call: its kind, key, handler with its type, action, attempts and last error.
    #[must_use]
    pub const fn call(&self) -> &DeadLetter {
        &self.call
    }

    /// The object of the last call. Of a deleted object the last known state. `None` if it is not a
    /// `K` or does not decode.
    #[must_use]
    pub fn object<K: Send + Sync + 'static>(&self) -> Option<Arc<K>> {
        typed::<K>(&self.event)?.object().cloned()
    }
}

/// Shows the call, and never the content of the object, which may be secret.
impl fmt::Debug for ExhaustedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExhaustedCall")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ExhaustedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeadLetter {
            kind,
            key,
            handler,
            handler_type,
            role,
            action,
            error,
            ..
        } = &self.call;
        let (role, action, error) = (role.as_str(), action.as_str(), ErrorChain::new(&**error));
        write!(
            f,
            "{role} {handler} ({handler_type}) of {kind} {key} on {action}: {error}"
        )
    }
}
