//! The hook that receives each call whose retries are exhausted.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use windlass_informer::{log, panic_message};

use super::dead_letters::DeadLetter;
use crate::work::call_user_code;

/// The user's hook.
pub(crate) type Hook = Box<dyn Fn(DeadLetter) -> BoxFuture<'static, ()> + Send + Sync>;

/// Calls the hook and waits for it, at most `limit`. Logs a panic.
pub(super) async fn call(hook: &Hook, letter: DeadLetter, limit: Option<Duration>) {
    let key = letter.key.clone();
    let Some(called) = call_user_code("on_exhausted", || hook(letter)) else {
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
            log::error!(object = %key, %message, "on_exhausted panicked");
        }
        Err(_) => log::error!(object = %key, ?limit, "on_exhausted timed out"),
    }
    // Dropping the future runs user code again.
    call_user_code("on_exhausted", || drop(called));
}
