//! Contexts whose calls the test scripts.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use windlass::{
    controller::{RunError, Runnable},
    k8s_controller::{Action, Context, Controller, Error, watcher},
};

use crate::cluster::{Cluster, until};

pub(super) const FINALIZER: &str = "example.com/scripted";

/// What the next calls return, and what was called when.
#[derive(Clone, Default)]
pub(super) struct Script {
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    apply: Arc<Mutex<VecDeque<Answer>>>,
    cleanup: Arc<Mutex<VecDeque<Answer>>>,
    /// What `error_action` returns. Without one, a requeue after 10 s.
    errors: Arc<Mutex<VecDeque<Action>>>,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Act(Action),
    Fail,
    Panic,
    Hang,
}

#[derive(Debug, thiserror::Error)]
#[error("not yet")]
pub(super) struct NotYet;

/// A context with the default actions.
pub(super) struct Defaults(pub(super) Script);

/// A context that records its actions, and requeues a success after 1,000 s.
pub(super) struct Recorded(pub(super) Script);

impl Script {
    pub(super) fn say(&self, line: String) {
        let mut lines = self.lines.lock().expect("not poisoned");
        lines.push((Instant::now(), line));
    }

    async fn answer(answers: &Mutex<VecDeque<Answer>>) -> Result<Option<Action>, NotYet> {
        let answer = answers.lock().expect("not poisoned").pop_front();
        match answer {
            None => Ok(None),
            Some(Answer::Act(action)) => Ok(Some(action)),
            Some(Answer::Fail) => Err(NotYet),
            Some(Answer::Panic) => panic!("the provider is out of order"),
            Some(Answer::Hang) => std::future::pending().await,
        }
    }

    pub(super) fn on_error(&self, actions: impl IntoIterator<Item = Action>) {
        self.errors.lock().expect("not poisoned").extend(actions);
    }

    pub(super) fn on_apply(&self, answers: impl IntoIterator<Item = Answer>) {
        self.apply.lock().expect("not poisoned").extend(answers);
    }

    pub(super) fn on_cleanup(&self, answers: impl IntoIterator<Item = Answer>) {
        self.cleanup.lock().expect("not poisoned").extend(answers);
    }

    pub(super) fn all(&self) -> Vec<(Instant, String)> {
        self.lines.lock().expect("not poisoned").clone()
    }

    /// The lines since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.lines.lock().expect("not poisoned"));
        lines.into_iter().map(|(_, line)| line).collect()
    }

    pub(super) async fn called(&self, times: usize) {
        until(async || self.all().len() >= times).await;
    }

    async fn apply(&self, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        assert!(object.finalizers().iter().any(|it| it == FINALIZER));
        self.say(format!("apply {} {}", object.name_any(), value(object)));
        Self::answer(&self.apply).await
    }

    async fn cleanup(&self, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.say(format!("cleanup {}", object.name_any()));
        Self::answer(&self.cleanup).await
    }
}

pub(super) fn value(object: &ConfigMap) -> String {
    let value = object.data.as_ref().and_then(|it| it.get("value"));
    value.cloned().unwrap_or_default()
}

#[async_trait::async_trait]
impl Context for Defaults {
    type Resource = ConfigMap;
    type Error = NotYet;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.apply(object).await
    }

    async fn cleanup(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.cleanup(object).await
    }
}

#[async_trait::async_trait]
impl Context for Recorded {
    type Resource = ConfigMap;
    type Error = NotYet;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.apply(object).await
    }

    async fn cleanup(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.cleanup(object).await
    }

    fn success_action(&self, object: &ConfigMap) -> Action {
        self.0.say(format!("success {}", object.name_any()));
        Action::requeue(Duration::from_secs(1000))
    }

    fn error_action(
        self: Arc<Self>,
        object: Arc<ConfigMap>,
        err: &Error<NotYet>,
        consecutive_errors: u32,
    ) -> Action {
        let phase = match err {
            Error::ApplyFailed(NotYet) => "apply",
            Error::CleanupFailed(NotYet) => "cleanup",
            Error::AddFinalizer(_) => "add",
            Error::RemoveFinalizer(_) => "remove",
            _ => "other",
        };
        let name = object.name_any();
        self.0
            .say(format!("error {name} {phase} {consecutive_errors}"));
        let action = self.0.errors.lock().expect("not poisoned").pop_front();
        action.unwrap_or_else(|| Action::requeue(Duration::from_secs(10)))
    }
}

/// A controller that runs.
pub(super) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    pub(super) fn start(controller: impl Runnable<Error = RunError>) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { controller.run(stopped).await });
        Self { stop, task }
    }

    /// Runs a controller of all config maps.
    pub(super) fn of<C>(cluster: &Cluster, context: C) -> Self
    where
        C: Context<Resource = ConfigMap> + Send + Sync + 'static,
        C::Error: Send + Sync + 'static,
    {
        Self::start(all(cluster, context))
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("no error");
    }
}

/// A controller of all config maps.
pub(super) fn all<C>(cluster: &Cluster, context: C) -> Controller<C>
where
    C: Context<Resource = ConfigMap> + Send + Sync + 'static,
    C::Error: Send + Sync + 'static,
{
    Controller::namespaced_all(cluster.client(), context, watcher::Config::default())
}

pub(super) async fn create(cluster: &Cluster, name: &str) {
    let object = json!({ "metadata": { "name": name }, "data": { "value": "1" } });
    cluster.create::<ConfigMap>("shop", object).await;
}

pub(super) async fn merge(cluster: &Cluster, name: &str, patch: Value) {
    let api = cluster.api::<ConfigMap>("shop");
    let patched = api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("it exists");
}

pub(super) async fn get(cluster: &Cluster, name: &str) -> Option<ConfigMap> {
    let api = cluster.api::<ConfigMap>("shop");
    api.get_opt(name).await.expect("a response")
}

/// Lets paused time pass.
pub(super) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub(super) fn requeue(seconds: u64) -> Answer {
    Answer::Act(Action::requeue(Duration::from_secs(seconds)))
}
