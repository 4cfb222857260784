//! Memory: what is kept, and for how long.

use std::{
    collections::HashSet,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, CustomResource, CustomResourceExt as _,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    runtime::wait::{await_condition, conditions},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    Event, Informer, Outcome, Request,
    controller::Coalescing,
    listmap::ListMap,
    retry::{NewEvent, PendingCall},
};
use windlass_apiserver::ApiServer;

use crate::rig::{Refused, Rig, config, describe, pass, quiet, settle};

/// Updates of an object that a worker has taken are coalesced into one event: always, or when the
/// queue is full.
#[tokio::test(start_paused = true)]
async fn w23_updates_of_a_busy_object_are_coalesced() {
    let mut rig = Rig::new(quiet().coalescing(Coalescing::Always));
    slow(&rig);
    rig.start().await;
    for version in 1..=5_000 {
        rig.apply(config("web", version)).await;
    }
    settle().await;
    assert!(rig.counted("workqueue_depth", &[]) <= 1);
    pass(60).await;
    let logged = rig.logged().await;
    assert!(logged.starts_with("created web="), "{logged}");
    assert!(logged.ends_with("updated web=5000"), "{logged}");
    assert!(logged.split(", ").count() <= 3, "{logged}");
    rig.stop().await;

    let limit = NonZeroUsize::new(8).expect("not zero");
    let mut rig = Rig::new(quiet().queue(limit));
    slow(&rig);
    rig.start().await;
    for version in 1..=5_000 {
        rig.apply(config("web", version)).await;
    }
    settle().await;
    assert!(rig.counted("workqueue_depth", &[]) <= 9);
    pass(3600).await;
    let logged = rig.logged().await;
    assert!(logged.ends_with("updated web=5000"), "{logged}");
    assert!(logged.split(", ").count() <= 10, "{logged}");
    rig.stop().await;
}

fn slow(rig: &Rig) {
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.push(describe(&request));
        async {
            pass(20).await;
            Ok::<_, Refused>(Outcome::done())
        }
    });
}

/// With 1,000 pending retries, an event asks the dequeue policy only about the retries of its own
/// object.
#[tokio::test(start_paused = true)]
async fn w31_an_event_checks_only_the_retries_of_its_own_object() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = Arc::clone(&asked);
    let policy = move |_: &NewEvent<'_>, pending: &PendingCall<'_>| {
        let mut record = record.lock().expect("not poisoned");
        record.push(pending.object.key().to_string());
        true
    };
    let mut rig = Rig::new(quiet().retry_dequeue_policy(policy));
    rig.reconcile(|request: Request<ConfigMap>| async move {
        match request.key().name() {
            "well" => Ok(Outcome::done()),
            _ => Err(Refused("not yet")),
        }
    });
    rig.start().await;
    for number in 0..1_000 {
        rig.apply(config(&format!("o{number}"), 1)).await;
    }
    rig.apply(config("well", 1)).await;
    pass(1).await;
    assert_eq!(rig.pending(), 1_000);
    assert!(asked.lock().expect("not poisoned").is_empty());
    rig.apply(config("well", 2)).await;
    rig.apply(config("o500", 2)).await;
    settle().await;
    assert_eq!(*asked.lock().expect("not poisoned"), ["shop/o500"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w32_no_state_remains_for_deleted_objects() {
    let seen: Arc<Mutex<Vec<Weak<ConfigMap>>>> = Arc::default();
    let record = Arc::clone(&seen);
    let mut rig = Rig::new(quiet());
    rig.reconcile(move |request: Request<ConfigMap>| {
        let weak = Arc::downgrade(request.object());
        record.lock().expect("not poisoned").push(weak);
        // Each call is retried once, so that the memory of a retry was in use.
        let fails = request.attempt() == 0;
        async move {
            if fails {
                return Err(Refused("not yet"));
            }
            Ok(Outcome::done())
        }
    });
    rig.start().await;
    for number in 0..500 {
        rig.apply(config(&format!("o{number}"), 1)).await;
    }
    pass(60).await;
    for number in 0..500 {
        rig.delete(config(&format!("o{number}"), 2)).await;
    }
    pass(60).await;
    let seen = std::mem::take(&mut *seen.lock().expect("not poisoned"));
    assert_eq!(seen.len(), 2_000);
    let kept = seen.iter().filter(|it| it.strong_count() > 0).count();
    assert_eq!((kept, rig.pending(), rig.informer.store().len()), (0, 0, 0));
    assert_eq!(rig.counted("workqueue_depth", &[]), 0);
    rig.stop().await;

    // A list map does not keep the keys of empty lists either.
    let map = ListMap::new();
    for key in 0..500 {
        map.push(key, "item");
        map.remove_at(&key, 0);
    }
    assert_eq!(map.len(), 0);
}

#[test]
fn w33_an_iteration_over_a_list_map_sees_each_item_once_despite_concurrent_removals() {
    let map = ListMap::new();
    map.extend("kind", 0..100_i32);
    let mut seen = Vec::new();
    map.for_each("kind", |_, item| {
        // The previous, the current and the next item.
        for removed in [item - 1, *item, item + 1] {
            map.remove_first("kind", |it| *it == removed);
        }
        seen.push(*item);
    });
    assert_eq!(seen, (0..100_i32).collect::<Vec<_>>());
    assert_eq!(map.len_of("kind"), 0);
}

/// The number of times that the spec of a `Tally` was decoded.
static DECODED: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "weaknesses.windlass.dev",
    version = "v1",
    kind = "Tally",
    namespaced
)]
struct TallySpec {
    #[serde(deserialize_with = "counted")]
    size: u32,
}

