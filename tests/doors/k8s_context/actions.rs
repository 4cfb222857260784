//! The actions of successful calls.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;
use windlass::k8s_controller::Action;

use super::script::{
    Answer, Defaults, FINALIZER, Recorded, Running, Script, create, get, merge, pass, requeue,
};
use crate::cluster::{Cluster, until};

/// Rows: KC-07, KC-09, KC-10, KC-11, KC-17
#[tokio::test(start_paused = true)]
async fn exactly_the_returned_action_is_performed() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply([requeue(100), Answer::Act(Action::await_change())]);
    let running = Running::of(&cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(2).await;
    let calls = script.all();
    let delay = (calls[1].0 - calls[0].0).as_secs_f64();
    assert!((100.0..100.5).contains(&delay), "{delay}");
    pass(7200).await;
    assert_eq!(
        script.take(),
        ["apply a 1", "apply a 1"],
        "it waits for a change"
    );

    // Without an action, that of `success_action`.
    merge(&cluster, "a", json!({ "data": { "value": "2" } })).await;
    script.called(3).await;
    let calls = script.all();
    let delay = (calls[2].0 - calls[1].0).as_secs_f64();
    assert!((1000.0..1000.5).contains(&delay), "{delay}");
    let lines: Vec<_> = calls.into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines[..3], ["apply a 2", "success a", "apply a 2"]);
    running.stop().await;
}

/// Rows: KC-18
#[tokio::test(start_paused = true)]
async fn by_default_a_success_is_requeued_after_40_to_60_minutes() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    let running = Running::of(&cluster, Defaults(script.clone()));
    for at in 0..20 {
        create(&cluster, &format!("o{at}")).await;
    }
    script.called(20).await;
    let first = script.all();
    pass(2390).await;
    assert_eq!(script.all().len(), 20, "none before 40 minutes");
    pass(1220).await;
    let all = script.all();
    let mut delays: Vec<_> = (first.iter())
        .map(|(at, line)| {
            let again = all[20..].iter().find(|it| it.1 == *line);
            (again.expect("within 60 minutes").0 - *at).as_secs()
        })
        .collect();
    assert!(
        delays.iter().all(|it| (2400..=3600).contains(it)),
        "{delays:?}"
    );
    delays.sort_unstable();
    delays.dedup();
    assert!(delays.len() > 10, "they are random: {delays:?}");
    running.stop().await;
}

/// Rows: KC-12, KC-14, KC-15, KC-30
#[tokio::test(start_paused = true)]
async fn a_requeue_keeps_the_finalizer_and_none_removes_it() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    let running = Running::of(&cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(2).await;
    script.on_cleanup([requeue(100), requeue(100_000), Answer::Fail]);
    script.take();
    cluster.delete::<ConfigMap>("shop", "a").await;
    script.called(2).await;
    let calls = script.all();
    let delay = (calls[1].0 - calls[0].0).as_secs_f64();
    assert!((100.0..100.5).contains(&delay), "{delay}");
    pass(3600).await;
    assert_eq!(script.take(), ["cleanup a", "cleanup a"]);
    assert_eq!(
        get(&cluster, "a").await.expect("it is kept").finalizers(),
        [FINALIZER]
    );

    // The next change calls it again. Then it fails, and succeeds without an action.
    merge(&cluster, "a", json!({ "data": { "value": "2" } })).await;
    until(async || get(&cluster, "a").await.is_none()).await;
    pass(7200).await;
    assert_eq!(
        script.take(),
        ["cleanup a", "error a cleanup 0", "cleanup a", "success a"],
        "no call follows"
    );
    running.stop().await;
}
