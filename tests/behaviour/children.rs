//! Declarative children: what is written for them, and what is left alone.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::Body,
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use windlass::{
    ObjectKey,
    store::{LazyObject, ObjectIdentity as _},
};
use windlass_controller::{
    ChildError, Deleted, Desired, UpdateStrategy,
    children::{
        Applied, ChildKeys, ChildKind, ChildMemory, ChildOutcome, Children, Parent, Pruned,
    },
};

use crate::{
    cluster::Cluster,
    watched::{Watched, quick},
};

/// Writes the children of one config map, `blog`.
struct Writer<C: windlass::store::Stored> {
    client: Client,
    /// The requests of `client`, as `METHOD path?query`.
    requests: Arc<Mutex<Vec<String>>>,
    kind: ChildKind,
    parent: Parent,
    memory: Arc<parking_lot::Mutex<ChildMemory>>,
    children: Watched<C>,
    api: Api<C>,
}

impl<C> Writer<C>
where
    C: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    async fn new(cluster: &Cluster) -> Self {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, through) = (Arc::clone(&requests), cluster.plain().await);
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri());
            log.lock()
                .expect("no thread panics with the lock")
                .push(line);
            let through = through.clone();
            async move { through.send(request).await }
        });
        let maps = cluster.api_aside::<ConfigMap>();
        let blog = json!({ "metadata": { "name": "blog" } });
        let blog = serde_json::from_value(blog).expect("a config map");
        let blog = maps.create(&PostParams::default(), &blog).await;
        let mut children = Watched::start(quick(cluster.api::<C>().await));
        children.first_list().await;
        Self {
            client: Client::new(service, cluster.namespace()),
            requests,
            kind: ChildKind::of::<C>(&()),
            parent: Parent::of(&blog.expect("the parent"), &(), "websites").expect("a uid"),
            memory: Arc::default(),
            children,
            api: cluster.api_aside(),
        }
    }

    fn children(&self) -> Children {
        Children {
            client: self.client.clone(),
            parent: self.parent.clone(),
            memory: Arc::clone(&self.memory),
        }
    }

    /// Applies `desired` to the newest state in the store.
    async fn apply(&self, desired: Desired<C>) -> Result<Applied<C>, ChildError> {
        self.caught_up().await;
        self.requests
            .lock()
            .expect("no thread panics with the lock")
            .clear();
        let store = self.children.informer.store();
        self.apply_to(desired, |key| store.get_lazy(key)).await
    }

    /// Applies `desired` to the object that `stored` returns.
    async fn apply_to(
        &self,
        desired: Desired<C>,
        stored: impl FnOnce(&ObjectKey) -> Option<LazyObject<C>>,
    ) -> Result<Applied<C>, ChildError> {
        let (children, known) = (self.children(), &mut ChildKeys::new());
        let child = children.parent.check_one(&self.kind, desired, known)?;
        children.apply(&child, stored(child.key())).await
    }

    /// Applies `desired`, and returns what was done and the methods of its requests.
    async fn done(&self, desired: Desired<C>) -> (ChildOutcome, String) {
        let applied = self.apply(desired).await.expect("applied");
        (applied.outcome, self.methods())
    }

    fn methods(&self) -> String {
        let requests = self
            .requests
            .lock()
            .expect("no thread panics with the lock");
        let methods = requests.iter().filter_map(|line| line.split(' ').next());
        methods.collect::<Vec<_>>().join(" ")
    }

    async fn prune(&self, kept: &[&str]) -> Result<Pruned, ChildError> {
        self.caught_up().await;
        let store = self.children.informer.store();
        let is_kept = |key: &ObjectKey| kept.contains(&key.name());
        self.children()
            .prune(&self.kind, store.list_lazy(), is_kept)
            .await
    }

    /// Waits until the store has what the server has.
    async fn caught_up(&self) {
        loop {
            let listed = self
                .api
                .list(&kube::api::ListParams::default())
                .await
                .expect("a list");
            let store = self.children.informer.store();
            let has = |object: &C| {
                let stored = store.get_lazy(&object.key());
                let version = stored.as_ref().and_then(|it| it.resource_version());
                version == object.meta().resource_version.as_deref()
            };
            if listed.items.iter().all(has) && store.len() == listed.items.len() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn merge(&self, name: &str, change: Value) -> C {
        let params = PatchParams {
            field_manager: Some("another".to_owned()),
            ..PatchParams::default()
        };
        let merged = self.api.patch(name, &params, &Patch::Merge(change)).await;
        merged.expect("merged")
    }

    async fn get(&self, name: &str) -> Value {
        let found = self.api.get(name).await.expect("it exists");
        serde_json::to_value(found).expect("JSON")
    }

    async fn names(&self) -> String {
        let listed = self
            .api
            .list(&kube::api::ListParams::default())
            .await
            .expect("a list");
        let mut names: Vec<_> = listed.items.iter().map(|it| it.name().to_owned()).collect();
        names.sort();
        names.join(" ")
    }
}

fn map(data: impl Into<Value>) -> Desired<ConfigMap> {
    Desired::json(json!({ "metadata": { "name": "web" }, "data": data.into() }))
}

/// A Deployment that the API server changes in many ways: defaults, quantities, nulls, empty values.
fn deployment(image: &str) -> Desired<Deployment> {
    let container = json!({
        "name": "app", "image": image, "command": [], "env": [], "volumeMounts": null,
        "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" }, "requests": {} },
        "ports": [{ "containerPort": 80 }],
    });
    let labels = json!({ "app": "web" });
    Desired::json(json!({
        "metadata": { "name": "web", "labels": {}, "annotations": null },
        "spec": {
            "replicas": 2, "paused": null, "strategy": {},
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels, "creationTimestamp": null },
                "spec": {
                    "containers": [container], "nodeSelector": {}, "tolerations": [],
                    "volumes": [{ "name": "tmp", "emptyDir": {} }],
                },
            },
        },
    }))
}

