//! The running controllers of an operator.

use std::{collections::HashMap, future::pending, sync::Arc, time::Duration};

use tokio::{
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;
use windlass_controller::ErasedRunnable;
use windlass_informer::{log, panic_message};

use super::{
    ABORT_TIMEOUT,
    run::{Ended, run},
};
use crate::OperatorError;

/// The tasks of all controllers of an operator. Dropping the set aborts them.
pub(super) struct ControllerSet {
    tasks: JoinSet<Ended>,
    names: HashMap<Id, String>,
    stop: CancellationToken,
    /// The end of the drain timeout. None before the stop, and if it exceeds the clock's range.
    deadline: Option<Instant>,
}

// === impl ControllerSet ===

impl ControllerSet {
    /// Starts `controllers`. They stop when `stop` is cancelled. The set cancels it if one of them
    /// fails.
    pub(super) fn start(
        controllers: Vec<Arc<dyn ErasedRunnable>>,
        stop: CancellationToken,
    ) -> Self {
        let mut tasks = JoinSet::new();
        let mut names = HashMap::new();
        for controller in controllers {
            let name = controller.name().to_owned();
            let task = tasks.spawn(run(controller, stop.clone()));
            names.insert(task.id(), name);
        }
        Self {
            tasks,
            names,
            stop,
            deadline: None,
        }
    }

    /// Waits until a controller ends although it was not stopped, or fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn failed(&mut self) -> OperatorError {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            if let Err(error) = self.outcome(ended) {
                return error;
            }
        }
        pending().await
    }

    /// Stops the controllers, and waits until they have ended. Aborts those that have not ended at
    /// `deadline`, the end of the drain timeout. None if it exceeds the clock's range.
    pub(super) async fn end(&mut self, deadline: Option<Instant>, drain: Duration) -> Ended {
        /// A task that only waits for the stop ends within this time.
        const LEAST: Duration = Duration::from_millis(100);
        self.deadline = deadline.map(|deadline| deadline.max(Instant::now() + LEAST));
        self.stop.cancel();
        self.run(drain).await
    }

    /// Waits until the controllers were stopped and have ended. Aborts those that have not ended
    /// `drain` after the stop.
    pub(super) async fn run(&mut self, drain: Duration) -> Result<(), OperatorError> {
        let mut outcome = Ok(());
        let mut stopping = false;
        loop {
            if stopping && self.tasks.is_empty() {
                return outcome;
            }
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next_with_id() => {
                    let ended = self.outcome(ended);
                    if ended.is_err() {
                        self.stop.cancel();
                    }
                    // The first error is the cause of those after it.
                    outcome = outcome.and(ended);
                }
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.deadline = self.deadline.or_else(|| Instant::now().checked_add(drain));
                }
                deadline = reached(self.deadline) => {
                    let mut controllers: Vec<_> = self.names.values().cloned().collect();
                    controllers.sort_unstable();
                    log::error!(?controllers, ?drain, "controllers did not end within the drain timeout, aborted");
                    // This may be late, if the process was suspended.
                    let least = Instant::now() + Duration::from_millis(100);
                    self.abort((deadline + ABORT_TIMEOUT).max(least)).await;
                    return outcome.and(Err(OperatorError::Undrained { controllers, drain }));
                }
            }
        }
    }

    /// The outcome of a controller whose task ended, in whatever way it ended. Panics of the
    /// controller itself are caught in [`run`].
    fn outcome(&mut self, ended: Result<(Id, Ended), JoinError>) -> Ended {
        let error = match ended {
            Ok((id, ended)) => {
                self.names.remove(&id);
                return ended;
            }
            Err(error) => error,
        };
        let controller = self.names.remove(&error.id()).unwrap_or_default();
        let message = match error.try_into_panic() {
            Ok(panic) => panic_message(panic),
            Err(_) => "its task was aborted: the runtime shuts down".to_owned(),
        };
        log::error!(controller = %controller, message, "the task of a controller ended");
        Err(OperatorError::Panicked {
            controller,
            message,
        })
    }

    /// Aborts all controllers, and waits until they are dropped, or until `deadline`. An aborted
    /// task is dropped when it yields.
    pub(super) async fn abort(&mut self, deadline: Instant) {
        self.stop.cancel();
        self.tasks.abort_all();
        let dropped = async { while self.tasks.join_next().await.is_some() {} };
        _ = timeout_at(deadline, dropped).await;
    }

    /// The end of the drain timeout, after the controllers were stopped.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether no controller runs any more.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

/// Waits until `deadline`, and returns it.
async fn reached(deadline: Option<Instant>) -> Instant {
    match deadline {
        Some(deadline) => {
            sleep_until(deadline).await;
            deadline
        }
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc, time::Duration};

    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;
    use windlass_controller::Runnable;

    use super::ControllerSet;

    struct Waits;

    impl Runnable for Waits {
        type Error = Infallible;

        fn name(&self) -> &'static str {
            "waits"
        }

        async fn run(&self, stop: CancellationToken) -> Result<(), Infallible> {
            stop.cancelled().await;
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_in_any_way_is_an_error_with_the_name_of_its_controller() {
        for aborts in [false, true] {
            let mut set = ControllerSet::start(vec![Arc::new(Waits)], CancellationToken::new());
            let task = set.tasks.spawn(async move {
                assert!(aborts, "test panic");
                std::future::pending().await
            });
            set.names.insert(task.id(), "websites".to_owned());
            if aborts {
                task.abort();
            }
            let error = set.run(Duration::from_secs(5)).await.expect_err("it ended");
            assert!(error.to_string().contains("\"websites\""), "{error}");
            assert!(set.is_empty(), "the other one was stopped and awaited");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_set_is_empty_after_its_controllers_have_ended() {
        let stop = CancellationToken::new();
        let mut set = ControllerSet::start(vec![Arc::new(Waits)], stop.clone());
        assert!(!set.is_empty());
        assert_eq!(set.deadline(), None, "they were not stopped");
        stop.cancel();
        let drain = Duration::from_secs(5);
        set.run(drain).await.expect("no error");
        assert!(set.is_empty());
        assert_eq!(set.deadline(), Some(Instant::now() + drain));
    }
}
