//! The hook that receives each call whose retries are exhausted.

use std::time::Duration;

use futures::future::BoxFuture;
use windlass_informer::log;

use super::dead_letters::DeadLetter;
use crate::{
    HandlerError,
    work::{call_user_code, guarded},
};

/// The user's hook.
pub(crate) type Hook = Box<dyn Fn(DeadLetter) -> BoxFuture<'static, ()> + Send + Sync>;

/// Calls the hook and waits for it, at most `limit`. Logs a panic.
pub(super) async fn call(hook: &Hook, letter: DeadLetter, limit: Option<Duration>) {
    let key = letter.key.clone();
    let Some(called) = call_user_code("on_exhausted", || hook(letter)) else {
        return;
    };
    match guarded("on_exhausted", called, limit).await {
        Ok(()) => {}
        Err(HandlerError::Panicked { ref message }) => {
            log::error!(object = %key, %message, "on_exhausted panicked");
        }
        Err(_) => log::error!(object = %key, ?limit, "on_exhausted timed out"),
    }
}
