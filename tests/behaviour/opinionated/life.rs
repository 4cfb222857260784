//! The lifecycle of an object under one operator: from its finalizer to its removal.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::{
    Finalizers, Informer, InformerController, ObjectKey, OpinionatedWatcher, SimpleWatcher,
    finalizer::{DefaultFinalizerSupplier, DeleteOrder, FinalizerPatch, PatchClient},
};

use super::{
    configs::{OWN, create, delete, gone, has, merge},
    operator::{Log, Running, source},
};
use crate::{
    cluster::await_condition,
    kinds::{Gadget, GadgetSpec, config},
    watched::quick,
};

on_both_servers! {
    /// Rows: GA-74, GA-76, GA-79, GA-80, GA-82
    async fn a_watcher_has_the_finalizer_from_the_add_to_the_delete(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let watcher = log.opinionated_watcher(cluster.aside(), OWN);
        let running = Running::watch(source(&cluster).await, watcher);
        create(&configs, &config("a", "1")).await;
        has(&configs, "a", &[OWN]).await;
        assert_eq!(log.lines(), ["add a=1"]);
        merge(&configs, "a", json!({ "data": { "value": "2" } })).await;
        log.until("update a=2").await;
        log.fail(2);
        delete(&configs, "a").await;
        gone(&configs, "a").await;
        // After this event, all earlier events have been delivered.
        create(&configs, &config("z", "1")).await;
        has(&configs, "z", &[OWN]).await;
        let deletes = ["delete a=2"; 3];
        assert_eq!(log.lines(), [&["add a=1", "update a=2"], &deletes[..], &["add z=1"]].concat());
        running.stop().await;
    }

    /// Rows: GA-68, GA-90
    async fn a_reconciler_has_the_finalizer_from_the_create_to_the_delete(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let reconciler = log.opinionated_reconciler(cluster.aside(), OWN);
        let running = Running::reconcile(source(&cluster).await, reconciler);
        create(&configs, &config("a", "1")).await;
        has(&configs, "a", &[OWN]).await;
        merge(&configs, "a", json!({ "data": { "value": "2" } })).await;
        log.until("updated a=2").await;
        log.fail(2);
        delete(&configs, "a").await;
        gone(&configs, "a").await;
        create(&configs, &config("z", "1")).await;
        has(&configs, "z", &[OWN]).await;
        let deletes = ["deleted a=2"; 3];
        assert_eq!(
            log.lines(),
            [&["created a=1", "updated a=2"], &deletes[..], &["created z=1"]].concat()
        );
        running.stop().await;
    }

    async fn the_managed_fields_name_the_writer_of_the_finalizer(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let reconciler = log.opinionated_reconciler(cluster.aside(), OWN);
        let running = Running::reconcile(source(&cluster).await, reconciler);
        create(&configs, &config("a", "1")).await;
        has(&configs, "a", &[OWN]).await;
        let object = configs.get("a").await.expect("it exists");
        let entries = object.metadata.managed_fields.unwrap_or_default().into_iter();
        let of_finalizers = |fields: &Value| fields["f:metadata"]["f:finalizers"].is_object();
        let writers: Vec<_> = entries
            .filter(|entry| entry.fields_v1.as_ref().is_some_and(|it| of_finalizers(&it.0)))
            .map(|entry| entry.manager.unwrap_or_default())
            .collect();
        assert_eq!(writers, OWN.split('/').take(1).collect::<Vec<_>>());
        running.stop().await;
    }

    /// Rows: GA-69
    async fn with_the_documented_order_the_delete_follows_the_removal_of_the_finalizer(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let reconciler = log
            .opinionated_reconciler(cluster.aside(), OWN)
            .delete_order(DeleteOrder::AfterRemoval);
        let running = Running::reconcile(source(&cluster).await, reconciler);
        create(&configs, &config("a", "1")).await;
        has(&configs, "a", &[OWN]).await;
        log.fail(1);
        delete(&configs, "a").await;
        // The object was removed although the call failed. The call is retried.
        gone(&configs, "a").await;
        log.until("deleted a=1").await;
        create(&configs, &config("z", "1")).await;
        has(&configs, "z", &[OWN]).await;
        log.until_times(2, "deleted a=1").await;
        running.stop().await;
    }

    /// Rows: GA-11, GA-79, GA-81, GA-84
    async fn a_custom_resource_accepts_the_default_finalizer(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let gadgets = cluster.api_aside::<Gadget>();
        let (sender, mut receiver) = mpsc::channel(16);
        let update_sender = sender.clone();
        let watcher = SimpleWatcher::new()
            .on_add(move |gadget: Arc<Gadget>| {
                let sender = sender.clone();
                async move { sender.send(format!("add {}", gadget.spec.size)).await }
            })
            .on_update(move |old: Arc<Gadget>, new: Arc<Gadget>| {
                let sender = update_sender.clone();
                let line = format!("update {} {}", old.spec.size, new.spec.size);
                async move { sender.send(line).await }
            });
        let finalizers = Finalizers::new(cluster.aside(), DefaultFinalizerSupplier);
        let finalizers = finalizers.expect("a finalizer");
        assert_eq!(finalizers.name().as_str(), "operator.v1.Gadget.test.windlass.dev");
        let informer = Informer::new(quick(cluster.api::<Gadget>().await));
        let controller = InformerController::new();
        let opinionated = OpinionatedWatcher::new(finalizers, watcher);
        let gadgets_kind = controller.kind("gadgets").expect("a new kind");
        controller.add_watcher(&gadgets_kind, opinionated).expect("added");
        controller.add_informer(&gadgets_kind, &informer).expect("added");
        let stop = tokio_util::sync::CancellationToken::new();
        let running = tokio::spawn({
            let (controller, stop) = (controller.clone(), stop.clone());
            async move { controller.run(stop).await }
        });
        let gadget = Gadget::new("a", GadgetSpec { size: 1 });
        gadgets.create(&PostParams::default(), &gadget).await.expect("new");
        let held = |gadget: Option<&Gadget>| {
            gadget.is_some_and(|it| it.finalizers() == ["operator.v1.Gadget.test.windlass.dev"])
        };
        await_condition(gadgets.clone(), "a", held).await.expect("held");
        // The status and labels are no news; the spec is.
        let (merge, params) = (|patch: Value| Patch::Merge(patch), PatchParams::default());
        let ready = merge(json!({ "status": { "ready": true } }));
        gadgets.patch_status("a", &params, &ready).await.expect("there");
        let label = merge(json!({ "metadata": { "labels": { "a": "b" } } }));
        gadgets.patch("a", &params, &label).await.expect("there");
        let size = merge(json!({ "spec": { "size": 2 } }));
        gadgets.patch("a", &params, &size).await.expect("there");
        assert_eq!(receiver.recv().await.as_deref(), Some("add 1"));
        assert_eq!(receiver.recv().await.as_deref(), Some("update 1 2"));
        gadgets.delete("a", &DeleteParams::default()).await.expect("there");
        let gone = |gadget: Option<&Gadget>| gadget.is_none();
        await_condition(gadgets, "a", gone).await.expect("gone");
        stop.cancel();
        running.await.expect("no panic").expect("it stops");
    }

    /// What a patch client does by default where it cannot get: it patches nothing.
    async fn a_patch_without_a_change_returns_the_object(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        create(&configs, &config("a", "1")).await;
        let before = configs.get("a").await.expect("there");
        let key = ObjectKey::new("a").within(cluster.namespace());
        let client = cluster.aside();
        let answer = PatchClient::<ConfigMap>::patch(&client, &key, &FinalizerPatch::empty()).await;
        assert_eq!(answer.expect("there").resource_version(), before.resource_version());
        // An `Api` of all namespaces finds the object in its own.
        let all: Api<ConfigMap> = Api::all(cluster.aside());
        for answer in [
            PatchClient::get(&all, &key).await,
            PatchClient::get(&configs, &key).await,
            PatchClient::<ConfigMap>::get(&client, &key).await,
        ] {
            assert_eq!(answer.expect("there").uid(), before.uid());
        }
    }
}
