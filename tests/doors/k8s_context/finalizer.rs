//! Which objects get a call, and their finalizer.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use windlass::{
    finalizer::OnSelectorExit,
    k8s_controller::{Action, Context, Controller, watcher},
};

use super::script::{
    Answer, FINALIZER, NotYet, Recorded, Running, Script, all, create, get, merge, pass,
};
use crate::cluster::{Cluster, until};

/// Rows: KC-31
#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_without_our_finalizer_is_left_alone() {
    let cluster = Cluster::start().await;
    let object = json!({ "metadata": { "name": "a", "finalizers": ["example.com/other"] } });
    cluster.create::<ConfigMap>("shop", object).await;
    cluster.delete::<ConfigMap>("shop", "a").await;
    let before = get(&cluster, "a")
        .await
        .expect("it is kept")
        .resource_version();
    let script = Script::default();
    let running = Running::of(&cluster, Recorded(script.clone()));
    pass(600).await;
    let after = get(&cluster, "a")
        .await
        .expect("it is kept")
        .resource_version();
    assert_eq!(before, after, "no patch");
    merge(&cluster, "a", json!({ "metadata": { "finalizers": null } })).await;
    pass(600).await;
    assert!(get(&cluster, "a").await.is_none());
    assert_eq!(script.take(), [""; 0], "no call");
    running.stop().await;
}

/// Rows: KC-32, KC-33
#[tokio::test(start_paused = true)]
async fn a_restart_applies_each_object_once_without_a_patch() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    let running = Running::of(&cluster, Recorded(script.clone()));
    create(&cluster, "kept").await;
    create(&cluster, "deleted").await;
    script.called(4).await;
    running.stop().await;
    script.take();
    cluster.delete::<ConfigMap>("shop", "deleted").await;
    let before = get(&cluster, "kept")
        .await
        .expect("it exists")
        .resource_version();

    let running = Running::of(&cluster, Recorded(script.clone()));
    until(async || get(&cluster, "deleted").await.is_none()).await;
    pass(600).await;
    let mut lines = script.take();
    lines.sort();
    assert_eq!(
        lines,
        [
            "apply kept 1",
            "cleanup deleted",
            "success deleted",
            "success kept"
        ]
    );
    let after = get(&cluster, "kept")
        .await
        .expect("it exists")
        .resource_version();
    assert_eq!(before, after, "no patch");
    running.stop().await;
}

/// Rows: KC-33, KC-34
#[tokio::test(start_paused = true)]
async fn a_removed_finalizer_is_added_again_before_the_next_apply() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    let running = Running::of(&cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(2).await;
    script.take();
    // `Script::apply` checks the finalizer.
    merge(
        &cluster,
        "a",
        json!({ "metadata": { "finalizers": null }, "data": { "value": "2" } }),
    )
    .await;
    script.called(2).await;
    assert_eq!(script.take(), ["apply a 2", "success a"]);
    assert_eq!(
        get(&cluster, "a").await.expect("it exists").finalizers(),
        [FINALIZER]
    );

    // A clean-up comes although apply never succeeds.
    script.on_apply(vec![Answer::Fail; 100]);
    create(&cluster, "b").await;
    script.called(1).await;
    cluster.delete::<ConfigMap>("shop", "b").await;
    until(async || get(&cluster, "b").await.is_none()).await;
    assert!(script.take().contains(&"cleanup b".to_owned()));
    running.stop().await;
}

/// A context that may be called without a finalizer.
struct Plain(Script);

#[async_trait::async_trait]
impl Context for Plain {
    type Resource = ConfigMap;
    type Error = NotYet;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.say(format!("apply {}", object.name_any()));
        Ok(None)
    }

    async fn cleanup(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.say(format!("cleanup {}", object.name_any()));
        Ok(None)
    }
}

/// Rows: KC-06, KC-07, KC-31
#[tokio::test(start_paused = true)]
async fn without_a_finalizer_an_object_that_is_marked_for_deletion_is_not_applied() {
    let cluster = Cluster::start().await;
    let object = json!({ "metadata": { "name": "a", "finalizers": ["example.com/other"] } });
    cluster.create::<ConfigMap>("shop", object).await;
    let script = Script::default();
    let controller = all(&cluster, Plain(script.clone())).without_finalizer();
    let running = Running::start(controller);
    script.called(1).await;
    assert_eq!(script.take(), ["apply a"]);
    let object = get(&cluster, "a").await.expect("it exists");
    assert_eq!(object.finalizers(), ["example.com/other"]);

    cluster.delete::<ConfigMap>("shop", "a").await;
    merge(&cluster, "a", json!({ "data": { "value": "2" } })).await;
    // Longer than the delay of the requeue after a success.
    pass(2 * 3600).await;
    assert_eq!(script.take(), [""; 0], "it is being deleted");
    merge(&cluster, "a", json!({ "metadata": { "finalizers": null } })).await;
    script.called(1).await;
    assert_eq!(script.take(), ["cleanup a"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selector_is_cleaned_up_if_the_controller_says_so() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    let selected = watcher::Config::default().labels("tier=web");
    let context = Recorded(script.clone());
    let controller = Controller::namespaced_all(cluster.client(), context, selected)
        .on_selector_exit(OnSelectorExit::CleanUp);
    let running = Running::start(controller);
    let object = json!({ "metadata": { "name": "a", "labels": { "tier": "web" } } });
    cluster.create::<ConfigMap>("shop", object).await;
    script.called(2).await;
    script.take();
    merge(&cluster, "a", json!({ "metadata": { "labels": null } })).await;
    script.called(2).await;
    assert_eq!(script.take(), ["cleanup a", "success a"]);
    until(async || {
        let object = get(&cluster, "a").await.expect("it exists");
        object.finalizers().is_empty()
    })
    .await;
    running.stop().await;
}
