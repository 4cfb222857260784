//! What is written for the children of a response, and what is left alone.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{
    Failure,
    composite::{SyncRequest, SyncResponse},
};

use super::rig::{BLOG, Composite, Rig, child, names, until};

on_both_servers! {
    /// Rows: RO-03, RO-06, RO-07, RO-08, RO-09, RO-10, RO-15, RO-28, RO-37
    async fn children_and_status_follow_from_the_parent_and_its_children(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let parent = rig.create(BLOG, Some("1")).await;
        // The status has the child, so that `sync` was called again after the child was created.
        rig.has_status(json!({ "children": ["ConfigMap blog"], "observedGeneration": 1 })).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"));
        let calls = rig.handler.calls(false);
        assert_eq!(calls[0].name(), BLOG);
        assert_eq!(calls[0].namespace(), Some(cluster.namespace()));
        assert_eq!(Some(calls[0].uid()), parent.uid().as_deref());
        assert_eq!(calls[0].generation(), 1);
        assert!(calls[0].children().is_empty());

        rig.change(Some("2")).await;
        rig.has_status(json!({ "observedGeneration": 2 })).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("2"));
        let last = rig.handler.calls(false).pop().expect("a call");
        assert_eq!(last.parent().spec.data.as_deref(), Some("2"));

        // A foreign key of the status stays, and a key that the response does not have is removed.
        let foreign = Patch::Merge(json!({ "status": { "error": "by hand" } }));
        let patched = rig.parents.patch_status(BLOG, &PatchParams::default(), &foreign).await;
        patched.expect("the status");
        rig.handler.script(|request| {
            let mut response = SyncResponse::new(json!({ "note": "other keys" }));
            response.add_child(child("ConfigMap", "other", "3"))?;
            if request.parent().spec.data.is_none() {
                return Ok(SyncResponse::without_status());
            }
            Ok(response)
        });
        rig.change(Some("3")).await;
        let expected = json!({
            "note": "other keys", "error": "by hand", "children": null, "observedGeneration": 3,
        });
        rig.has_status(expected).await;
        assert_eq!(rig.data("other").await.as_deref(), Some("3"));
        assert_eq!(rig.data(BLOG).await, None, "it was deleted before the status was written");

        rig.change(None).await;
        until("the deletion", async || rig.data("other").await.is_none()).await;
        rig.stop().await;
    }

    /// Rows: RO-04, RO-33, RO-38
    async fn a_request_has_the_children_of_this_parent_and_no_others(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let both = |request: &SyncRequest<Composite>| {
            let mut response = SyncResponse::new(json!({ "children": names(request) }));
            response.add_child(child("ConfigMap", request.name(), "a"))?;
            response.add_child(child("Secret", request.name(), "b"))?;
            Ok::<_, Failure>(response)
        };
        rig.handler.script(both);
        rig.create("other", None).await;
        let parent = rig.create(BLOG, None).await;
        rig.has_status(json!({ "children": ["ConfigMap blog", "Secret blog"] })).await;
        let last = |name: &str| {
            let calls = rig.handler.calls(false).into_iter().rev();
            calls.into_iter().find(|it| it.name() == name).expect("a call")
        };
        let children = last(BLOG).children().clone();
        let maps = children.of::<ConfigMap>();
        assert_eq!((maps.count(), children.of::<Secret>().count(), children.count()), (1, 1, 2));
        assert!(maps.exists(BLOG) && !maps.exists("other"));
        let map = maps.get(BLOG).expect("it exists").expect("it decodes");
        let first = maps.first().expect("it exists").expect("it decodes");
        assert_eq!(map, first);
        assert_eq!(map.data.expect("data")["value"], "a");
        assert_eq!(maps.iter().count(), 1);
        assert_eq!(children.of_type("v1", "Secret").iter().next(), children.of_type("v1", "Secret").first());
        assert!(children.of::<k8s_openapi::api::core::v1::Pod>().is_empty());
        assert!(children.of::<Secret>().raw().get("missing").is_none());

        // A child that is being deleted is in the request.
        let finalizer = Patch::Merge(json!({ "metadata": { "finalizers": ["test.windlass.dev/keep"] } }));
        let params = PatchParams::default();
        rig.maps.patch(BLOG, &params, &finalizer).await.expect("patched");
        rig.maps.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        until("a call with the marked child", async || {
            let children = last(BLOG).children().clone();
            let map = children.of::<ConfigMap>().get(BLOG);
            map.is_some_and(|it| it.expect("it decodes").metadata.deletion_timestamp.is_some())
        })
        .await;

        // Its parent is replaced by one of the same name, whose child it is not.
        rig.parents.delete(BLOG, &DeleteParams::default()).await.expect("deleted");
        rig.is_deleted(BLOG).await;
        rig.handler.script(|request| {
            Ok(SyncResponse::new(json!({ "children": names(request), "note": "second" })))
        });
        let second = rig.create(BLOG, None).await;
        assert_ne!(second.uid(), parent.uid());
        rig.has_status(json!({ "note": "second", "children": [] })).await;
        let kept = rig.maps.get(BLOG).await.expect("it is kept by its finalizer");
        let owner = &kept.owner_references()[0];
        assert_eq!(Some(&owner.uid), parent.uid().as_ref());
        rig.secrets.get(BLOG).await.expect("nothing is pruned of another parent");
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        rig.maps.patch(BLOG, &params, &free).await.expect("freed");
        rig.stop().await;
    }

    /// Rows: RO-26, RO-27, RO-41
    async fn a_child_keeps_its_labels_and_the_fields_of_others_and_comes_back(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let list = Arc::new(Mutex::new(json!(["a", "b"])));
        let finalizers = Arc::clone(&list);
        rig.handler.script(move |request| {
            let mut response = SyncResponse::new(json!({ "children": names(request) }));
            let mut map = child("ConfigMap", "web", "a");
            let all = finalizers.lock().clone();
            let all = all.as_array().into_iter().flatten().filter_map(Value::as_str);
            let all: Vec<_> = all.map(|it| format!("test.windlass.dev/{it}")).collect();
            map["metadata"]["finalizers"] = all.into();
            response.add_child(map)?;
            Ok(response)
        });
        let parent = rig.create(BLOG, None).await;
        rig.has_status(json!({ "children": ["ConfigMap web"], "observedGeneration": 1 })).await;
        let created = rig.maps.get("web").await.expect("it exists");
        let params = PatchParams { field_manager: Some("another".into()), ..PatchParams::default() };

        // Without its labels it is not selected. They come back, on the same object.
        let unlabelled = Patch::Merge(json!({ "metadata": { "labels": null } }));
        rig.maps.patch("web", &params, &unlabelled).await.expect("patched");
        until("the labels", async || {
            let map = rig.maps.get("web").await.expect("it exists");
            map.labels().get("windlass.dev/parent-uid") == parent.uid().as_ref()
        })
        .await;
        let restored = rig.maps.get("web").await.expect("it exists");
        assert_eq!(restored.uid(), created.uid());
        let manager = format!("composites-{}", cluster.namespace());
        assert_eq!(restored.labels()["app.kubernetes.io/managed-by"], manager);
        assert_eq!(Some(&restored.owner_references()[0].uid), parent.uid().as_ref());

        // Fields and items of others stay, and an emptied list becomes empty.
        let theirs = Patch::Merge(json!({ "data": { "theirs": "x" } }));
        rig.maps.patch("web", &params, &theirs).await.expect("patched");
        let apply = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "web", "finalizers": ["test.windlass.dev/theirs"] },
        });
        let apply = Patch::Apply(apply);
        rig.maps.patch("web", &params, &apply).await.expect("applied");
        *list.lock() = json!([]);
        rig.change(Some("again")).await;
        rig.has_status(json!({ "observedGeneration": 2 })).await;
        let map = rig.maps.get("web").await.expect("it exists");
        assert_eq!(map.finalizers(), ["test.windlass.dev/theirs"]);
        assert_eq!(map.data.expect("data")["theirs"], "x");

        // A child that is being deleted is left alone, and created again after that.
        rig.maps.delete("web", &DeleteParams::default()).await.expect("marked");
        rig.change(Some("third")).await;
        rig.has_status(json!({ "observedGeneration": 3 })).await;
        let marked = rig.maps.get("web").await.expect("it is kept");
        assert!(marked.metadata.deletion_timestamp.is_some());
        assert_eq!(marked.uid(), created.uid());
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        rig.maps.patch("web", &PatchParams::default(), &free).await.expect("freed");
        until("a new child", async || {
            let map = rig.maps.get_opt("web").await.expect("an answer");
            map.is_some_and(|it| it.uid() != created.uid())
        })
        .await;
        rig.stop().await;
    }

    /// Rows: RO-31, RO-39
    async fn an_invalid_response_writes_nothing(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let invalid = Arc::new(Mutex::new(Value::Null));
        let second = Arc::clone(&invalid);
        rig.handler.script(move |_| {
            let mut response = SyncResponse::new(json!({ "note": "written" }));
            response.add_child(child("ConfigMap", "valid", "a"))?;
            response.add_child(second.lock().clone())?;
            Ok(response)
        });
        let cluster_scoped = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x" } });
        let mut elsewhere = child("ConfigMap", "web", "a");
        elsewhere["metadata"]["namespace"] = "default".into();
        let mut generated = child("ConfigMap", "web", "a");
        generated["metadata"] = json!({ "generateName": "web-" });
        let unnamed = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
        rig.create(BLOG, None).await;
        for bad in [
            cluster_scoped, elsewhere, generated, unnamed, json!({}), json!("text"),
            child("ConfigMap", "valid", "b"),
        ] {
            *invalid.lock() = bad.clone();
            let calls = rig.handler.calls(false).len();
            rig.change(Some(&bad.to_string())).await;
            until("calls", async || rig.handler.calls(false).len() >= calls + 2).await;
            assert_eq!(rig.data("valid").await, None, "{bad}");
            assert_eq!(rig.status().await, Value::Null, "{bad}");
        }
        // An object that was not created for the parent is neither changed nor deleted.
        let theirs = json!({ "metadata": { "name": "theirs" }, "data": { "value": "theirs" } });
        let theirs = serde_json::from_value(theirs).expect("a config map");
        rig.maps.create(&PostParams::default(), &theirs).await.expect("a new object");
        *invalid.lock() = child("ConfigMap", "theirs", "ours");
        rig.has_status(json!({ "note": "written", "observedGeneration": null })).await;
        assert_eq!(rig.data("valid").await.as_deref(), Some("a"), "the others proceed");
        assert_eq!(rig.data("theirs").await.as_deref(), Some("theirs"));
        rig.stop().await;
    }
}
