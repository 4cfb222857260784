//! `windlass::runtime`: the rows of kube-runtime's `Controller`, and the gaps of kube-runtime.

pub(crate) mod calls;
pub(crate) mod dynamic;
pub(crate) mod gaps;
pub(crate) mod programs;
pub(crate) mod secondaries;
pub(crate) mod shutdown;
#[cfg(unix)]
pub(crate) mod signals;
pub(crate) mod streams;
pub(crate) mod triggers;

use std::{fmt::Debug, time::Duration};

use futures::{Stream, StreamExt as _, stream::BoxStream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::task::AbortOnDropHandle;
use windlass::runtime::{
    controller::{Action, Error},
    reflector::ObjectRef,
    utils::Backoff,
    watcher,
};

/// What the streams of the tests yield.
type Item<E> = Result<(ObjectRef<ConfigMap>, Action), Error<E, watcher::Error>>;

/// A reconciler's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// A stream that a task polls, and its items.
struct Polled<T> {
    items: mpsc::UnboundedReceiver<T>,
    task: AbortOnDropHandle<()>,
}

/// The same delay again and again.
struct Each(Duration);

// === impl Polled ===

impl<T: Send + 'static> Polled<T> {
    fn start(stream: impl Stream<Item = T> + Send + 'static) -> Self {
        let (sender, items) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut stream: BoxStream<'_, T> = stream.boxed();
            while let Some(item) = stream.next().await {
                _ = sender.send(item);
            }
        });
        Self {
            items,
            task: AbortOnDropHandle::new(task),
        }
    }

    async fn next(&mut self) -> T {
        self.items.recv().await.expect("the stream continues")
    }

    /// Waits for the end of the stream. Returns the items before it.
    async fn end(mut self) -> Vec<T> {
        self.task.await.expect("no panic");
        let mut items = Vec::new();
        while let Ok(item) = self.items.try_recv() {
            items.push(item);
        }
        items
    }
}

impl<E: Debug + Send + 'static> Polled<Item<E>> {
    /// The name of the next object whose call succeeds. Errors of watches are skipped.
    async fn name(&mut self) -> String {
        loop {
            match self.next().await {
                Ok((target, _)) => return target.name,
                Err(Error::QueueError(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// The names of the next calls, sorted.
    async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        while names.len() < count {
            names.push(self.name().await);
        }
        names.sort_unstable();
        names
    }
}

impl Polled<Item<Refused>> {
    /// The names of the objects of the next calls, with the errors of those that fail, sorted.
    async fn results(&mut self, count: usize) -> Vec<String> {
        let mut results = Vec::new();
        while results.len() < count {
            results.push(match self.next().await {
                Ok((target, _)) => target.name,
                Err(Error::QueueError(_)) => continue,
                Err(Error::ReconcilerFailed(Refused(error), target)) => {
                    format!("{}: {error}", target.name)
                }
                Err(error) => panic!("{error:?}"),
            });
        }
        results.sort_unstable();
        results
    }
}

// === impl Each ===

impl Iterator for Each {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.0)
    }
}

impl Backoff for Each {
    fn reset(&mut self) {}
}

/// Reconciles by doing nothing.
async fn nothing<K>(_: std::sync::Arc<K>, _: std::sync::Arc<()>) -> Result<Action, Refused> {
    Ok(Action::await_change())
}

/// The policy of reconcilers that do not fail.
fn never<K>(object: std::sync::Arc<K>, error: &Refused, _: std::sync::Arc<()>) -> Action
where
    K: Resource,
{
    panic!("{} failed: {error}", object.name_any());
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
{
    let mut object = object;
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    let object: K = serde_json::from_value(object).expect("an object");
    let created = api.create(&PostParams::default(), &object).await;
    created.expect("a new object")
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let params = PatchParams::default();
    let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
    patched.expect("a patch");
}

async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let deleted = api.delete(name, &DeleteParams::default()).await;
    deleted.expect("the object exists");
}

/// A `ConfigMap` with a value.
fn config(name: &str, value: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "value": value } })
}

fn value(config: &ConfigMap) -> &str {
    let data = config.data.as_ref();
    data.and_then(|data| data.get("value"))
        .map_or("", String::as_str)
}

/// A secret that names an object, as `namespace/name`.
fn named(name: &str, target: &str) -> Value {
    json!({ "metadata": { "name": name, "annotations": { NAMED: target } } })
}

const NAMED: &str = "test.windlass.dev/named";

/// The object that a secret names.
fn target(secret: Secret) -> Option<ObjectRef<ConfigMap>> {
    let (namespace, name) = secret.annotations().get(NAMED)?.split_once('/')?;
    Some(ObjectRef::new(name).within(namespace))
}

/// Waits until `condition` holds.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        sleep(Duration::from_millis(5)).await;
    }
}
