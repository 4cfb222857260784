//! Calls of code that may block, such as collectors, on threads of their own.
//!
//! The admin server has one thread. A blocked collector, health function or file must not delay
//! its probes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{self, BoxFuture, Shared},
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};
use tracing::dispatcher::{get_default, with_default};
use windlass_controller::is_time_simulated;
use windlass_informer::panic_message;

/// Calls that may block, at most one at a time, so that a call that never returns takes one thread.
pub(crate) struct BlockingCall<T: Clone> {
    /// How long an output is used again, counted from the start of its call.
    max_age: Duration,
    /// The last call, which may still run, and the time at which it began.
    last: Mutex<Option<(Instant, Running<T>)>>,
}

/// The output of a call, or the message of its panic.
type Called<T> = Result<T, String>;

type Running<T> = Shared<BoxFuture<'static, Called<T>>>;

// === impl BlockingCall ===

impl<T: Clone + Send + Sync + 'static> BlockingCall<T> {
    pub(crate) fn new(max_age: Duration) -> Self {
        Self {
            max_age,
            last: Mutex::default(),
        }
    }

    /// The output of the last call if that still runs or is new enough, otherwise of a call of
    /// `function`. None if it takes longer than `limit`; the call then continues.
    pub(crate) async fn get(
        &self,
        limit: Duration,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Called<T>> {
        let running = self.running(function);
        timeout(limit, running).await.ok()
    }

    fn running(&self, function: impl FnOnce() -> T + Send + 'static) -> Running<T> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((began, running)) = &*last
            && (running.clone().now_or_never().is_none() || began.elapsed() < self.max_age)
        {
            return running.clone();
        }
        let subscriber = get_default(Clone::clone);
        let call = move || {
            let function = || with_default(&subscriber, function);
            catch_unwind(AssertUnwindSafe(function)).map_err(panic_message)
        };
        let began = Instant::now();
        let running = if is_time_simulated() {
            // Another thread would be outside of the simulation. The first poll calls it, without
            // the lock.
            future::lazy(|_| call()).boxed()
        } else {
            let ended = |ended: Result<_, tokio::task::JoinError>| {
                ended.unwrap_or_else(|error| Err(error.to_string()))
            };
            spawn_blocking(call).map(ended).boxed()
        };
        let running = running.shared();
        *last = Some((began, running.clone()));
        running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn an_output_is_used_again_until_it_is_too_old() {
        let call = BlockingCall::new(Duration::from_secs(1));
        assert_eq!(call.get(LIMIT, || 1).await, Some(Ok(1)));
        tokio::time::advance(Duration::from_millis(900)).await;
        assert_eq!(call.get(LIMIT, || 2).await, Some(Ok(1)));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(call.get(LIMIT, || 3).await, Some(Ok(3)));
    }

    #[tokio::test]
    async fn a_call_that_blocks_runs_once_and_its_late_output_is_not_used_again() {
        let call = BlockingCall::new(Duration::ZERO);
        let (free, wait) = std::sync::mpsc::channel::<()>();
        let (ended, end) = std::sync::mpsc::channel();
        let blocks = move || {
            _ = wait.recv();
            _ = ended.send(());
            1
        };
        assert_eq!(call.get(Duration::from_millis(1), blocks).await, None);
        assert_eq!(call.get(Duration::from_millis(1), || 2).await, None);
        drop(free);
        end.recv().expect("the call returns");
        // The thread reports the output a moment later.
        let reported = async { while call.running(|| 3).await != Ok(3) {} };
        timeout(LIMIT, reported).await.expect("it is reported");
    }

    #[tokio::test]
    async fn a_panic_is_the_output() {
        let call = BlockingCall::<u8>::new(Duration::ZERO);
        let output = call.get(LIMIT, || panic!("test")).await;
        assert_eq!(output, Some(Err("test".to_owned())));
    }
}
