//! Which objects get a call, and their finalizer.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;

use super::script::{Answer, FINALIZER, Recorded, Running, Script, create, get, merge, pass};
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
