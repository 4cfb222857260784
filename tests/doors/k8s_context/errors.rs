//! Errors, panics and time-outs.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;
use windlass::k8s_controller::Action;

use super::script::{
    Answer, Defaults, FINALIZER, Recorded, Running, Script, all, create, get, merge, pass,
};
use crate::cluster::{Cluster, until};

/// Rows: KC-19, KC-20, KC-25
#[tokio::test(start_paused = true)]
async fn consecutive_errors_are_counted_per_uid_until_a_success() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply(vec![Answer::Fail; 3]);
    script.on_cleanup([Answer::Fail]);
    let running = Running::of(&cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(4).await;
    assert_eq!(
        script.take(),
        [
            "apply a 1",
            "error a apply 0",
            "apply a 1",
            "error a apply 1"
        ]
    );
    merge(&cluster, "a", json!({ "data": { "value": "2" } })).await;
    script.called(2).await;
    cluster.delete::<ConfigMap>("shop", "a").await;
    until(async || get(&cluster, "a").await.is_none()).await;
    assert_eq!(
        script.take(),
        [
            "apply a 2",
            "error a apply 2",
            "cleanup a",
            "error a cleanup 3",
            "cleanup a",
            "success a"
        ]
    );
    script.on_apply([
        Answer::Fail,
        Answer::Act(Action::await_change()),
        Answer::Fail,
    ]);
    create(&cluster, "a").await;
    script.called(3).await;
    merge(&cluster, "a", json!({ "data": { "value": "3" } })).await;
    script.called(5).await;
    assert_eq!(
        script.take()[..5],
        [
            "apply a 1",
            "error a apply 0",
            "apply a 1",
            "apply a 3",
            "error a apply 0"
        ]
    );
    running.stop().await;
}

/// Rows: KC-21, KC-22, KC-23
#[tokio::test(start_paused = true)]
async fn default_retries_back_off_with_jitter_up_to_256_seconds() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply(vec![Answer::Fail; 100]);
    let running = Running::of(&cluster, Defaults(script.clone()));
    create(&cluster, "a").await;
    create(&cluster, "b").await;
    script.called(22).await;
    let delays = |name: &str| {
        let all = script.all();
        let own: Vec<_> = all
            .iter()
            .filter(|it| it.1 == format!("apply {name} 1"))
            .collect();
        let pairs = own.windows(2).take(10);
        pairs
            .map(|it| (it[1].0 - it[0].0).as_secs_f64())
            .collect::<Vec<_>>()
    };
    let (a, b) = (delays("a"), delays("b"));
    for delays in [&a, &b] {
        assert!(delays.len() >= 9, "{delays:?}");
        for (n, delay) in (0..).zip(delays) {
            let most = f64::from(2_u32.pow((n + 1).min(8)));
            assert!((most / 2.0..most + 0.01).contains(delay), "{n}: {delay}");
        }
    }
    assert_ne!(a, b, "they are random");
    running.stop().await;
}

/// Rows: KC-24
#[tokio::test(start_paused = true)]
async fn the_action_of_error_action_is_obeyed() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply([Answer::Fail, Answer::Fail]);
    script.on_error([
        Action::requeue(Duration::from_secs(77)),
        Action::await_change(),
    ]);
    let running = Running::of(&cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(4).await;
    let calls = script.all();
    let delay = (calls[2].0 - calls[0].0).as_secs_f64();
    assert!((77.0..77.5).contains(&delay), "{delay}");
    pass(7200).await;
    let lines = [
        "apply a 1",
        "error a apply 0",
        "apply a 1",
        "error a apply 1",
    ];
    assert_eq!(script.take(), lines, "it waits for a change");
    merge(&cluster, "a", json!({ "data": { "value": "2" } })).await;
    script.called(2).await;
    assert_eq!(script.take(), ["apply a 2", "success a"]);

    // In a clean-up, the object is kept.
    script.on_cleanup([Answer::Fail]);
    script.on_error([Action::await_change()]);
    cluster.delete::<ConfigMap>("shop", "a").await;
    pass(7200).await;
    assert_eq!(script.take(), ["cleanup a", "error a cleanup 0"]);
    let kept = get(&cluster, "a").await.expect("it is kept");
    assert_eq!(kept.finalizers(), [FINALIZER]);
    merge(&cluster, "a", json!({ "data": { "value": "3" } })).await;
    until(async || get(&cluster, "a").await.is_none()).await;
    assert_eq!(script.take(), ["cleanup a", "success a"]);
    running.stop().await;
}

/// Rows: KC-19
#[tokio::test(start_paused = true)]
async fn panics_and_time_outs_are_repeated_without_a_call_of_error_action() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply([Answer::Panic, Answer::Hang, Answer::Fail]);
    let controller = all(&cluster, Recorded(script.clone()));
    let controller = controller.with_controller(|it| it.timeout(Duration::from_secs(30)));
    let running = Running::start(controller);
    create(&cluster, "a").await;
    script.called(6).await;
    assert_eq!(
        script.take()[..6],
        [
            "apply a 1",
            "apply a 1",
            "apply a 1",
            "error a apply 0",
            "apply a 1",
            "success a"
        ]
    );
    running.stop().await;
}
