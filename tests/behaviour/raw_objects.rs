//! Stores that keep JSON, only metadata, or the form of a user-defined type, with the same events
//! and handlers.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass::{
    Event, ExponentialBackoff, FinalizerName, Finalizers, Informer, InformerController, ObjectKey,
    OpinionatedWatcher, Outcome, Request, SimpleWatcher,
    store::{Index, ObjectIdentity as _, RawObject, Stored as _},
};

use crate::{
    cluster::await_condition,
    kinds::{Gizmo, Setting, config, loose_gizmo, value},
    running::Running,
    watched::{Watched, quick},
};

on_both_servers! {
    async fn a_store_of_raw_objects_has_the_same_events_as_a_typed_one(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        others.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await).raw());
        assert_eq!(watched.first_list().await, ["added a"]);
        let patch = json!({ "data": { "value": "2" } });
        others.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("there");
        let Some(Event::Updated { old, new }) = watched.events.next().await else {
            panic!("an update");
        };
        let old = old.get().expect("it is stored as JSON");
        assert_eq!(value(&old.get().expect("it decodes")), "1");
        assert_eq!(value(&new.get().expect("it decodes")), "2");

        let key = ObjectKey::new("a").within(cluster.namespace());
        let kept = watched.informer.store().get(&key).expect("there");
        assert!(Arc::ptr_eq(&kept, &new));
        let whole = others.get("a").await.expect("there");
        assert!(!kept.json().contains("managedFields"), "{}", kept.json());
        assert_eq!(kept.uid(), whole.metadata.uid.as_deref());
        assert_eq!(kept.resource_version(), whole.metadata.resource_version.as_deref());
        assert_eq!(kept.metadata().creation_timestamp, whole.metadata.creation_timestamp);

        others.delete("a", &DeleteParams::default()).await.expect("there");
        let Some(Event::Deleted { last, missed: false }) = watched.events.next().await else {
            panic!("a delete");
        };
        assert_eq!(value(&last.get().expect("it decodes")), "2");
        assert!(watched.informer.store().is_empty());
        watched.stop().await;
    }

    async fn a_metadata_informer_requests_and_keeps_only_metadata(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        others.create(&PostParams::default(), &config("a", "hunter2")).await.expect("new");
        let metadata = quick(cluster.api::<ConfigMap>().await).metadata().raw();
        let mut watched = Watched::start(metadata);
        assert_eq!(watched.first_list().await, ["added a"]);
        let patch = json!({ "metadata": { "labels": { "tier": "front" } } });
        others.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("there");
        assert_eq!(watched.next().await, "updated a");
        let kept = watched.informer.store().list().remove(0);
        assert!(!kept.json().contains("hunter2"), "{}", kept.json());
        let labels = kept.get().expect("it decodes").metadata.labels.clone();
        assert_eq!(labels.expect("one")["tier"], "front");
        watched.stop().await;
    }

    /// An operator that declares what it reads keeps no more than that.
    async fn a_user_defined_type_is_a_kind_like_any_other(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        let mut object = config("a", "1");
        object.data.get_or_insert_default().insert("later".to_owned(), "[{".to_owned());
        others.create(&PostParams::default(), &object).await.expect("new");
        let mut watched = Watched::start(quick(cluster.api::<Setting>().await));
        assert_eq!(watched.first_list().await, ["added a"]);
        let patch = json!({ "data": { "value": "2" }, "binaryData": { "more": "AAEC" } });
        others.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("there");
        let Some(Event::Updated { old, new }) = watched.events.next().await else {
            panic!("an update");
        };
        let old = old.get().expect("it has decoded");
        assert_eq!((&*old.data.value, &*new.data.value), ("1", "2"));
        // What it cannot do without is missing: that is an object that does not decode.
        let patch = json!({ "data": { "value": null } });
        others.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("there");
        others.create(&PostParams::default(), &config("b", "3")).await.expect("new");
        assert_eq!(watched.next().await, "added b");
        let problems = watched.problems.lock().expect("no thread panics while it holds the lock").join("\n");
        assert!(problems.contains("missing field `value`"), "{problems}");
        watched.stop().await;
    }

    async fn an_index_over_raw_objects_is_kept_current(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        let by_value = Index::new(|config: &RawObject<ConfigMap>| {
            config.get().ok()?.data.as_ref()?.get("value").cloned()
        });
        let source = quick(cluster.api::<ConfigMap>().await).raw();
        let informer = Informer::builder(source).index(&by_value).build();
        let mut events = informer.subscribe();
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let (informer, stop) = (informer.clone(), stop.clone());
            async move { informer.run(stop).await }
        });
        others.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        while !matches!(events.next().await, Some(Event::Added(_))) {}
        let found = |value: &str| informer.store().by(&by_value, value).expect("declared").len();
        assert_eq!((found("1"), found("2")), (1, 0));
        let patch = json!({ "data": { "value": "2" } });
        others.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("there");
        while !matches!(events.next().await, Some(Event::Updated { .. })) {}
        assert_eq!((found("1"), found("2")), (0, 1));
        stop.cancel();
        running.await.expect("no panic").expect("nothing final went wrong");
    }

    /// Handlers of a kind need not know how its store keeps it; those that never look at an
    /// object can say so, and it is not decoded for them.
    async fn handlers_receive_raw_objects_decoded(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let controller = InformerController::new();
        let informer = Informer::new(quick(cluster.api::<ConfigMap>().await).raw());
        let configs_kind = controller.kind("configs").expect("a new kind");
        controller.add_informer(&configs_kind, &informer).expect("new");
        let (sender, mut receiver) = mpsc::channel(64);
        controller
            .add_reconciler(&configs_kind, {
                let sender = sender.clone();
                move |request: Request<ConfigMap>| {
                    let old = request.old().map(|old| value(old).to_owned());
                    let line = format!("{:?} {old:?} {}", request.action(), value(request.object()));
                    let sender = sender.clone();
                    async move {
                        sender.send(line).await.expect("the test receives");
                        Ok::<_, Infallible>(Outcome::done())
                    }
                }
            })
            .expect("a reconciler of config maps");
        controller
            .add_reconciler(&configs_kind, move |request: Request<RawObject<ConfigMap>>| {
                let line = format!("{:?} raw {}", request.action(), request.object().name());
                let sender = sender.clone();
                async move {
                    sender.send(line).await.expect("the test receives");
                    Ok::<_, Infallible>(Outcome::done())
                }
            })
            .expect("a reconciler of raw config maps");
        let running = Running::start(&controller);

        configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        assert_eq!(receiver.recv().await.as_deref(), Some("Created None 1"));
        assert_eq!(receiver.recv().await.as_deref(), Some("Created raw a"));
        let patch = json!({ "data": { "value": "2" } });
        configs.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("there");
        assert_eq!(receiver.recv().await.as_deref(), Some("Updated Some(\"1\") 2"));
        assert_eq!(receiver.recv().await.as_deref(), Some("Updated raw a"));
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        assert_eq!(receiver.recv().await.as_deref(), Some("Deleted None 2"));
        running.stop().await.expect("nothing went wrong for good");
    }

    async fn a_raw_object_that_does_not_decode_fails_its_call_until_it_changes(cluster: Cluster) {
        cluster.install(&loose_gizmo()).await;
        let others: Api<DynamicObject> = Api::namespaced_with(
            cluster.aside(),
            cluster.namespace(),
            &ApiResource::erase::<Gizmo>(&()),
        );
        let bad = DynamicObject::new("a", &ApiResource::erase::<Gizmo>(&()))
            .data(json!({ "spec": { "size": "hunter2" } }));
        others.create(&PostParams::default(), &bad).await.expect("loose");

        let (sender, mut receiver) = mpsc::channel(64);
        let problems = Arc::new(Mutex::new(Vec::new()));
        let controller = InformerController::builder()
            .retry_policy(ExponentialBackoff::new(Duration::from_millis(1), 5))
            .on_error({
                let (problems, sender) = (Arc::clone(&problems), sender.clone());
                move |problem| {
                    problems.lock().expect("no thread panics while it holds the lock").push(format!("{problem:?}"));
                    sender.try_send("error".to_owned()).expect("the channel is not full");
                }
            })
            .build()
            .expect("a good name");
        let informer = Informer::new(quick(cluster.api::<Gizmo>().await).raw());
        let gizmos = controller.kind("gizmos").expect("a new kind");
        controller.add_informer(&gizmos, &informer).expect("new");
        controller
            .add_reconciler(&gizmos, move |request: Request<Gizmo>| {
                let line = format!("{:?} {}", request.action(), request.object().spec.size);
                let sender = sender.clone();
                async move {
                    sender.send(line).await.expect("the test receives");
                    Ok::<_, Infallible>(Outcome::done())
                }
            })
            .expect("a reconciler of gizmos");
        let running = Running::start(&controller);

        assert_eq!(receiver.recv().await.as_deref(), Some("error"));
        let patch = json!({ "spec": { "size": 7 } });
        others.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("there");
        // No handler has received its old state, as in a store that keeps objects decoded.
        assert_eq!(receiver.recv().await.as_deref(), Some("Created 7"));
        let problems = problems.lock().expect("no thread panics while it holds the lock").join("\n");
        assert!(!problems.contains("hunter2"), "a value may be a secret: {problems}");
        running.stop().await.expect("nothing went wrong for good");
    }

    /// Like a watcher without a finalizer: no call had the old state.
    async fn an_update_of_a_raw_object_that_did_not_decode_is_an_add_of_a_wrapped_watcher(cluster: Cluster) {
        cluster.install(&loose_gizmo()).await;
        let others: Api<DynamicObject> = Api::namespaced_with(
            cluster.aside(),
            cluster.namespace(),
            &ApiResource::erase::<Gizmo>(&()),
        );
        let change = async |size: serde_json::Value| {
            let patch = json!({ "spec": { "size": size } });
            others.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("there");
        };
        let (sender, mut receiver) = mpsc::channel(64);
        let failed = sender.clone();
        let controller = InformerController::builder()
            .on_error(move |_| failed.try_send("error".to_owned()).expect("not full"))
            .build()
            .expect("a good name");
        let informer = Informer::new(quick(cluster.api::<Gizmo>().await).raw());
        let gizmos = controller.kind("gizmos").expect("a new kind");
        controller.add_informer(&gizmos, &informer).expect("new");
        let say = move |line: String| {
            sender.try_send(line).expect("not full");
            std::future::ready(Ok::<_, Infallible>(()))
        };
        let (add, update) = (say.clone(), say);
        let watcher = SimpleWatcher::new()
            .on_add(move |new: Arc<Gizmo>| add(format!("add {}", new.spec.size)))
            .on_update(move |old: Arc<Gizmo>, new: Arc<Gizmo>| {
                update(format!("update {} {}", old.spec.size, new.spec.size))
            });
        let name = FinalizerName::new("example.io/own").expect("a name");
        let finalizers = Finalizers::new(cluster.aside(), name).expect("a finalizer");
        let watcher = OpinionatedWatcher::new(finalizers, watcher);
        controller.add_watcher(&gizmos, watcher).expect("a watcher of gizmos");
        let running = Running::start(&controller);
        let mut next = async || {
            let line = tokio::time::timeout(Duration::from_secs(20), receiver.recv()).await;
            line.expect("it is called").expect("the handlers exist")
        };

        let gizmo = DynamicObject::new("a", &ApiResource::erase::<Gizmo>(&()))
            .data(json!({ "spec": { "size": 7 } }));
        others.create(&PostParams::default(), &gizmo).await.expect("new");
        assert_eq!(next().await, "add 7");
        let is_held = |it: Option<&DynamicObject>| it.is_some_and(|it| it.finalizers() == ["example.io/own"]);
        await_condition(others.clone(), "a", is_held).await.expect("held");
        change(json!("hunter2")).await;
        assert_eq!(next().await, "error");
        change(json!(8)).await;
        assert_eq!(next().await, "add 8");
        change(json!(9)).await;
        assert_eq!(next().await, "update 8 9");
        others.delete("a", &DeleteParams::default()).await.expect("there");
        let is_deleted = |it: Option<&DynamicObject>| it.is_none();
        await_condition(others.clone(), "a", is_deleted).await.expect("deleted");
        running.stop().await.expect("nothing went wrong for good");
    }

    /// A list that is long enough for several decoders, streamed and in pages.
    async fn a_list_that_several_threads_decode_is_complete_and_in_order(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let others = cluster.api_aside::<ConfigMap>();
        stream::iter(0..700)
            .map(Ok::<_, kube::Error>)
            .try_for_each_concurrent(16, |i| {
                let others = others.clone();
                async move {
                    let object = config(&format!("c-{i:04}"), "1");
                    others.create(&PostParams::default(), &object).await.map(|_| ())
                }
            })
            .await
            .expect("many objects");
        for streamed in [true, false] {
            let source = quick(cluster.api::<ConfigMap>().await)
                .streamed_lists(streamed)
                .decoders(std::num::NonZeroUsize::new(4).expect("not zero"));
            let mut watched = Watched::start(source);
            let mut names = Vec::new();
            while let Some(Event::Added(config)) = watched.events.next().await {
                names.push(config.metadata.name.clone().expect("a name"));
            }
            let expected: Vec<_> = (0..700).map(|i| format!("c-{i:04}")).collect();
            assert_eq!(names, expected, "streamed: {streamed}");
            watched.stop().await;
        }
    }
}
