//! `Start`: starts the engine and the tasks of a controller.

use std::{error::Error, fmt::Debug, hash::Hash, sync::Arc};

use futures::TryFuture;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use windlass_controller::{
    Action as EngineAction, AddError, ErrorReport, HandlerError, InformerController, Kind, Outcome,
    Request, RunError,
};
use windlass_informer::{ErrorChain, Informer, log};

use super::{
    Action, Controller,
    call::Calls,
    informers,
    key_queue::{KeyObject, KeyQueue},
    primary::{Controlled, Primary, Wake},
    secondaries,
    tasks::{self, RunState},
    triggers::{self, Target},
};
use crate::reflector::Store;

/// What is started at the first poll.
pub(super) struct Start<K, Fut>
where
    K: Clone + Resource + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
    Fut: TryFuture,
{
    controller: Controller<K>,
    calls: Arc<Calls<K, Fut>>,
}

/// The tasks and the state of a run. Dropping it aborts the tasks, and with them the calls.
pub(super) struct Running {
    pub(super) tasks: JoinSet<Ended>,
    pub(super) state: Arc<RunState>,
}

/// How a task ended.
pub(super) enum Ended {
    /// The engine, and with it all calls.
    Engine(Result<(), RunError>),
    /// Another task, which may have changed the state of the run.
    Other,
}

// === impl Start ===

impl<K, Fut> Start<K, Fut>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
    Fut: TryFuture<Ok = Action> + Send + 'static,
    Fut::Error: Send + 'static,
{
    pub(super) const fn new(controller: Controller<K>, calls: Arc<Calls<K, Fut>>) -> Self {
        Self { controller, calls }
    }

    pub(super) const fn controller(&self) -> &Controller<K> {
        &self.controller
    }

    /// Starts the tasks. The error says why the engine cannot be set up.
    pub(super) fn start(self) -> Result<Running, String> {
        let engine = InformerController::builder()
            .level_triggered()
            // Calls wait for the controlled kind only: a kind that is missing delays no other.
            .start_before_sync(true)
            .cache_sync_timeout(None)
            .concurrency(self.controller.config.workers())
            .on_error(log_failure)
            .build()
            .map_err(|error| text(&error))?;
        self.start_in(&engine).map_err(|error| text(&error))
    }

    fn start_in(self, engine: &InformerController) -> Result<Running, AddError> {
        let Self { controller, calls } = self;
        let Controller {
            dyntype,
            primary,
            secondaries,
            triggers,
            shutdowns,
            ends_on_signal,
            delays,
            errors,
            ..
        } = controller;
        let (state, mut tasks) = (Arc::<RunState>::default(), JoinSet::new());
        let name = informers::name::<K>(&dyntype);
        let store = primary.store().clone();
        let (wake, controlled) = match primary {
            Primary::Informer {
                informer, ready, ..
            } => {
                let kind = engine.kind::<K>(&name)?;
                reconcile_objects(engine, &kind, &informer, &calls)?;
                tasks.spawn(other(tasks::wait_for_sync(
                    informer,
                    ready,
                    Arc::clone(&state),
                )));
                let wake = Wake::Engine(engine.clone(), kind.clone());
                (wake, Controlled::Objects(kind))
            }
            Primary::Stream {
                queue, informer, ..
            } => {
                let kind = engine.kind::<KeyObject>(&name)?;
                engine.add_informer(&kind, &informer)?;
                reconcile_keys(engine, &kind, &calls, (&store, &queue))?;
                let waiting = tasks::wait_for_store(store.clone(), Arc::clone(&state));
                tasks.spawn(other(waiting));
                (Wake::Queue(queue), Controlled::Keys(kind))
            }
        };
        secondaries::add_all(secondaries, engine, (&name, &controlled))?;
        let target = Target {
            wake,
            store,
            errors,
            delays,
            state: Arc::clone(&state),
        };
        for trigger in triggers {
            tasks.spawn(other((state.stop.clone()).run_until_cancelled_owned(
                triggers::follow(trigger, target.clone()),
            )));
        }
        if ends_on_signal {
            tasks.spawn(other(tasks::follow_signals(Arc::clone(&state))));
        }
        tasks.spawn(other(tasks::shut_down(shutdowns, Arc::clone(&state))));
        // The end of this task wakes the stream, which then ends the calls that have not begun.
        tasks.spawn(other(state.stop.clone().cancelled_owned()));
        let (running, stop) = (engine.clone(), state.stop.clone());
        tasks.spawn(async move { Ended::Engine(running.run(stop).await) });
        Ok(Running { tasks, state })
    }
}

/// Adds the objects of `informer` to the engine, and a reconciler for them.
fn reconcile_objects<K, Fut>(
    engine: &InformerController,
    kind: &Kind<K>,
    informer: &Informer<K>,
    calls: &Arc<Calls<K, Fut>>,
) -> Result<(), AddError>
where
    K: Clone + Resource + Send + Sync + 'static,
    K::DynamicType: Clone,
    Fut: TryFuture<Ok = Action> + Send + 'static,
    Fut::Error: Send + 'static,
{
    engine.add_informer(kind, informer)?;
    let calls = Arc::clone(calls);
    engine.add_level_reconciler(kind, move |request: Request<K>| {
        let calls = Arc::clone(&calls);
        async move {
            if request.action() == EngineAction::Deleted {
                return Ok(Outcome::done());
            }
            if let Some(deferred) = calls.deferred(request.state()) {
                return Ok(deferred);
            }
            let (key, object) = (request.key().clone(), Arc::clone(request.object()));
            calls.call(key, object, request.reasons()).await
        }
    })?;
    Ok(())
}

/// Adds the keys of `queue` to the engine, and a reconciler for the objects that `store` has.
fn reconcile_keys<K, Fut>(
    engine: &InformerController,
    kind: &Kind<KeyObject>,
    calls: &Arc<Calls<K, Fut>>,
    (store, queue): (&Store<K>, &KeyQueue),
) -> Result<(), AddError>
where
    K: Clone + Resource + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
    Fut: TryFuture<Ok = Action> + Send + 'static,
    Fut::Error: Send + 'static,
{
    let (calls, store, queue) = (Arc::clone(calls), store.clone(), queue.clone());
    engine.add_level_reconciler(kind, move |request: Request<KeyObject>| {
        let (calls, store, queue) = (Arc::clone(&calls), store.clone(), queue.clone());
        async move {
            if request.action() == EngineAction::Deleted {
                return Ok(Outcome::done());
            }
            if let Some(deferred) = calls.deferred(request.state()) {
                return Ok(deferred);
            }
            let stage = *store.stage().borrow();
            let Some(object) = calls.find(&store, request.key()) else {
                let version = &request.object().metadata.resource_version;
                queue.miss(request.key(), version.as_deref(), stage);
                return Ok(Outcome::done());
            };
            let (key, reasons) = (request.key().clone(), request.reasons());
            calls.call(key, object, reasons).await
        }
    })?;
    Ok(())
}

async fn other(task: impl Future) -> Ended {
    task.await;
    Ended::Other
}

/// Logs a call that panicked. A call that returned an error is an item of the stream.
fn log_failure(report: &ErrorReport<'_>) {
    let (key, retry_in) = (report.key, report.retry_in);
    match report.error {
        HandlerError::Panicked { .. } => {
            let error = report.error;
            log::error!(%key, %error, ?retry_in, "reconciler panicked, repeating");
        }
        error => log::debug!(%key, %error, ?retry_in, "reconciler repeats after a backoff"),
    }
}

fn text(error: &(dyn Error + 'static)) -> String {
    ErrorChain::new(error).to_string()
}