fn counted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    DECODED.fetch_add(1, Ordering::SeqCst);
    u32::deserialize(deserializer)
}

/// An object is decoded once each time it arrives. All subscribers share it without a copy.
#[tokio::test]
async fn w34_an_object_is_decoded_once_and_never_copied() {
    let server = ApiServer::new();
    let crds: Api<CustomResourceDefinition> = Api::all(server.client());
    let crd = Tally::crd();
    crds.create(&PostParams::default(), &crd)
        .await
        .expect("a new kind");
    await_condition(
        crds,
        "tallies.weaknesses.windlass.dev",
        conditions::is_crd_established(),
    )
    .await
    .expect("the CRD is established");

    // Without the Rust type, so that only the informer decodes.
    let kind = ApiResource::erase::<Tally>(&());
    let raw: Api<DynamicObject> = Api::namespaced_with(server.client(), "default", &kind);
    for number in 0..5 {
        let object = DynamicObject::new(&format!("t{number}"), &kind);
        let object = object.data(json!({ "spec": { "size": number } }));
        raw.create(&PostParams::default(), &object)
            .await
            .expect("a new object");
    }
    let informer = Informer::new(Api::<Tally>::namespaced(server.client(), "default"));
    let mut subscriptions = [(); 3].map(|()| informer.subscribe());
    let stop = CancellationToken::new();
    let run = {
        let (informer, stop) = (informer.clone(), stop.clone());
        tokio::spawn(async move { informer.run(stop).await })
    };
    informer.synced().await.expect("it runs");
    assert_eq!(DECODED.load(Ordering::SeqCst), 5, "the list");

    let patch = Patch::Merge(json!({ "spec": { "size": 100 } }));
    raw.patch("t3", &PatchParams::default(), &patch)
        .await
        .expect("the object exists");
    let mut copies = HashSet::new();
    for subscription in &mut subscriptions {
        let new = loop {
            let event = subscription.next().await.expect("it runs");
            if let Event::Updated { new, .. } = event {
                break new;
            }
        };
        assert_eq!(new.spec.size, 100);
        copies.insert(Arc::as_ptr(&new));
    }
    assert_eq!(copies.len(), 1, "one object for all");
    assert_eq!(DECODED.load(Ordering::SeqCst), 6, "the list and the change");
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}
