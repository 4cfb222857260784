//! How an informer runs, and its health.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Change, DecodeError, HealthState, Identity, Informer, ObjectKey, Scripted, Uid, WatchError,
    WatchErrorCause,
};

use crate::running::{config, receive, run, start};

/// An informer of [`ConfigMap`] takes watchers of its events, more than one, and runs until
/// it is stopped.
///
/// Rows: GA-19, GA-45, GA-46, CK-10
#[tokio::test(start_paused = true)]
async fn every_handler_receives_events_until_the_informer_is_stopped() {
    let (script, source) = Scripted::new();
    let informer = Informer::new(source);
    let (mut first, mut second) = (informer.subscribe(), informer.subscribe());
    let stop = CancellationToken::new();
    let mut running = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.run(stop).await }
    });
    script.list([config("a", "1")]).await.expect("runs");
    script.apply(config("a", "2")).await.expect("runs");
    script.delete(config("a", "3")).await.expect("runs");
    for events in [&mut first, &mut second] {
        assert_eq!(
            receive(events, 4).await,
            ["added a 1", "synced", "updated a 1>2", "deleted a 3"]
        );
    }
    let still = tokio::time::timeout(Duration::from_secs(3600), &mut running).await;
    assert!(still.is_err(), "it ended of itself");
    stop.cancel();
    running.await.expect("no panic").expect("stopped");
    assert!(first.next().await.is_none(), "nothing comes after the end");
}

/// Rows: CK-08, CK-09
#[tokio::test(start_paused = true)]
async fn synced_is_published_after_the_first_complete_list() {
    let (script, mut running) = start();
    assert!(!running.informer.has_synced());
    assert_eq!(running.informer.last_sync_resource_version(), None);
    script.change(Change::ListStarted).await.expect("runs");
    script.apply(config("a", "1")).await.expect("runs");
    assert_eq!(receive(&mut running.events, 1).await, ["added a 1"]);
    assert!(!running.informer.has_synced(), "half a list is no list");
    let ended = Change::ListEnded {
        resource_version: Some("7".to_owned()),
    };
    script.change(ended).await.expect("runs");
    running.informer.synced().await.expect("runs");
    assert!(running.informer.has_synced());
    assert!(
        !running.events.has_synced(),
        "the handler has not received it yet"
    );
    assert_eq!(receive(&mut running.events, 1).await, ["synced"]);
    assert!(running.events.has_synced());
    let version = running.informer.last_sync_resource_version();
    assert_eq!(version.as_deref(), Some("7"));
}

/// Rows: GA-22, GA-43, BO-27
#[tokio::test(start_paused = true)]
async fn errors_are_reported_to_the_error_handler_and_the_health() {
    let problems = Arc::new(Mutex::new(Vec::new()));
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::builder(source)
        .on_error({
            let problems = Arc::clone(&problems);
            move |problem| problems.lock().expect("no panic").push(problem.to_string())
        })
        .build();
    let mut running = run(informer);
    script.list([config("a", "1")]).await.expect("runs");
    receive(&mut running.events, 2).await;
    assert!(running.informer.health().is_healthy());

    let error = DecodeError::Syntax { line: 1, column: 2 };
    let identity = Identity {
        key: ObjectKey::new("bad").within("shop"),
        uid: Some(Uid::from("u")),
        resource_version: Some("9".to_owned()),
    };
    let bad = Change::Undecodable {
        identity,
        error,
        finalizers: vec![],
    };
    script.change(bad).await.expect("runs");
    let forbidden = WatchError::new(
        "configmaps",
        windlass_informer::Verb::Watch,
        WatchErrorCause::Forbidden {
            message: "no".to_owned(),
        },
    );
    script
        .interrupt(forbidden, Duration::from_secs(3))
        .await
        .expect("runs");
    let health = running
        .informer
        .until(|state| matches!(state, HealthState::Down { .. }))
        .await;
    assert_eq!(health.undecodable, [ObjectKey::new("bad").within("shop")]);
    assert!(!health.is_healthy());
    let text = health.to_string();
    assert!(
        text.starts_with("scripted: down, cannot watch configmaps: forbidden"),
        "{text}"
    );
    let problems = problems.lock().expect("no panic").clone();
    assert_eq!(
        problems,
        [
            "cannot decode scripted shop/bad, quarantined: not valid JSON at line 1, column 2",
            "cannot watch configmaps: forbidden (no); a Role or ClusterRole must grant `list` and \
             `watch` on configmaps; retrying in 3.0s",
        ]
    );

    // The source recovers.
    script.list([config("a", "1")]).await.expect("runs");
    let watching = |state: &HealthState| matches!(state, HealthState::Watching);
    assert!(running.informer.until(watching).await.is_healthy());
}

/// Clones are one informer; two of the same kind are two.
#[tokio::test(start_paused = true)]
async fn an_informer_is_distinguished_from_others_of_its_kind() {
    let (_script, source) = Scripted::<ConfigMap>::new();
    let (_other_script, other) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    assert_eq!(informer.id(), informer.clone().id());
    assert_ne!(informer.id(), Informer::new(other).id());
}
