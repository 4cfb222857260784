//! Lists: streamed, in pages, or with an object that does not decode.

use std::num::NonZeroU32;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{
        ApiResource, DeleteParams, DynamicObject, PartialObjectMeta, Patch, PatchParams, PostParams,
    },
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass::{Informer, ObjectKey, informer::HealthState};

use crate::{
    kinds::{Gizmo, config, loose_gizmo},
    watched::{Watched, describe, quick},
};

on_both_servers! {
    /// Rows: BO-03
    async fn a_first_list_is_streamed_if_the_server_supports_it(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let others = cluster.api_aside::<ConfigMap>();
        for name in ["a", "b"] {
            others.create(&PostParams::default(), &config(name, "1")).await.expect("new");
        }
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        assert_eq!(watched.first_list().await, ["added a", "added b"]);
        others.create(&PostParams::default(), &config("c", "1")).await.expect("new");
        assert_eq!(watched.next().await, "added c");
        let requests = cluster.connection().requests();
        assert_eq!(requests.len(), 1, "one request is list and watch: {requests:?}");
        assert!(requests[0].contains("sendInitialEvents=true"), "{requests:?}");
        assert!(watched.informer.last_sync_resource_version().is_some());
        watched.stop().await;
    }

    /// Rows: BO-03
    async fn a_list_of_a_thousand_objects_comes_in_pages(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let others = cluster.api_aside::<ConfigMap>();
        stream::iter(0..1000)
            .map(Ok::<_, kube::Error>)
            .try_for_each_concurrent(16, |i| {
                let others = others.clone();
                async move {
                    let object = config(&format!("c-{i:04}"), "1");
                    others.create(&PostParams::default(), &object).await.map(|_| ())
                }
            })
            .await
            .expect("a thousand objects");
        let pages = quick(cluster.api::<ConfigMap>().await)
            .streamed_lists(false)
            .page_size(NonZeroU32::new(100).expect("not zero"));
        let mut watched = Watched::start(pages);
        let list = watched.first_list().await;
        assert_eq!(list.len(), 1000);
        assert_eq!(list[999], "added c-0999");
        assert_eq!(cluster.connection().count("limit=100"), 10);
        assert_eq!(cluster.connection().count("continue="), 9);
        assert_eq!(watched.informer.store().len(), 1000);
        watched.stop().await;
    }

    /// If the history of a page was compacted, the informer lists again, and the list is complete.
    async fn a_list_whose_pages_expire_is_complete_nevertheless(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        for name in ["a", "b", "c"] {
            others.create(&PostParams::default(), &config(name, "1")).await.expect("new");
        }
        let pages = quick(cluster.api::<ConfigMap>().await)
            .streamed_lists(false)
            .page_size(NonZeroU32::new(1).expect("not zero"));
        cluster.connection().pause_at("continue=");
        let mut watched = Watched::start(pages);
        assert_eq!(watched.next().await, "added a");
        others.delete("a", &kube::api::DeleteParams::default()).await.expect("there");
        cluster.forget_history().await;
        cluster.connection().resume();
        let mut changes = watched.first_list().await;
        changes.sort();
        assert_eq!(changes, ["added b", "added c", "missed a"]);
        watched.stop().await;
    }

    async fn an_object_that_does_not_decode_is_quarantined_and_the_others_continue(cluster: Cluster) {
        cluster.install(&loose_gizmo()).await;
        let others: Api<DynamicObject> = Api::namespaced_with(
            cluster.aside(),
            cluster.namespace(),
            &ApiResource::erase::<Gizmo>(&()),
        );
        let gizmo = |name: &str, size: serde_json::Value| {
            DynamicObject::new(name, &ApiResource::erase::<Gizmo>(&()))
                .data(json!({ "spec": { "size": size } }))
        };
        for (name, size) in [("a", json!(1)), ("bad", json!("hunter2")), ("c", json!(3))] {
            others.create(&PostParams::default(), &gizmo(name, size)).await.expect("loose");
        }

        let mut watched = Watched::start(quick(cluster.api::<Gizmo>().await));
        assert_eq!(watched.first_list().await, ["added a", "added c"]);
        let bad = ObjectKey::new("bad").within(cluster.namespace());
        assert_eq!(watched.informer.health().undecodable, std::slice::from_ref(&bad));
        assert!(!watched.informer.health().is_healthy());
        let problems = watched.problems.lock().expect("no thread panics while it holds the lock").join("\n");
        assert!(problems.contains("gizmos.test.windlass.dev"), "{problems}");
        assert!(problems.contains(&bad.to_string()), "{problems}");
        assert!(problems.contains("spec.size"), "{problems}");
        assert!(!problems.contains("hunter2"), "a value may be a secret: {problems}");

        // Others flow on, and so does the object once it is corrected.
        others.create(&PostParams::default(), &gizmo("d", json!(4))).await.expect("loose");
        assert_eq!(watched.next().await, "added d");
        let mended = Patch::Merge(json!({ "spec": { "size": 2 } }));
        others.patch("bad", &PatchParams::default(), &mended).await.expect("there");
        assert_eq!(watched.next().await, "added bad");
        watched.following().await;
        assert!(watched.informer.health().is_healthy(), "{}", watched.informer.health());

        // An object that breaks while it is known is not gone: its last good state stays.
        let broken = Patch::Merge(json!({ "spec": { "size": "hunter2" } }));
        others.patch("a", &PatchParams::default(), &broken).await.expect("there");
        others.patch("c", &PatchParams::default(), &Patch::Merge(json!({ "spec": { "size": 5 } }))).await.expect("there");
        assert_eq!(watched.next().await, "updated c");
        let a = ObjectKey::new("a").within(cluster.namespace());
        assert_eq!(watched.informer.store().get(&a).expect("known").spec.size, 1);
        others.delete("a", &kube::api::DeleteParams::default()).await.expect("there");
        assert_eq!(watched.next().await, "deleted a");
        watched.stop().await;
    }

    async fn a_kind_that_is_installed_later_is_waited_for(cluster: Cluster) {
        let kind = ApiResource {
            group: "later.windlass.dev".to_owned(),
            version: "v1".to_owned(),
            api_version: "later.windlass.dev/v1".to_owned(),
            kind: "Widget".to_owned(),
            // The real server is shared, and remembers.
            plural: format!("widgets-{}", cluster.namespace()),
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(cluster.client().await, cluster.namespace(), &kind);
        let mut watched = Watched::start(quick((api, kind.clone())));
        let health = watched
            .informer
            .until(|state| matches!(state, HealthState::Down { .. }))
            .await;
        assert!(health.to_string().contains("install its CustomResourceDefinition"), "{health}");
        assert!(health.to_string().contains(&kind.plural), "{health}");

        let singular = kind.plural.replace("widgets", "widget");
        let crd = serde_json::from_value(json!({
            "metadata": { "name": format!("{}.{}", kind.plural, kind.group) },
            "spec": {
                "group": kind.group, "scope": "Namespaced",
                "names": {
                    "kind": format!("Widget{}", cluster.namespace().replace('-', "")),
                    "plural": kind.plural, "singular": singular,
                },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                }],
            },
        }));
        cluster.install(&crd.expect("a definition")).await;
        assert!(watched.first_list().await.is_empty());
        watched.stop().await;
    }

    async fn a_forbidden_list_is_reported_and_retried(cluster: Cluster) {
        let api: Api<ConfigMap> = Api::namespaced(cluster.powerless().await, cluster.namespace());
        let watched = Watched::start(quick(api));
        let health = watched
            .informer
            .until(|state| matches!(state, HealthState::Down { .. }))
            .await;
        assert!(health.to_string().contains("forbidden"), "{health}");
        assert!(health.to_string().contains("must grant `list` and `watch` on configmaps"), "{health}");
        assert!(!watched.informer.has_synced());
        watched.stop().await;
    }

    /// It may be a proxy that refuses it by mistake, so it is not the end.
    ///
    /// Rows: BO-51
    async fn a_selector_that_the_server_rejects_is_reported_and_retried(cluster: Cluster) {
        let source = quick(cluster.api::<ConfigMap>().await)
            .fields("spec.nodeName=a")
            .expect("it looks like a selector");
        let (sender, mut problems) = mpsc::channel(64);
        let informer = Informer::builder(source)
            .on_error(move |problem| _ = sender.try_send(problem.to_string()))
            .build();
        let stop = CancellationToken::new();
        let look = async {
            // The first may be a refusal to stream the list.
            for _ in 0..4 {
                let text = problems.recv().await.expect("the informer runs");
                assert!(text.contains("configmaps"), "{text}");
                assert!(text.contains("check the label and field selectors"), "{text}");
                assert!(text.contains("spec.nodeName"), "{text}");
            }
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(informer.run(stop.clone()), look);
        ended.expect("it was stopped");
    }

    /// Rows: BO-45
    async fn an_informer_can_watch_only_metadata(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        others.create(&PostParams::default(), &config("a", "secret")).await.expect("new");
        let mut watched = Watched::start(quick(cluster.api::<PartialObjectMeta<ConfigMap>>().await));
        assert_eq!(watched.first_list().await, ["added a"]);
        others.delete("a", &kube::api::DeleteParams::default()).await.expect("there");
        assert_eq!(watched.next().await, "deleted a");
        watched.stop().await;
    }

    async fn a_dynamic_object_has_api_version_and_kind(cluster: Cluster) {
        let kind = ApiResource::erase::<ConfigMap>(&());
        let others = cluster.api_aside::<ConfigMap>();
        others.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let api: Api<DynamicObject> =
            Api::namespaced_with(cluster.client().await, cluster.namespace(), &kind);
        for streamed in [true, false] {
            let source = quick((api.clone(), kind.clone())).streamed_lists(streamed);
            let mut watched = Watched::start(source);
            assert_eq!(watched.first_list().await, ["added a"]);
            let objects = watched.informer.store().list();
            let types = objects[0].types.clone().expect("known");
            assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
            assert_eq!(objects[0].data["data"]["value"], "1");
            assert!(objects[0].managed_fields().is_empty());
            watched.stop().await;
        }
    }

    async fn a_late_subscriber_receives_all_objects(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        others.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        assert_eq!(watched.first_list().await, ["added a"]);
        let mut late = watched.informer.subscribe();
        assert!(!late.has_synced(), "its own view, not the store's");
        assert_eq!(crate::watched::describe(&late.next().await.expect("runs")), "added a");
        assert_eq!(crate::watched::describe(&late.next().await.expect("runs")), "synced");
        assert!(late.has_synced());
        others.create(&PostParams::default(), &config("b", "1")).await.expect("new");
        assert_eq!(crate::watched::describe(&late.next().await.expect("runs")), "added b");
        assert_eq!(watched.next().await, "added b");
        watched.stop().await;
    }

    /// A second call of `run` shares the list and watch of the first, and continues with it. After
    /// the last call has ended, the next call lists again.
    ///
    /// Rows: CK-11
    async fn several_callers_run_one_informer_and_can_run_it_again(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let others = cluster.api_aside::<ConfigMap>();
        for name in ["a", "b"] {
            others.create(&PostParams::default(), &config(name, "1")).await.expect("new");
        }
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        assert_eq!(watched.first_list().await, ["added a", "added b"]);
        let informer = watched.informer.clone();
        let stop = CancellationToken::new();
        let second = tokio::spawn(informer.run(stop.clone()));
        let mut events = informer.subscribe();
        watched.stop().await;
        let mut list = Vec::new();
        while !events.has_synced() {
            list.push(describe(&events.next().await.expect("it is run")));
        }
        list.sort();
        assert_eq!(list, ["added a", "added b", "synced"]);
        others.create(&PostParams::default(), &config("c", "1")).await.expect("new");
        assert_eq!(describe(&events.next().await.expect("it is run")), "added c");
        assert_eq!(cluster.connection().requests().len(), 1, "one list and watch for both");
        stop.cancel();
        second.await.expect("no panic").expect("stopped");
        assert!(events.next().await.is_none());

        others.delete("b", &DeleteParams::default()).await.expect("there");
        others.create(&PostParams::default(), &config("d", "1")).await.expect("new");
        let stop = CancellationToken::new();
        let third = tokio::spawn(informer.run(stop.clone()));
        let mut events = informer.subscribe();
        let mut list = Vec::new();
        while !events.has_synced() {
            list.push(describe(&events.next().await.expect("it is run")));
        }
        list.sort();
        assert_eq!(list, ["added a", "added c", "added d", "synced"]);
        assert_eq!(informer.store().len(), 3);
        assert_eq!(cluster.connection().requests().len(), 2, "it lists once more");
        stop.cancel();
        third.await.expect("no panic").expect("stopped");
    }
}
