//! Runs a future on a separate thread with a separate runtime.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{runtime::Builder, sync::oneshot};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};
use tracing::instrument::WithSubscriber as _;
use windlass_controller::is_time_simulated;

/// A handle of a future that runs as a task or on a separate thread. Its output is `None` if the
/// future panicked. Dropping the handle drops the future.
pub(crate) struct Isolated<T> {
    running: Running<T>,
}

enum Running<T> {
    Task(AbortOnDropHandle<T>),
    Thread {
        output: oneshot::Receiver<T>,
        /// Ends the future when this is dropped.
        #[expect(dead_code, reason = "held for its drop")]
        stop: DropGuard,
    },
}

// === impl Isolated ===

impl<T: Send + 'static> Isolated<T> {
    /// Runs `future` as a task of the current runtime.
    pub(crate) fn task(future: impl Future<Output = T> + Send + 'static) -> Self {
        let task = tokio::spawn(future);
        Self {
            running: Running::Task(AbortOnDropHandle::new(task)),
        }
    }

    /// Runs `future` on a new thread called `name` with a separate runtime, so that blocked or
    /// busy workers of the current runtime do not delay it. Under simulated time it runs as a
    /// task, because a thread would be outside of the simulation.
    pub(crate) fn thread(
        name: &str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<Self> {
        if is_time_simulated() {
            return Ok(Self::task(future));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let stop = CancellationToken::new();
        let (send, output) = oneshot::channel();
        let future = future.with_current_subscriber();
        let stopped = stop.clone();
        let run = move || {
            if let Some(output) = runtime.block_on(stopped.run_until_cancelled(future)) {
                _ = send.send(output);
            }
            // Do not wait for a blocking DNS lookup.
            runtime.shutdown_background();
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)?;
        let stop = stop.drop_guard();
        Ok(Self {
            running: Running::Thread { output, stop },
        })
    }
}

impl<T> Future for Isolated<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        match &mut self.running {
            Running::Task(task) => Pin::new(task).poll(cx).map(Result::ok),
            Running::Thread { output, .. } => Pin::new(output).poll(cx).map(Result::ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_future_on_a_thread_runs_while_the_caller_blocks() {
        let caller = std::thread::current().id();
        let (send, receive) = std::sync::mpsc::channel();
        let isolated = Isolated::thread("test", async move {
            _ = send.send(std::thread::current().id());
            // Fails if the runtime of the thread has no timer. The duration does not matter.
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            7
        });
        // This blocks the runtime of the caller.
        let thread = receive.recv().expect("it runs");
        assert_ne!(thread, caller);
        assert_eq!(isolated.expect("a thread").await, Some(7));
    }

    #[tokio::test]
    async fn dropping_the_handle_drops_the_future() {
        let (alive, dropped) = oneshot::channel::<()>();
        let isolated = Isolated::thread("test", async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        drop(isolated);
        assert!(dropped.await.is_err());
    }

    #[tokio::test]
    async fn after_a_panic_the_output_is_none() {
        let isolated = Isolated::thread("test", async { panic!("test") });
        let output: Option<()> = isolated.expect("a thread").await;
        assert_eq!(output, None);
    }

    #[tokio::test(start_paused = true)]
    async fn under_simulated_time_no_thread_is_started() {
        let caller = std::thread::current().id();
        let isolated = Isolated::thread("test", async { std::thread::current().id() });
        assert_eq!(isolated.expect("a task").await, Some(caller));
    }
}
