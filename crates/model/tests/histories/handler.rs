//! Handlers that record their calls, and end them as the script says.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{Failure, Outcome, Reconciler, Request, State, Watcher};
use windlass_model::{Action, Attempt, Began, CallId, Entry, HandlerId, Outcome as Ended};

use crate::{
    script::Behaviour,
    stage::{Stage, snapshot},
};

/// The message of a planned panic, by which the panic hook recognizes it.
pub(crate) const PLANNED: &str = "a planned panic";

/// A handler that records its calls, and ends them as the script says.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) handler: u32,
    pub(crate) stage: Stage,
}

/// A call that is logged as dropped, unless it ends otherwise.
pub(crate) struct Call<'a> {
    stage: &'a Stage,
    pub(crate) id: CallId,
    ended: bool,
}

// === impl Recorded ===

impl Recorded {
    pub(crate) async fn call(
        &self,
        action: Action,
        old: Option<&Lease>,
        object: &Lease,
        request: Option<Attempt>,
    ) -> Result<Outcome, Failure> {
        let stage = &self.stage;
        let mut call = Call::new(stage);
        stage.log(Entry::Began(Began {
            call: call.id,
            handler: HandlerId(self.handler),
            action,
            old: old.map(snapshot),
            object: snapshot(object),
            request,
        }));
        let behaviour = stage.next_behaviour(self.handler);
        let (ended, result) = match behaviour {
            Behaviour::Requeue(after) if request.is_some() => {
                let after = Duration::from_secs(after);
                (
                    Ended::Requeue { after, state: None },
                    Ok(Outcome::requeue_after(after)),
                )
            }
            Behaviour::RequeueWithState(after) if request.is_some() => {
                let after = Duration::from_secs(after);
                let left = stage.next_state();
                (
                    Ended::Requeue {
                        after,
                        state: Some(left),
                    },
                    Ok(Outcome::requeue_after(after).state(State::new(left))),
                )
            }
            Behaviour::Succeed | Behaviour::Requeue(_) | Behaviour::RequeueWithState(_) => {
                (Ended::Done, Ok(Outcome::done()))
            }
            Behaviour::Fail => failed(None, None),
            Behaviour::FailWithState => failed(None, Some(stage.next_state())),
            Behaviour::FailAfter(after) => failed(Some(Duration::from_secs(after)), None),
            Behaviour::Panic => {
                call.end(Ended::Panicked);
                std::panic::panic_any(PLANNED);
            }
            Behaviour::Hang => std::future::pending().await,
            // Simulated seconds: histories run on paused time.
            Behaviour::Slow(taken) => {
                tokio::time::sleep(Duration::from_secs(taken)).await;
                (Ended::Done, Ok(Outcome::done()))
            }
            Behaviour::SlowFail(taken) => {
                tokio::time::sleep(Duration::from_secs(taken)).await;
                failed(None, None)
            }
        };
        call.end(ended);
        result
    }
}

pub(crate) fn failed(
    after: Option<Duration>,
    state: Option<u64>,
) -> (Ended, Result<Outcome, Failure>) {
    let mut failure = Failure::new("as planned");
    if let Some(after) = after {
        failure = failure.retry_after(after);
    }
    if let Some(state) = state {
        failure = failure.state(State::new(state));
    }
    let ended = Ended::Failed {
        retry_after: after,
        state,
    };
    (ended, Err(failure))
}

impl Watcher<Lease> for Recorded {
    type Error = Failure;

    async fn add(&self, object: Arc<Lease>) -> Result<(), Failure> {
        self.call(Action::Created, None, &object, None)
            .await
            .map(drop)
    }

    async fn update(&self, old: Arc<Lease>, new: Arc<Lease>) -> Result<(), Failure> {
        let old = Some(&*old);
        self.call(Action::Updated, old, &new, None).await.map(drop)
    }

    async fn delete(&self, last: Arc<Lease>) -> Result<(), Failure> {
        self.call(Action::Deleted, None, &last, None)
            .await
            .map(drop)
    }

    async fn resync(&self, object: Arc<Lease>) -> Result<(), Failure> {
        self.call(Action::Resynced, None, &object, None)
            .await
            .map(drop)
    }
}

impl Reconciler<Lease> for Recorded {
    type Error = Failure;

    async fn reconcile(&self, request: Request<Lease>) -> Result<Outcome, Failure> {
        let action = match request.action() {
            windlass_controller::Action::Created => Action::Created,
            windlass_controller::Action::Updated => Action::Updated,
            windlass_controller::Action::Deleted => Action::Deleted,
            _ => Action::Resynced,
        };
        let attempt = Attempt {
            attempt: request.attempt(),
            state: request.state().and_then(State::get::<u64>).copied(),
            last: request.last_attempt(),
        };
        let old = request.old().filter(|_| action == Action::Updated).cloned();
        self.call(action, old.as_deref(), request.object(), Some(attempt))
            .await
    }
}

// === impl Call ===

impl<'a> Call<'a> {
    pub(crate) fn new(stage: &'a Stage) -> Self {
        Self {
            stage,
            id: stage.next_call(),
            ended: false,
        }
    }

    pub(crate) fn end(&mut self, outcome: Ended) {
        self.ended = true;
        let call = self.id;
        self.stage.log(Entry::Ended { call, outcome });
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Ended::Dropped);
        }
    }
}
