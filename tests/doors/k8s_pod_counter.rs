//! A counter of Pods, as in the documentation of `k8s_controller`: only the imports differ.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    Operator,
    k8s_controller::{Action, Context, Controller, watcher},
};

use crate::cluster::{Cluster, until};

// --- the program ---

#[derive(Clone, Default)]
struct PodCounter {
    pods: Arc<Mutex<HashSet<String>>>,
}

#[async_trait::async_trait]
impl Context for PodCounter {
    type Resource = Pod;
    type Error = kube::Error;

    const FINALIZER_NAME: &'static str = "example.com/pod-counter";

    async fn apply(
        &self,
        _client: Client,
        pod: &Self::Resource,
    ) -> Result<Option<Action>, Self::Error> {
        let has_finalizer = pod.finalizers().iter().any(|it| it == Self::FINALIZER_NAME);
        assert!(has_finalizer, "it is there before the first call");
        self.pods
            .lock()
            .unwrap()
            .insert(pod.uid().unwrap_or_default());
        Ok(None)
    }

    async fn cleanup(
        &self,
        _client: Client,
        pod: &Self::Resource,
    ) -> Result<Option<Action>, Self::Error> {
        self.pods
            .lock()
            .unwrap()
            .remove(&pod.uid().unwrap_or_default());
        Ok(None)
    }
}

// --- the test ---

/// The documentation of `Context` shows that another kind does not compile.
///
/// Rows: KC-01, KC-02, KC-04, KC-05, KC-06, KC-12, KC-16, KC-26
#[tokio::test(start_paused = true)]
async fn pods_are_counted() {
    let cluster = Cluster::start().await;
    let counter = PodCounter::default();
    // As in the program: it runs until the process ends.
    let controller = Controller::namespaced_all(
        cluster.client(),
        counter.clone(),
        watcher::Config::default(),
    );
    let running = tokio::spawn(controller.run());

    let pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": [{ "name": "web", "image": "web" }] } });
    cluster.create::<Pod>("shop", pod).await;
    until(async || counter.pods.lock().expect("not poisoned").len() == 1).await;
    let stored = cluster
        .api::<Pod>("shop")
        .get("web")
        .await
        .expect("it exists");
    assert_eq!(stored.finalizers(), ["example.com/pod-counter"]);

    cluster.delete::<Pod>("shop", "web").await;
    until(async || counter.pods.lock().expect("not poisoned").is_empty()).await;
    until(async || {
        cluster
            .api::<Pod>("shop")
            .get_opt("web")
            .await
            .expect("a response")
            .is_none()
    })
    .await;
    running.abort();
}

/// Rows: KC-03
#[tokio::test(start_paused = true)]
async fn two_controllers_of_an_operator_share_a_finalizer_in_two_namespaces_only() {
    let cluster = Cluster::start().await;
    let (shop, blog, refused) = (
        PodCounter::default(),
        PodCounter::default(),
        PodCounter::default(),
    );
    let controller = |counter: &PodCounter, namespace: Option<&str>| {
        let (client, counter) = (cluster.client(), counter.clone());
        let config = watcher::Config::default();
        match namespace {
            Some(namespace) => Controller::namespaced(client, counter, namespace, config),
            None => Controller::namespaced_all(client, counter, config),
        }
    };
    let operator = Operator::new();
    for (counter, namespace) in [(&shop, "shop"), (&blog, "default")] {
        let added = operator.add_controller(controller(counter, Some(namespace)));
        added.expect("the namespaces differ");
    }
    for namespace in [Some("shop"), None] {
        let again = controller(&refused, namespace).with_name("another");
        let error = operator.add_controller(again).expect_err("it is taken");
        let text = error.to_string();
        for part in [
            "\"another\"",
            "example.com/pod-counter",
            "pods",
            "namespaces",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (operator, stop) = (operator.clone(), stop.clone());
        async move { operator.run_until(stop).await }
    });
    let pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": [{ "name": "web", "image": "web" }] } });
    for namespace in ["shop", "default"] {
        cluster.create::<Pod>(namespace, pod.clone()).await;
    }
    let count = |counter: &PodCounter| counter.pods.lock().expect("not poisoned").len();
    until(async || count(&shop) == 1 && count(&blog) == 1).await;
    cluster.delete::<Pod>("shop", "web").await;
    until(async || count(&shop) == 0).await;
    assert_eq!((count(&blog), count(&refused)), (1, 0));
    stop.cancel();
    running.await.expect("no panic").expect("no error");

    // Another operator, for example of another cluster or of a test, has the name for itself.
    let other = Operator::new();
    other
        .add_controller(controller(&refused, None))
        .expect("it is free");
    let replica = Operator::new();
    replica
        .add_controller(controller(&refused, None))
        .expect("replicas do not see each other");
}

/// Rows: KC-27
#[tokio::test(start_paused = true)]
async fn a_selector_and_a_namespace_restrict_the_objects() {
    let cluster = Cluster::start().await;
    let counter = PodCounter::default();
    let config = watcher::Config::default().labels("app=web");
    let controller = Controller::namespaced(cluster.client(), counter.clone(), "shop", config);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { controller.run_until(stopped).await });
    let pod = |name: &str, app: &str| {
        json!({ "metadata": { "name": name, "labels": { "app": app } },
        "spec": { "containers": [{ "name": "web", "image": "web" }] } })
    };
    cluster
        .create::<Pod>("default", pod("elsewhere", "web"))
        .await;
    cluster.create::<Pod>("shop", pod("other", "db")).await;
    let web = cluster.create::<Pod>("shop", pod("web", "web")).await;
    until(async || !counter.pods.lock().expect("not poisoned").is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let counted = counter.pods.lock().expect("not poisoned").clone();
    assert_eq!(counted, HashSet::from([web.uid().expect("it has one")]));
    stop.cancel();
    running.await.expect("no panic").expect("no error");

    let invalid = watcher::Config::default().labels("tier in (web");
    let controller = Controller::namespaced_all(cluster.client(), counter, invalid);
    // A program may run it again.
    for _ in 0..2 {
        let run = controller.run_until(CancellationToken::new());
        let error = run.await.expect_err("invalid");
        assert!(error.to_string().contains("selector"), "{error}");
    }
}

/// Counts a cluster-scoped kind.
#[derive(Clone, Default)]
struct NamespaceCounter(Arc<Mutex<Vec<String>>>);

#[async_trait::async_trait]
impl Context for NamespaceCounter {
    type Resource = Namespace;
    type Error = kube::Error;

    const FINALIZER_NAME: &'static str = "example.com/namespace-counter";

    async fn apply(&self, _: Client, it: &Namespace) -> Result<Option<Action>, Self::Error> {
        self.0.lock().unwrap().push(it.name_any());
        Ok(Some(Action::await_change()))
    }

    async fn cleanup(&self, _: Client, _: &Namespace) -> Result<Option<Action>, Self::Error> {
        Ok(None)
    }
}

/// The documentation of `Context` shows that another scope does not compile.
///
/// Rows: KC-27
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_kind_is_watched_with_a_field_selector() {
    let cluster = Cluster::start().await;
    let counter = NamespaceCounter::default();
    let config = watcher::Config::default().fields("metadata.name=shop");
    let controller = Controller::cluster(cluster.client(), counter.clone(), config);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { controller.run_until(stopped).await });
    until(async || !counter.0.lock().expect("not poisoned").is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(*counter.0.lock().expect("not poisoned"), ["shop"]);
    stop.cancel();
    running.await.expect("no panic").expect("no error");
}