on_both_servers! {
    /// Rows: BO-12, BO-13, RO-11, RO-27
    async fn an_unchanged_child_causes_no_request_and_a_changed_field_is_reverted(cluster: Cluster) {
        use ChildOutcome::{Changed, Created, Unchanged};

        let writer = Writer::<Deployment>::new(&cluster).await;
        // It is read first, because an apply would take over the object of another client.
        assert_eq!(writer.done(deployment("a")).await, (Created, "GET PATCH".into()));
        let none = (Unchanged, String::new());
        for _ in 0..3 {
            assert_eq!(writer.done(deployment("a")).await, none);
        }

        // Fields of others: no request, or one that changes nothing.
        let before = writer.merge("web", json!({ "spec": { "minReadySeconds": 7 } })).await;
        assert_eq!(writer.done(deployment("a")).await, none);
        let status = json!({ "status": { "replicas": 2, "observedGeneration": 1 } });
        let params = PatchParams::default();
        let patched = writer.api.patch_status("web", &params, &Patch::Merge(status)).await;
        patched.expect("the status");
        assert_eq!(writer.done(deployment("a")).await, none);
        let proxy = Patch::Strategic(json!({
            "spec": { "template": { "spec": { "containers": [{ "name": "proxy", "image": "p" }] } } },
        }));
        let injected = writer.api.patch("web", &params, &proxy).await.expect("injected");
        let (outcome, methods) = writer.done(deployment("a")).await;
        assert_eq!((outcome, &*methods), (Unchanged, "PATCH"));
        assert_eq!(writer.done(deployment("a")).await, none);
        let after = writer.get("web").await;
        assert_eq!(after["metadata"]["resourceVersion"], injected.resource_version().expect("it"));
        assert_ne!(before.resource_version(), injected.resource_version());

        // Our field: reverted, and the fields of others stay.
        writer.merge("web", json!({ "spec": { "replicas": 9 } })).await;
        assert_eq!(writer.done(deployment("a")).await, (Changed, "PATCH".into()));
        let after = writer.get("web").await;
        assert_eq!(after["spec"]["replicas"], 2);
        assert_eq!(after["spec"]["minReadySeconds"], 7);
        let containers = after["spec"]["template"]["spec"]["containers"].as_array();
        assert_eq!(containers.map(Vec::len), Some(2), "the injected container is still there");
        assert_eq!(writer.done(deployment("a")).await, none);
        // A new desired state, and a field that is not desired any more.
        assert_eq!(writer.done(deployment("b")).await, (Changed, "PATCH".into()));
        let fewer = json!({
            "metadata": { "name": "web" },
            "spec": {
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "app", "image": "b" }] },
                },
            },
        });
        assert_eq!(writer.done(Desired::json(fewer.clone())).await.0, Changed);
        let pod = writer.get("web").await["spec"]["template"]["spec"].clone();
        assert!(pod.get("volumes").is_none(), "{pod}");
        assert!(pod["containers"][0]["resources"].get("limits").is_none(), "{pod}");
        assert_eq!(writer.done(Desired::json(fewer)).await, none);
    }

    /// An unchanged apply was reported to store a new version each second (kubernetes#95460). It does
    /// not for these objects on the tested servers, and an unchanged child is not applied anyway.
    async fn an_unchanged_apply_stores_no_new_version(cluster: Cluster) {
        let namespace = cluster.namespace();
        let template = json!({
            "metadata": { "labels": { "app": "web" }, "creationTimestamp": null },
            "spec": { "containers": [{
                "name": "app", "image": "a", "ports": [{ "containerPort": 80 }, { "containerPort": 80, "protocol": "UDP" }],
                "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } }, "env": [{ "name": "A" }],
            }] },
        });
        let selector = json!({ "matchLabels": { "app": "web" } });
        for (path, mut body) in [
            ("/apis/apps/v1", json!({
                "kind": "StatefulSet", "spec": {
                    "serviceName": "web", "selector": selector, "template": template,
                    "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1024Mi" } },
                    } }],
                },
            })),
            ("/apis/apps/v1", json!({ "kind": "Deployment", "spec": { "selector": selector, "template": template, "strategy": {} } })),
            ("/api/v1", json!({ "kind": "Service", "spec": { "clusterIP": "None", "ports": [{ "port": 80 }], "selector": { "app": "web" } } })),
            ("/api/v1", json!({ "kind": "ConfigMap", "data": { "a": "1" }, "binaryData": {} })),
        ] {
            let plural = format!("{}s", body["kind"].as_str().expect("a kind").to_lowercase());
            body["apiVersion"] = path.trim_start_matches("/apis/").trim_start_matches("/api/").into();
            body["metadata"] = json!({ "name": "unchanged", "creationTimestamp": null });
            let url = format!("{path}/namespaces/{namespace}/{plural}/unchanged?fieldManager=tests&force=true");
            let mut versions = Vec::new();
            for _ in 0..3 {
                let request = http::Request::patch(&url)
                    .header("content-type", "application/apply-patch+yaml")
                    .body(body.to_string().into_bytes());
                let applied = cluster.aside().request::<Value>(request.expect("a request")).await;
                versions.push(applied.expect("it is applied")["metadata"]["resourceVersion"].clone());
                // The times of managed fields are seconds.
                tokio::time::sleep(Duration::from_millis(1100)).await;
            }
            versions.dedup();
            assert_eq!(versions.len(), 1, "{plural}: {versions:?}");
        }
    }

    /// Rows: BO-13
    async fn after_a_restart_each_child_is_applied_once(cluster: Cluster) {
        let mut writer = Writer::<ConfigMap>::new(&cluster).await;
        writer.done(map(json!({ "a": "1", "b": "2" }))).await;
        writer.memory = Arc::default();
        // A field that the program before the restart has set and this one does not know.
        let (outcome, methods) = writer.done(map(json!({ "a": "1" }))).await;
        assert_eq!((outcome, &*methods), (ChildOutcome::Changed, "PATCH"));
        assert_eq!(writer.get("web").await["data"], json!({ "a": "1" }));

        writer.memory = Arc::default();
        let (outcome, methods) = writer.done(map(json!({ "a": "1" }))).await;
        assert_eq!((outcome, &*methods), (ChildOutcome::Unchanged, "PATCH"));
        let none = (ChildOutcome::Unchanged, String::new());
        assert_eq!(writer.done(map(json!({ "a": "1" }))).await, none);
    }

    /// Rows: BO-53, RO-26
    async fn a_child_has_labels_an_annotation_and_an_owner_which_are_restored(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        writer.done(map(json!({ "a": "1" }))).await;
        let created = writer.get("web").await["metadata"].clone();
        let uid = writer.parent.uid();
        assert_eq!(created["labels"]["windlass.dev/parent-uid"], uid);
        assert_eq!(created["labels"]["app.kubernetes.io/managed-by"], "websites");
        let namespace = cluster.namespace();
        let annotation = format!("ConfigMap/{namespace}/web ConfigMap/{namespace}/blog");
        assert_eq!(created["annotations"]["windlass.dev/child"], annotation);
        let owner = &created["ownerReferences"][0];
        assert_eq!((&owner["uid"], &owner["controller"]), (&json!(uid), &json!(true)));
        assert!(owner.get("blockOwnerDeletion").is_none());

        for lost in [
            json!({ "labels": { "windlass.dev/parent-uid": null } }),
            json!({ "annotations": null }),
            json!({ "ownerReferences": null }),
            json!({ "ownerReferences": null, "labels": null, "annotations": null }),
        ] {
            writer.merge("web", json!({ "metadata": lost })).await;
            let (outcome, _) = writer.done(map(json!({ "a": "1" }))).await;
            assert_eq!(outcome, ChildOutcome::Changed, "{lost}");
            let metadata = writer.get("web").await["metadata"].clone();
            for field in ["labels", "annotations", "ownerReferences"] {
                assert_eq!(metadata[field], created[field], "{lost}");
            }
        }
    }

    /// Rows: RO-39
    async fn an_object_of_others_is_neither_changed_nor_deleted(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        let create = |name: &str, owner: Value| {
            let object = json!({
                "metadata": { "name": name, "ownerReferences": owner }, "data": { "a": "theirs" },
            });
            let object: ConfigMap = serde_json::from_value(object).expect("a config map");
            let api = writer.api.clone();
            async move { api.create(&PostParams::default(), &object).await.expect("created") }
        };
        let owner = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "shop", "uid": "u-9", "controller": true,
        }]);
        let free = create("web", Value::Null).await;
        let controlled = create("owned", owner.clone()).await;
        let desired = |name: &str| map(json!({ "a": "ours" })).named(name);

        let refused = writer.apply(desired("web")).await.expect_err("it is not ours");
        assert!(matches!(refused, ChildError::NotOurs { .. }), "{refused}");
        assert!(refused.to_string().contains("Desired::adopt"), "{refused}");
        assert_eq!(writer.methods(), "");
        for desired in [desired("owned"), desired("owned").adopt()] {
            let refused = writer.apply(desired).await.expect_err("it is not ours");
            assert!(matches!(refused, ChildError::Controlled { .. }), "{refused}");
            assert!(refused.to_string().contains("belongs to ConfigMap shop"), "{refused}");
            assert_eq!(writer.methods(), "");
        }
        for object in [&free, &controlled] {
            let deleted = writer.children().delete(&writer.kind, object.meta()).await;
            deleted.expect_err("it is not ours");
        }
        assert_eq!(writer.prune(&[]).await.expect("pruned").deleted, []);
        assert_eq!(writer.names().await, "blog owned web");

        // Another object takes it, and the store does not show that yet.
        writer.caught_up().await;
        let stale = writer.children.informer.store().get_lazy(&free.key());
        writer.merge("web", json!({ "metadata": { "ownerReferences": owner } })).await;
        let adopted = writer.apply_to(desired("web").adopt(), |_| stale);
        let conflict = adopted.await.expect_err("another object controls it");
        assert!(conflict.is_conflict(), "{conflict}");
        assert_eq!(writer.get("web").await["metadata"]["ownerReferences"][0]["uid"], "u-9");
        writer.merge("web", json!({ "metadata": { "ownerReferences": null } })).await;

        writer.done(desired("web").adopt()).await;
        let adopted = writer.get("web").await;
        assert_eq!(adopted["data"]["a"], "ours");
        assert_eq!(adopted["metadata"]["uid"], free.uid().expect("a uid"));
        assert_eq!(adopted["metadata"]["ownerReferences"][0]["uid"], writer.parent.uid());
    }

    /// Rows: BO-14, BO-48, RO-10
    async fn what_is_not_desired_any_more_is_deleted_and_nothing_else(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        for name in ["a", "b", "kept", "c"] {
            writer.done(map(json!({})).named(name)).await;
        }
        writer.merge("kept", json!({ "metadata": { "annotations": { "windlass.dev/keep": "yes" } } })).await;
        // Another client copies the labels of a child to another object.
        let labels = writer.get("a").await["metadata"]["labels"].clone();
        let annotations = writer.get("a").await["metadata"]["annotations"].clone();
        let copy = json!({ "metadata": { "name": "copy", "labels": labels, "annotations": annotations } });
        let copy: ConfigMap = serde_json::from_value(copy).expect("a config map");
        writer.api.create(&PostParams::default(), &copy).await.expect("created");

        let pruned = writer.prune(&["b"]).await.expect("pruned");
        let mut deleted: Vec<_> = pruned.deleted.iter().map(|it| it.name().to_owned()).collect();
        deleted.sort();
        assert_eq!(deleted, ["a", "c"]);
        assert_eq!(writer.names().await, "b blog copy kept");

        // A decision about the first object does not delete its successor.
        let first = writer.api.get("b").await.expect("it exists");
        writer.api.delete("b", &DeleteParams::default()).await.expect("deleted");
        writer.caught_up().await;
        writer.done(map(json!({})).named("b")).await;
        let deleted = writer.children().delete(&writer.kind, first.meta()).await;
        assert_eq!(deleted.expect("answered"), Deleted::AlreadyGone);
        let second = writer.api.get("b").await.expect("it exists");
        assert_ne!(second.uid(), first.uid());
        let deleted = writer.children().delete(&writer.kind, second.meta()).await;
        assert_eq!(deleted.expect("deleted"), Deleted::Deleted);
        let deleted = writer.children().delete(&writer.kind, second.meta()).await;
        assert_eq!(deleted.expect("answered"), Deleted::AlreadyGone);
    }

    async fn a_prune_decision_about_an_older_version_deletes_nothing(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        writer.done(map(json!({}))).await;
        writer.caught_up().await;
        let stored = writer.children.informer.store().list_lazy();
        writer.merge("web", json!({ "data": { "a": "new" } })).await;
        let pruned = writer.children().prune(&writer.kind, stored, |_| false).await;
        let conflict = pruned.expect_err("another version");
        assert!(conflict.is_conflict(), "{conflict}");
        assert_eq!(writer.names().await, "blog web");
    }

    /// Rows: RO-43
    async fn a_fight_slows_down_and_names_the_other_writer(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        let ours = || map(json!({ "a": "ours" }));
        writer.done(ours()).await;
        let mut found = None;
        // The delay doubles, until it is longer than a slow server needs for two writes.
        for round in 0..12 {
            let params = PatchParams::apply("fighter").force();
            let theirs = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "web" }, "data": { "a": format!("theirs {round}") },
            });
            let patched = writer.api.patch("web", &params, &Patch::Apply(theirs)).await;
            patched.expect("applied");
            let applied = writer.apply(ours()).await.expect("applied");
            match applied.outcome {
                ChildOutcome::Changed => found = applied.contention.or(found),
                ChildOutcome::Delayed(wait) => {
                    assert!(wait <= Duration::from_secs(300), "{wait:?}");
                    assert_eq!(writer.methods(), "");
                    let conflicts = found.expect("it was found before the first delay").conflicts;
                    assert!(conflicts.iter().any(|it| it.contains("fighter")), "{conflicts:?}");
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("it never slows down");
    }

    /// Rows: RO-25
    async fn a_strategy_decides_how_an_existing_child_is_changed(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        let none = (ChildOutcome::Unchanged, String::new());
        let recreate = |data: &str| {
            let desired = map(json!({ "a": data })).named("recreated");
            desired.strategy(UpdateStrategy::Recreate)
        };
        writer.done(recreate("1")).await;
        let first = writer.get("recreated").await;
        assert_eq!(writer.done(recreate("1")).await, none);
        // A restart, and a field of another client, are no reasons to recreate it.
        *writer.memory.lock() = ChildMemory::new();
        writer.merge("recreated", json!({ "data": { "theirs": "x" } })).await;
        assert_eq!(writer.done(recreate("1")).await.0, ChildOutcome::Unchanged);
        assert_eq!(writer.done(recreate("1")).await, none);
        // A new desired state is.
        assert_eq!(writer.done(recreate("2")).await.0, ChildOutcome::Replaced);
        assert_eq!(writer.done(recreate("2")).await.0, ChildOutcome::Created);
        let second = writer.get("recreated").await;
        assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
        assert_eq!(second["data"], json!({ "a": "2" }));
        // If the API server would refuse the new one, the old one stays.
        let invalid = Desired::json(json!({ "metadata": { "name": "recreated" }, "data": { "/": "" } }));
        let refused = writer.apply(invalid.strategy(UpdateStrategy::Recreate)).await;
        refused.expect_err("the key is invalid");
        assert_eq!(writer.get("recreated").await["metadata"]["uid"], second["metadata"]["uid"]);

        let on_delete = |data: &str| {
            let desired = map(json!({ "a": data })).named("kept");
            desired.strategy(UpdateStrategy::OnDelete)
        };
        writer.done(on_delete("1")).await;
        assert_eq!(writer.done(on_delete("2")).await, none);
        writer.merge("kept", json!({ "metadata": { "labels": null, "ownerReferences": null } })).await;
        assert_eq!(writer.done(on_delete("2")).await.0, ChildOutcome::Changed);
        let kept = writer.get("kept").await;
        assert_eq!(kept["data"], json!({ "a": "1" }));
        assert_eq!(kept["metadata"]["ownerReferences"][0]["uid"], writer.parent.uid());
        assert_eq!(writer.done(on_delete("2")).await, none);
    }

    /// A changed image of a Job is refused in the same way.
    ///
    /// Rows: RO-25
    async fn a_child_that_was_applied_before_and_cannot_be_changed_is_recreated(cluster: Cluster) {
        let writer = Writer::<Secret>::new(&cluster).await;
        let secret = |value: &str| {
            Desired::<Secret>::json(json!({
                "metadata": { "name": "web" }, "immutable": true, "stringData": { "a": value },
            }))
        };
        writer.done(secret("1")).await;
        // The operator is started again with another strategy, and another desired state.
        *writer.memory.lock() = ChildMemory::new();
        let recreate = |value: &str| secret(value).strategy(UpdateStrategy::Recreate);
        assert_eq!(writer.done(recreate("2")).await.0, ChildOutcome::Replaced);
        assert_eq!(writer.done(recreate("2")).await.0, ChildOutcome::Created);
        assert_eq!(writer.get("web").await["data"], json!({ "a": "Mg==" }));
        // The same after another writer has removed the mark.
        writer.merge("web", json!({ "metadata": { "annotations": { "windlass.dev/applied": null } } })).await;
        *writer.memory.lock() = ChildMemory::new();
        assert_eq!(writer.done(recreate("2")).await.0, ChildOutcome::Unchanged);
        *writer.memory.lock() = ChildMemory::new();
        assert_eq!(writer.done(recreate("3")).await.0, ChildOutcome::Replaced);
    }

    /// Rows: RO-43
    async fn a_fight_about_the_labels_of_a_child_that_is_updated_on_delete_slows_down(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        let ours = || map(json!({ "a": "1" })).strategy(UpdateStrategy::OnDelete);
        writer.done(ours()).await;
        // After a restart nothing is remembered of it.
        *writer.memory.lock() = ChildMemory::new();
        let mut is_contended = false;
        for _ in 0..12 {
            let theirs = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "other" } } });
            writer.merge("web", theirs).await;
            let applied = writer.apply(ours()).await.expect("applied");
            match applied.outcome {
                ChildOutcome::Changed => is_contended |= applied.contention.is_some(),
                ChildOutcome::Delayed(wait) => {
                    assert!(wait <= Duration::from_secs(300), "{wait:?}");
                    assert_eq!(writer.methods(), "");
                    assert!(is_contended, "it was reported before the first delay");
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("it never slows down");
    }

    async fn a_child_without_labels_and_owner_is_removed_when_its_finalizer_is(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        writer.done(map(json!({ "a": "1" }))).await;
        let bare = json!({
            "labels": null, "annotations": null, "ownerReferences": null,
            "finalizers": ["test.windlass.dev/x"],
        });
        writer.merge("web", json!({ "metadata": bare })).await;
        let key = ObjectKey::new("web").within(cluster.namespace());
        let remove = async || {
            writer.caught_up().await;
            let stored = writer.children.informer.store().get_lazy(&key);
            let exists = writer.children().remove(&writer.kind, &key, stored.as_ref(), false).await;
            exists.expect("removed")
        };
        assert!(remove().await, "it is being deleted");
        assert!(remove().await, "its finalizer holds it");
        writer.merge("web", json!({ "metadata": { "finalizers": null } })).await;
        assert!(!remove().await);
    }

    /// Rows: RO-41
    async fn a_child_that_is_being_deleted_is_created_again_afterwards(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        writer.done(map(json!({ "a": "1" }))).await;
        writer.merge("web", json!({ "metadata": { "finalizers": ["test.windlass.dev/x"] } })).await;
        writer.api.delete("web", &DeleteParams::default()).await.expect("marked");
        let (outcome, methods) = writer.done(map(json!({ "a": "2" }))).await;
        assert_eq!((outcome, &*methods), (ChildOutcome::Terminating, ""));
        writer.merge("web", json!({ "metadata": { "finalizers": null } })).await;
        let (outcome, _) = writer.done(map(json!({ "a": "2" }))).await;
        assert_eq!(outcome, ChildOutcome::Created);
    }

    async fn a_removed_key_of_string_data_is_removed(cluster: Cluster) {
        let writer = Writer::<Secret>::new(&cluster).await;
        let secret = |data: Value| {
            Desired::<Secret>::json(json!({ "metadata": { "name": "web" }, "stringData": data }))
        };
        writer.done(secret(json!({ "user": "a", "password": "b" }))).await;
        let none = (ChildOutcome::Unchanged, String::new());
        assert_eq!(writer.done(secret(json!({ "user": "a", "password": "b" }))).await, none);
        writer.done(secret(json!({ "user": "a" }))).await;
        assert_eq!(writer.get("web").await["data"], json!({ "user": "YQ==" }));
    }

    async fn a_stale_store_neither_overwrites_nor_recreates(cluster: Cluster) {
        let writer = Writer::<ConfigMap>::new(&cluster).await;
        writer.done(map(json!({ "a": "1" }))).await;
        writer.caught_up().await;
        let stale = writer.children.informer.store().list_lazy();
        let stale = stale.into_iter().find(|it| it.name() == "web");
        writer.merge("web", json!({ "data": { "theirs": "x" } })).await;
        let desired = || map(json!({ "a": "2" }));
        let apply = |stored| writer.apply_to(desired(), |_| stored);
        // Refused at the first version, and applied to the current one of the same object.
        apply(stale.clone()).await.expect("applied");
        assert_eq!(writer.get("web").await["data"], json!({ "a": "2", "theirs": "x" }));
        // The object was deleted, and the store does not know yet.
        *writer.memory.lock() = ChildMemory::new();
        writer.api.delete("web", &DeleteParams::default()).await.expect("deleted");
        let conflict = apply(stale.clone()).await.expect_err("the object was deleted");
        assert!(conflict.is_conflict(), "{conflict}");
        assert_eq!(writer.names().await, "blog");
        // Another client has created another one.
        let successor = json!({ "metadata": { "name": "web" }, "data": { "a": "theirs" } });
        let successor: ConfigMap = serde_json::from_value(successor).expect("a config map");
        writer.api.create(&PostParams::default(), &successor).await.expect("created");
        let conflict = apply(stale).await.expect_err("another object");
        assert!(conflict.is_conflict(), "{conflict}");
        assert_eq!(writer.get("web").await["data"], json!({ "a": "theirs" }));
    }
}
