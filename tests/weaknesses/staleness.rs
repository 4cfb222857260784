//! What a handler is shown: never less than is known, and never a copy that another may change.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use tokio_util::sync::CancellationToken;
use windlass::{
    Event, Informer, ListWatch, ObjectKey, Outcome, Request, SimpleWatcher,
    retry::{NeverDequeue, NeverRetry, OpinionatedRetryDequeuePolicy, RetryDequeuePolicy},
};
use windlass_apiserver::ApiServer;

use crate::rig::{Refused, Rig, ask, config, pass, quiet, secs, show, value};

#[tokio::test(start_paused = true)]
async fn w02_a_retry_never_brings_back_a_spec_that_an_update_has_replaced() {
    check_world(OpinionatedRetryDequeuePolicy).await;
    check_world(NeverDequeue).await;
}

/// A create that fails once is kept by `policy`, while an update succeeds; then the world is
/// as the update says.
async fn check_world(policy: impl RetryDequeuePolicy) {
    let mut rig = Rig::new(quiet().retry_dequeue_policy(policy));
    let world: Arc<Mutex<Vec<String>>> = Arc::default();
    let hand = Arc::clone(&world);
    rig.reconcile(move |request: Request<ConfigMap>| {
        let fails = value(request.object()) == "1" && request.attempt() == 0;
        if !fails {
            let wish = value(request.object()).to_owned();
            hand.lock().expect("not poisoned").push(wish);
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
    assert_eq!(rig.pending(), 1, "the create is to be repeated");
    rig.apply(config("web", 2)).await;
    pass(600).await;
    let world = world.lock().expect("not poisoned").clone();
    assert_eq!(
        world,
        ["2", "2"],
        "the update, and the create that was kept"
    );
    rig.stop().await;
}

/// The same generation, the deletion mark included: nothing about an object keeps a resync
/// from reaching who gave up on it.
#[tokio::test(start_paused = true)]
async fn w08_a_resync_reaches_an_object_that_was_given_up_while_it_was_being_deleted() {
    let mut rig = Rig::over(quiet().retry_policy(NeverRetry), |source| {
        Informer::builder(source).resync(secs(600)).build()
    });
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let dying = request.object().metadata.deletion_timestamp.is_some();
        log.say(format_args!("{} dying={dying}", ask(&request)));
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
        rig.said().await,
        "created web=1 dying=false, updated web=2 dying=true"
    );
    pass(1200).await;
    let said = rig.said().await;
    assert!(said.starts_with("resynced web=2 dying=true"), "{said:?}");
    rig.stop().await;
}

/// Objects are handed out as `Arc<K>`: a handler that wants to change one changes a copy.
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
        let kept = store.get(request.key()).expect("it is in the store");
        let same = Arc::ptr_eq(&kept, request.object());
        let finalizers = request.object().metadata.finalizers.is_some();
        log.say(format_args!("{} {same} {finalizers}", ask(&request)));
        async { Ok::<_, Refused>(Outcome::done()) }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.said().await, "created web=1 true false");
    // The echo of the write is news, and no resync, though the copy had its version.
    rig.apply(config("web", 2)).await;
    assert_eq!(rig.said().await, "updated web=2 true false");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w18_a_delete_that_only_a_list_shows_is_told_with_the_last_state() {
    let mut rig = Rig::new(quiet());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        async { Ok::<_, Refused>(Outcome::done()) }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    rig.apply(config("api", 1)).await;
    rig.apply(config("web", 7)).await;
    rig.said().await;
    rig.script.list([config("api", 2)]).await.expect("it runs");
    assert_eq!(rig.said().await, "updated api=2, deleted web=7");
    assert!(
        rig.informer
            .store()
            .get(&ObjectKey::new("web").within("shop"))
            .is_none()
    );
    rig.stop().await;
}

#[tokio::test]
async fn w18_each_object_of_each_page_of_a_list_is_told() {
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
    let mut told = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Added(object) => told.push(show(&object)),
            Event::Synced => break,
            other => panic!("{other:?}"),
        }
    }
    told.sort_unstable();
    told.retain(|it| it.starts_with('c'));
    let all: Vec<_> = (0..7).map(|number| format!("c{number}={number}")).collect();
    assert_eq!(told, all);
    stop.cancel();
    run.await.expect("no panic").expect("it ends well");
}
