//! The clean-up after a parent, and its children meanwhile.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use serde_json::json;
use windlass::{
    Watch,
    composite::{ChildConfig, CompositeController, FinalizeResponse, SyncResponse},
    finalizer::OnSelectorExit,
};

use super::rig::{
    BLOG, Composite, Rig, Running, Scripted, child, composite, desired, names, until,
};
use crate::{cluster::Cluster, watched::quick};

on_both_servers! {
    /// Rows: RO-16, RO-17, RO-19, RO-20, RO-21
    async fn a_parent_is_kept_until_its_clean_up_has_finished(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        rig.create(BLOG, Some("1")).await;
        rig.has_status(json!({ "children": ["ConfigMap blog"] })).await;
        let name = format!("composites-{}", cluster.namespace());
        let first = &rig.handler.calls(false)[0];
        assert_eq!(first.parent().finalizers(), std::slice::from_ref(&name), "before the first call");

        let syncs = rig.handler.calls(false).len();
        let unfinished = FinalizeResponse::retry_after(Duration::from_millis(200))
            .status(json!({ "note": "the disk is detached" }));
        *rig.handler.finalize.lock() = unfinished;
        rig.parents.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        rig.has_status(json!({ "note": "the disk is detached" })).await;
        until("repeated calls", async || rig.handler.calls(true).len() >= 3).await;
        assert_eq!(rig.handler.calls(false).len(), syncs, "`sync` is not called any more");
        let kept = rig.parents.get(BLOG).await.expect("it is kept");
        assert_eq!(kept.finalizers(), [name]);
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"), "its children stay");

        // A change of a child causes a call before the delay.
        *rig.handler.finalize.lock() = FinalizeResponse::retry_after(Duration::from_secs(3600));
        let calls = rig.handler.calls(true).len();
        until("a call", async || rig.handler.calls(true).len() > calls).await;
        *rig.handler.finalize.lock() = FinalizeResponse::finished();
        let changed = Patch::Merge(json!({ "data": { "other": "x" } }));
        rig.maps.patch(BLOG, &PatchParams::default(), &changed).await.expect("patched");
        rig.is_deleted(BLOG).await;
        rig.stop().await;
    }

    /// Rows: RO-17, RO-22
    async fn a_parent_that_is_deleted_while_no_controller_runs_gets_its_clean_up(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        rig.create(BLOG, Some("1")).await;
        rig.has_status(json!({ "children": ["ConfigMap blog"] })).await;
        rig.stop().await;
        let parents = cluster.api_aside::<Composite>();
        parents.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        parents.get(BLOG).await.expect("it is kept");

        let rig = Rig::start(&cluster).await;
        rig.is_deleted(BLOG).await;
        assert!(rig.handler.calls(false).is_empty());
        let calls = rig.handler.calls(true);
        let children = json!(calls[0].parent().status.as_ref().expect("a status").children);
        assert_eq!((calls.len(), children), (1, json!(["ConfigMap blog"])));
        rig.stop().await;

        // A function is a handler. Its clean-up finishes at once and leaves the status as it is.
        let watch = Watch::from(cluster.api::<Composite>().await).settings(quick);
        let name = format!("functions-{}", cluster.namespace());
        let controller = CompositeController::builder(cluster.client().await, name, watch)
            .child::<ConfigMap>(ChildConfig::apply())
            .build(desired)
            .expect("good settings");
        let running = Running::start(controller);
        let mut held = composite("held", None);
        held.metadata.finalizers = Some(vec!["test.windlass.dev/other".to_owned()]);
        parents.create(&PostParams::default(), &held).await.expect("a new object");
        let get = async || parents.get("held").await.expect("it is held");
        until("the status", async || get().await.status.is_some()).await;
        let before = serde_json::to_value(get().await.status).expect("JSON");
        parents.delete("held", &DeleteParams::default()).await.expect("marked");
        until("the release", async || get().await.finalizers().len() == 1).await;
        assert_eq!(serde_json::to_value(get().await.status).expect("JSON"), before);
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        parents.patch("held", &PatchParams::default(), &free).await.expect("freed");
        running.stop().await;
    }

    /// Rows: RO-18
    async fn a_parent_that_disappears_is_cleaned_up_once_and_nothing_is_written(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let parent = rig.create(BLOG, Some("1")).await;
        rig.has_status(json!({ "children": ["ConfigMap blog"] })).await;
        let wanted = FinalizeResponse::finished()
            .status(json!({ "note": "never written" }))
            .children(vec![child("ConfigMap", "orphan", "x")]);
        *rig.handler.finalize.lock() = wanted;
        let calls = rig.handler.calls(true).len();
        // The informer sees neither the mark nor the deletion, and lists again.
        let connection = cluster.connection();
        connection.hold();
        connection.cut();
        rig.parents
            .delete(BLOG, &DeleteParams::default())
            .await
            .expect("marked");
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        rig.parents
            .patch(BLOG, &PatchParams::default(), &free)
            .await
            .expect("freed");
        cluster.forget_history().await;
        connection.release();
        until("the clean-up", async || rig.handler.calls(true).len() > calls).await;
        let call = rig.handler.calls(true).pop().expect("a call");
        assert_eq!(Some(call.uid()), parent.uid().as_deref());
        assert_eq!(call.parent().spec.data.as_deref(), Some("1"));
        // A call for another parent comes after it.
        rig.create("last", Some("2")).await;
        until("the last child", async || rig.data("last").await.is_some()).await;
        assert_eq!(rig.handler.calls(true).len(), calls + 1, "once");
        assert_eq!(rig.data("orphan").await, None);
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"), "for the garbage collector");
        rig.stop().await;
    }

    /// Rows: RO-40
    async fn the_children_of_a_foreground_deletion_are_left_to_the_garbage_collector(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        for (name, policy) in [
            ("foreground", PropagationPolicy::Foreground),
            ("orphan", PropagationPolicy::Orphan),
        ] {
            rig.create(name, Some("1")).await;
            until("the child", async || rig.data(name).await.is_some()).await;
            let calls = rig.handler.calls(true).len();
            let wanted = FinalizeResponse::retry_after(Duration::from_millis(50))
                .status(json!({ "note": name }))
                .children(vec![child("ConfigMap", "new", "x")]);
            *rig.handler.finalize.lock() = wanted;
            let delete = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
            rig.parents.delete(name, &delete).await.expect("marked");
            until("calls", async || rig.handler.calls(true).len() >= calls + 3).await;
            let kept = rig.parents.get(name).await.expect("it is kept");
            assert_eq!(kept.status.and_then(|it| it.note).as_deref(), Some(name));
            *rig.handler.finalize.lock() = FinalizeResponse::finished();
            until("the release", async || {
                let found = rig.parents.get_opt(name).await.expect("an answer");
                found.is_none_or(|it| it.finalizers().iter().all(|it| !it.starts_with("composites")))
            })
            .await;
            assert_eq!(rig.data("new").await, None, "nothing is created");
            assert_eq!(rig.data(name).await.as_deref(), Some("1"), "nothing is pruned");
            let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            _ = rig.parents.patch(name, &PatchParams::default(), &free).await;
        }
        rig.stop().await;
    }

    /// Rows: BO-40
    async fn a_clean_up_in_steps_deletes_the_children_that_a_step_does_not_have(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        rig.handler.script(|request| {
            let mut response = SyncResponse::new(json!({ "children": names(request) }));
            response.add_child(child("ConfigMap", "first", "a"))?;
            response.add_child(child("ConfigMap", "second", "b"))?;
            Ok(response)
        });
        rig.create(BLOG, None).await;
        rig.has_status(json!({ "children": ["ConfigMap first", "ConfigMap second"] })).await;
        let hour = Duration::from_secs(3600);
        *rig.handler.finalize.lock() = FinalizeResponse::retry_after(hour)
            .children(vec![child("ConfigMap", "first", "changed")]);
        rig.parents.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        until("the first step", async || rig.data("second").await.is_none()).await;
        until("the change", async || rig.data("first").await.as_deref() == Some("changed")).await;
        rig.parents.get(BLOG).await.expect("it is kept");
        *rig.handler.finalize.lock() = FinalizeResponse::finished().children(Vec::new());
        // Any change of a child continues the clean-up. An event of the first step can do so too, and then
        // the child does not exist any more.
        let changed = Patch::Merge(json!({ "data": { "other": "x" } }));
        _ = rig.maps.patch("first", &PatchParams::default(), &changed).await;
        rig.is_deleted(BLOG).await;
        assert_eq!(rig.data("first").await, None);
        rig.stop().await;
    }

    /// Rows: RO-42
    async fn children_elsewhere_are_deleted_before_their_parent(cluster: Cluster) {
        let (running, parents, maps) = with_child_elsewhere(&cluster).await;

        // The child is kept by a finalizer, and keeps its parent.
        let finalizer = Patch::Merge(json!({ "metadata": { "finalizers": ["test.windlass.dev/keep"] } }));
        let params = PatchParams::default();
        maps.patch("far", &params, &finalizer).await.expect("patched");
        parents.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        until("the mark", async || {
            let far = maps.get("far").await.expect("it is kept");
            far.metadata.deletion_timestamp.is_some()
        })
        .await;
        // Real time: a parent that does not wait for its child would be deleted in it.
        tokio::time::sleep(Duration::from_millis(300)).await;
        parents.get(BLOG).await.expect("it waits for its child");
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        maps.patch("far", &params, &free).await.expect("freed");
        until("the deletion", async || parents.get_opt(BLOG).await.expect("an answer").is_none()).await;
        running.stop().await;
    }

    /// The informer sees neither the mark nor the deletion of the parent.
    ///
    /// Rows: RO-42
    async fn children_elsewhere_are_deleted_after_a_parent_that_disappeared(cluster: Cluster) {
        let (running, parents, maps) = with_child_elsewhere(&cluster).await;
        let connection = cluster.connection();
        connection.hold();
        connection.cut();
        parents.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        parents.patch(BLOG, &PatchParams::default(), &free).await.expect("freed");
        cluster.forget_history().await;
        connection.release();
        until("the deletion", async || maps.get_opt("far").await.expect("an answer").is_none()).await;
        running.stop().await;
    }

    /// Rows: RO-17
    async fn the_children_of_a_parent_that_leaves_the_selector_are_deleted_if_that_is_set(cluster: Cluster) {
        cluster.install(&Composite::crd()).await;
        let maps = cluster.api_aside::<ConfigMap>();
        let parents = cluster.api_aside::<Composite>();
        let handler = Scripted::new();
        let watch = Watch::from(cluster.api::<Composite>().await).settings(quick);
        let name = format!("composites-{}", cluster.namespace());
        let watch = watch.labels("app!=other");
        let controller = CompositeController::builder(cluster.client().await, name, watch)
            .child::<ConfigMap>(ChildConfig::apply())
            .on_selector_exit(OnSelectorExit::CleanUp)
            .build(handler.clone())
            .expect("good settings");
        let running = Running::start(controller);
        let parent = composite(BLOG, Some("1"));
        parents.create(&PostParams::default(), &parent).await.expect("a new object");
        until("the child", async || maps.get_opt(BLOG).await.expect("an answer").is_some()).await;
        let other = Patch::Merge(json!({ "metadata": { "labels": { "app": "other" } } }));
        parents.patch(BLOG, &PatchParams::default(), &other).await.expect("patched");
        until("the deletion", async || maps.get_opt(BLOG).await.expect("an answer").is_none()).await;
        until("the release", async || {
            parents.get(BLOG).await.expect("it exists").finalizers().is_empty()
        })
        .await;
        assert_eq!(handler.calls(true).len(), 1);
        // It is a new one.
        let back = Patch::Merge(json!({ "metadata": { "labels": null } }));
        parents.patch(BLOG, &PatchParams::default(), &back).await.expect("patched");
        until("the child", async || maps.get_opt(BLOG).await.expect("an answer").is_some()).await;
        running.stop().await;
    }
}

