//! The running controllers of an operator.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    task::{Id, JoinSet},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::run::{Ended, Run, run};
use crate::OperatorError;

/// All controllers of an operator, each as a task; dropping the set aborts them.
pub(super) struct ControllerSet {
    tasks: JoinSet<Ended>,
    names: HashMap<Id, String>,
    stop: CancellationToken,
    /// When the drain timeout ends; none before the stop, or if it is too far away to be counted.
    deadline: Option<Instant>,
}

// === impl ControllerSet ===

impl ControllerSet {
    /// Starts `controllers`. They stop when `stop` is cancelled, which the set does if one of them
    /// fails.
    pub(super) fn start(controllers: Vec<Arc<dyn Run>>, stop: CancellationToken) -> Self {
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

    /// Waits until the controllers were stopped and have ended, or `drain` after the stop: then
    /// aborts the others.
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
                    // Panics are caught in `run`, and tasks are aborted only by `abort`.
                    let Ok((id, ended)) = ended else { continue };
                    self.names.remove(&id);
                    if ended.is_err() {
                        self.stop.cancel();
                    }
                    // The first error is the cause of those after it.
                    outcome = outcome.and(ended);
                }
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.deadline = Instant::now().checked_add(drain);
                }
                () = reached(self.deadline) => {
                    let mut controllers: Vec<_> = self.names.values().cloned().collect();
                    controllers.sort_unstable();
                    tracing::error!(?controllers, ?drain, "did not end in time, aborted");
                    self.abort().await;
                    return outcome.and(Err(OperatorError::Undrained { controllers, drain }));
                }
            }
        }
    }

    /// Aborts all controllers, and waits until they are dropped, for a second at most.
    pub(super) async fn abort(&mut self) {
        /// A task is dropped when it yields. One that has not yielded by then may never do so.
        const LIMIT: Duration = Duration::from_secs(1);

        self.stop.cancel();
        self.tasks.abort_all();
        let dropped = async { while self.tasks.join_next().await.is_some() {} };
        _ = timeout(LIMIT, dropped).await;
    }

    /// When the drain timeout ends, once the controllers were stopped.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether no controller runs any more.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
