//! The controllers as they run.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    task::{Id, JoinSet},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::run::{Ended, Run, run};
use crate::OperatorError;

/// All controllers of an operator, each as a task; dropping it drops them.
pub(super) struct Crew {
    tasks: JoinSet<Ended>,
    names: HashMap<Id, String>,
    stop: CancellationToken,
}

// === impl Crew ===

impl Crew {
    /// Starts them; they stop with `stop`, which is cancelled if one of them cannot go on.
    pub(super) fn start(controllers: Vec<Arc<dyn Run>>, stop: CancellationToken) -> Self {
        let mut tasks = JoinSet::new();
        let mut names = HashMap::new();
        for controller in controllers {
            let name = controller.name().to_owned();
            let task = tasks.spawn(run(controller, stop.clone()));
            names.insert(task.id(), name);
        }
        Self { tasks, names, stop }
    }

    /// Waits until they are told to stop and have ended, or `drain` after they were told.
    pub(super) async fn work(&mut self, drain: Duration) -> Result<(), OperatorError> {
        let mut outcome = Ok(());
        let mut deadline = None;
        loop {
            if deadline.is_some() && self.tasks.is_empty() {
                return outcome;
            }
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next_with_id() => {
                    // Panics are caught within, and nobody aborts the tasks but who drops us.
                    let Ok((id, ended)) = ended else { continue };
                    self.names.remove(&id);
                    if ended.is_err() {
                        self.stop.cancel();
                    }
                    // The first is the reason; those after it are its consequence.
                    outcome = outcome.and(ended);
                }
                () = self.stop.cancelled(), if deadline.is_none() => {
                    deadline = Some(Deadline::after(drain));
                }
                () = Deadline::over(deadline) => {
                    let mut controllers: Vec<_> = self.names.values().cloned().collect();
                    controllers.sort_unstable();
                    tracing::error!(?controllers, ?drain, "did not end in time; dropped");
                    self.dismiss().await;
                    return outcome.and(Err(OperatorError::Undrained { controllers, drain }));
                }
            }
        }
    }

    /// Drops them as they are, and waits for that if it does not take long.
    pub(super) async fn dismiss(&mut self) {
        /// A task is dropped when it yields; one that does not by then may never do so.
        const PATIENCE: Duration = Duration::from_secs(1);

        self.stop.cancel();
        self.tasks.abort_all();
        let dropped = async { while self.tasks.join_next().await.is_some() {} };
        _ = timeout(PATIENCE, dropped).await;
    }

    /// Whether nothing runs any more.
    pub(super) fn is_gone(&self) -> bool {
        self.tasks.is_empty()
    }
}

/// When what is to end must have ended; never, if that is too far away to be said.
#[derive(Clone, Copy)]
struct Deadline(Option<Instant>);

// === impl Deadline ===

impl Deadline {
    fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    async fn over(deadline: Option<Self>) {
        match deadline {
            Some(Self(Some(due))) => sleep_until(due).await,
            _ => std::future::pending().await,
        }
    }
}