/// A running controller, whose parent has a child in another namespace.
async fn with_child_elsewhere(cluster: &Cluster) -> (Running, Api<Composite>, Api<ConfigMap>) {
    let other = format!("{}-other", cluster.namespace());
    crate::cluster::create_namespace(cluster.aside(), &other).await;
    let elsewhere = ChildConfig::apply().elsewhere();
    cluster.install(&Composite::crd()).await;
    let handler = Scripted::new();
    let namespace = other.clone();
    handler.script(move |request| {
        let mut response = SyncResponse::new(json!({ "children": names(request) }));
        let mut map = child("ConfigMap", "far", "a");
        map["metadata"]["namespace"] = namespace.clone().into();
        response.add_child(map)?;
        Ok(response)
    });
    let watch = Watch::from(cluster.api::<Composite>().await).settings(quick);
    let name = format!("composites-{}", cluster.namespace());
    let controller = CompositeController::builder(cluster.client().await, name, watch)
        .child::<ConfigMap>(elsewhere)
        .build(handler.clone())
        .expect("good settings");
    let running = Running::start(controller);
    let parents = cluster.api_aside::<Composite>();
    parents
        .create(&PostParams::default(), &composite(BLOG, None))
        .await
        .expect("a new object");
    let maps: Api<ConfigMap> = Api::namespaced(cluster.aside(), &other);
    until("the child", async || {
        maps.get_opt("far").await.expect("an answer").is_some()
    })
    .await;
    let far = maps.get("far").await.expect("it exists");
    assert!(far.owner_references().is_empty());
    until("the status", async || {
        let parent = parents.get(BLOG).await.expect("it exists");
        let children = parent.status.and_then(|it| it.children);
        children.is_some_and(|it| it == ["ConfigMap far"])
    })
    .await;
    (running, parents, maps)
}
