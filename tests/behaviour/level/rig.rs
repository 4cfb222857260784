//! A running `Controller` of a test, and the objects that it reconciles.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    Context, Controller, ControllerBuilder, Failure, Outcome, Owned, Watch, controller::RunError,
    level::Watchable,
};

use crate::{cluster::Cluster, kinds::config, watched::quick};

/// The annotation that names another object.
pub(crate) const NAMED: &str = "test.windlass.dev/name";

/// A running controller, and the calls that it made.
pub(crate) struct Rig {
    pub(crate) calls: mpsc::Receiver<String>,
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), RunError>>,
}

// === impl Rig ===

impl Rig {
    pub(crate) fn start<K: Watchable>(
        controller: Controller<K>,
        calls: mpsc::Receiver<String>,
    ) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        Self {
            calls,
            stop,
            task: AbortOnDropHandle::new(task),
        }
    }

    pub(crate) async fn next(&mut self) -> String {
        self.calls.recv().await.expect("the controller runs")
    }

    /// The next calls, sorted: different objects are reconciled concurrently.
    pub(crate) async fn several(&mut self, count: usize) -> Vec<String> {
        let mut calls = Vec::new();
        while calls.len() < count {
            calls.push(self.next().await);
        }
        calls.sort();
        calls
    }

    /// Stops the controller after a last object was reconciled, without other calls before.
    pub(crate) async fn quiet(mut self, configs: &Api<ConfigMap>) {
        create(configs, config("the-last", "0")).await;
        let last = self.next().await;
        assert!(last.starts_with("the-last"), "{last}");
        self.stop().await;
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task
            .await
            .expect("no panic")
            .expect("a graceful shutdown");
    }
}

/// A watch of the objects in the namespace of the test.
pub(crate) async fn watch<K>(cluster: &Cluster) -> Watch<K>
where
    K: Watchable + Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    Watch::from(cluster.api::<K>().await).settings(quick)
}

pub(crate) async fn builder<K>(cluster: &Cluster) -> ControllerBuilder<K>
where
    K: Watchable + Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    Controller::builder(cluster.client().await, watch(cluster).await)
}

/// A controller that sends a line for each call.
pub(crate) fn build<K: Watchable + serde::Serialize>(
    builder: ControllerBuilder<K>,
    sender: mpsc::Sender<String>,
    line: impl Fn(&Context<K>) -> String + Send + Sync + 'static,
) -> Controller<K> {
    let line = Arc::new(line);
    let reconciler = move |cx: Context<K>| {
        let (sender, line) = (sender.clone(), Arc::clone(&line));
        async move {
            // The real server publishes its certificates in every namespace.
            if cx.key().name() != "kube-root-ca.crt" {
                say(&sender, line(&cx)).await;
            }
            Ok::<_, Failure>(Outcome::done())
        }
    };
    builder.build(reconciler).expect("good settings")
}

pub(crate) async fn say(sender: &mpsc::Sender<String>, line: String) {
    sender.send(line).await.expect("the test listens");
}

pub(crate) fn children_of<K: Watchable, C: Watchable>(
    cx: &Context<K>,
    children: &Owned<K, C>,
) -> String {
    let mut line = format!("{}:", cx.key().name());
    for child in children.of(cx) {
        line = format!("{line} {}", child.name_any());
        assert!(children.get(cx, &child.name_any()).is_some());
    }
    line
}

pub(crate) fn secret(name: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    }
}

pub(crate) fn annotated<K: Resource>(mut object: K, name: &str) -> K {
    let annotations = object.annotations_mut();
    annotations.insert(NAMED.to_owned(), name.to_owned());
    object
}

pub(crate) fn owned_by<C: Resource, K: Resource<DynamicType = ()>>(mut child: C, owner: &K) -> C {
    let reference: OwnerReference = owner.controller_owner_ref(&()).expect("a name and a uid");
    child.meta_mut().owner_references = Some(vec![reference]);
    child
}

pub(crate) async fn create<K>(objects: &Api<K>, object: K) -> K
where
    K: Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let created = objects.create(&PostParams::default(), &object).await;
    created.expect("a new object")
}

pub(crate) async fn patch<K>(objects: &Api<K>, name: &str, patch: Value)
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let patched = objects.patch(name, &params, &patch).await;
    patched.expect("an object that is there");
}
