//! Handlers get the newest known object, and no object that another handler can change.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use tokio_util::sync::CancellationToken;
use windlass::{
    Event, Informer, ListWatch, ObjectKey, Outcome, Request, SimpleWatcher,
    retry::{NeverDequeue, NeverRetry, OpinionatedRetryDequeuePolicy, RetryDequeuePolicy},
};
use windlass_apiserver::ApiServer;

use crate::rig::{Refused, Rig, config, describe, pass, quiet, secs, show, value};

#[tokio::test(start_paused = true)]
async fn w02_a_retry_never_uses_a_spec_that_an_update_has_replaced() {
    check_external_state(OpinionatedRetryDequeuePolicy).await;
    check_external_state(NeverDequeue).await;
}

/// A create fails once, `policy` keeps its retry, and an update succeeds meanwhile. At the end the
/// external state matches the update.
async fn check_external_state(policy: impl RetryDequeuePolicy) {
    let mut rig = Rig::new(quiet().retry_dequeue_policy(policy));
    let external: Arc<Mutex<Vec<String>>> = Arc::default();
    let state = Arc::clone(&external);
    rig.reconcile(move |request: Request<ConfigMap>| {
        let fails = value(request.object()) == "1" && request.attempt() == 0;
        if !fails {
            let written = value(request.object()).to_owned();
            state.lock().expect("not poisoned").push(written);
        }
        async move {
            if fails {
                return Err(Refused("not yet"));
            }
            Ok(Outcome::done())
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    pass(1).await;
    assert_eq!(rig.pending(), 1, "the retry of the create");
    rig.apply(config("web", 2)).await;
    pass(600).await;
    let external = external.lock().expect("not poisoned").clone();
    assert_eq!(external, ["2", "2"], "the update, and the retried create");
    rig.stop().await;
}

/// Neither the unchanged generation nor the deletion mark hides a resync from the handler.
#[tokio::test(start_paused = true)]
async fn w08_a_resync_repeats_the_clean_up_after_its_retries_were_exhausted() {
    let mut rig = Rig::over(quiet().retry_policy(NeverRetry), |source| {
        Informer::builder(source).resync(secs(600)).build()
    });
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let dying = request.object().metadata.deletion_timestamp.is_some();
        log.push(format_args!("{} dying={dying}", describe(&request)));
        async { Err::<Outcome, _>(Refused("no")) }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    let mut dying = config("web", 2);
    let now = serde_json::from_value(serde_json::json!("2026-01-01T00:00:00Z"));
    dying.metadata.deletion_timestamp = Some(now.expect("a time"));
    dying.metadata.finalizers = Some(vec!["example.dev/x".to_owned()]);
    rig.apply(dying).await;
    assert_eq!(
        rig.logged().await,
        "created web=1 dying=false, updated web=2 dying=true"
    );
    pass(1200).await;
    let logged = rig.logged().await;
    assert!(
        logged.starts_with("resynced web=2 dying=true"),
        "{logged:?}"
    );
    rig.stop().await;
}

/// Handlers receive objects as `Arc<K>`, so a handler that changes its object changes a copy.
#[tokio::test(start_paused = true)]
async fn w10_a_handler_that_changes_its_object_changes_a_copy() {
    let mut rig = Rig::new(quiet());
    rig.watch(
        SimpleWatcher::new().on_add(|mut object: Arc<ConfigMap>| async move {
            let mine = Arc::make_mut(&mut object);
            mine.metadata.resource_version = Some("2".to_owned());
            mine.metadata.finalizers = Some(vec!["example.dev/x".to_owned()]);
            Ok::<_, Refused>(())
        }),
    );
    let (log, store) = (rig.log.clone(), rig.informer.store());
    rig.reconcile(move |request: Request<ConfigMap>| {
        let kept = store
            .get(request.key())
            .expect("the object is in the store");
        let same = Arc::ptr_eq(&kept, request.object());
        let finalizers = request.object().metadata.finalizers.is_some();
        log.push(format_args!("{} {same} {finalizers}", describe(&request)));
        async { Ok::<_, Refused>(Outcome::done()) }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "created web=1 true false");
    // The event of the write is an update and not a resync, although the copy had its version.
    rig.apply(config("web", 2)).await;
    assert_eq!(rig.logged().await, "updated web=2 true false");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w18_a_delete_found_by_a_relist_is_dispatched_with_the_last_state() {
    let mut rig = Rig::new(quiet());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.push(describe(&request));
        async { Ok::<_, Refused>(Outcome::done()) }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    rig.apply(config("api", 1)).await;
    rig.apply(config("web", 7)).await;
    rig.logged().await;
    rig.script
        .list([config("api", 2)])
        .await
        .expect("the informer runs");
    assert_eq!(rig.logged().await, "updated api=2, deleted web=7");
    assert!(
        rig.informer
            .store()
            .get(&ObjectKey::new("web").within("shop"))
            .is_none()
    );
    rig.stop().await;
}

#[tokio::test]
async fn w18_each_object_of_each_list_page_is_dispatched() {
    let server = ApiServer::new();
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    for number in 0..7 {
        let mut object = config(&format!("c{number}"), number);
        object.metadata = kube::api::ObjectMeta {
            name: object.metadata.name,
            ..Default::default()
        };
        configs
            .create(&PostParams::default(), &object)
            .await
            .expect("a new object");
    }
    let pages = ListWatch::new(configs)
        .streamed_lists(false)
        .page_size(2.try_into().expect("not zero"));
    let informer = Informer::new(pages);
    let mut events = informer.subscribe();
    let stop = CancellationToken::new();
    let run = {
        let (informer, stop) = (informer.clone(), stop.clone());
        tokio::spawn(async move { informer.run(stop).await })
    };
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Added(object) => listed.push(show(&object)),
            Event::Synced => break,
            other => panic!("{other:?}"),
        }
    }
    listed.sort_unstable();
    listed.retain(|it| it.starts_with('c'));
    let all: Vec<_> = (0..7).map(|number| format!("c{number}={number}")).collect();
    assert_eq!(listed, all);
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}
