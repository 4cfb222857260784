//! Garbage collection and the deletion of namespaces. The real server runs with the garbage
//! collector and the namespace controller of Kubernetes, the embedded one with its defaults.

use kube::Client;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use super::raw::{Raw, named, names};
use super::widget::Widget;
use crate::{
    cluster::{Cluster, create_namespace, profile},
    real::RealServer,
};

pub(crate) mod random;

/// A namespace of a server that collects garbage.
pub(super) struct Collected {
    pub(super) raw: Raw,
}

impl Collected {
    /// A namespace that is called like that of the test, with this suffix.
    pub(super) async fn new(cluster: &Cluster, suffix: &str) -> Self {
        let namespace = format!("{}{suffix}", cluster.namespace());
        if cluster.is_embedded() {
            let server = ApiServer::builder().profile(profile()).start();
            return Self::on(&server, &namespace).await;
        }
        let real = RealServer::with_controllers();
        let mut config = real.config().await;
        config.default_retry = false;
        let client = Client::try_from(config).expect("a client");
        Self::of(client, &namespace).await
    }

    async fn on(server: &ApiServer, namespace: &str) -> Self {
        Self::of(Client::new(server.service(), "default"), namespace).await
    }

    async fn of(client: Client, namespace: &str) -> Self {
        create_namespace(client.clone(), namespace).await;
        Self {
            raw: Raw::of(client, namespace),
        }
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.raw.maps())
    }

    /// Creates a config map with these owner references.
    async fn create(&self, name: &str, references: &[Value]) -> Value {
        let map = json!({ "metadata": { "name": name, "ownerReferences": references } });
        self.raw.post(&self.raw.maps(), &map).await.ok()
    }

    async fn delete(&self, name: &str, policy: &str) {
        let options = json!({ "propagationPolicy": policy });
        self.raw.delete_so(&self.at(name), &options).await.ok();
    }

    /// Waits until the namespace has exactly these config maps.
    async fn has(&self, wanted: &str) {
        let maps = self.raw.maps();
        (self.raw)
            .until(&maps, |answer| names(&answer.body) == wanted)
            .await;
    }

    /// Waits until the collector has handled everything before: it deletes an object whose owner
    /// does not exist, and another one after it.
    async fn settles(&self) {
        for number in 0..2 {
            let name = format!("settles-{number}");
            let mut absent = reference(&named(&name));
            absent["uid"] = "absent".into();
            self.create(&name, &[absent]).await;
            self.gone(&self.at(&name)).await;
        }
    }

    /// Waits for the event that `owner`, a config map, is in another namespace than the object of
    /// `reference`.
    async fn reported(&self, events_of: &str, reference: &Value, owner: &Value) {
        let uid = reference["uid"].as_str().expect("a uid");
        let path = format!("{events_of}/events?fieldSelector=involvedObject.uid%3D{uid}");
        let listed = self
            .raw
            .until(&path, |answer| !names(&answer.body).is_empty());
        let listed = listed.await;
        let event = &listed["items"][0];
        for field in ["apiVersion", "kind", "name", "uid"] {
            assert_eq!(event["involvedObject"][field], reference[field], "{event}");
        }
        let namespace = event["involvedObject"]["namespace"]
            .as_str()
            .unwrap_or_default();
        let text = |field: &str| owner["metadata"][field].as_str().expect("a text");
        let message = format!(
            "ownerRef [v1/ConfigMap, namespace: {namespace}, name: {}, uid: {}] does not exist in \
             namespace {namespace:?}",
            text("name"),
            text("uid"),
        );
        assert_eq!(event["message"], message, "{event}");
        for (field, value) in [
            ("reason", json!("OwnerRefInvalidNamespace")),
            ("type", json!("Warning")),
            ("count", json!(1)),
            (
                "source",
                json!({ "component": "garbage-collector-controller" }),
            ),
            ("reportingComponent", json!("garbage-collector-controller")),
            ("reportingInstance", json!("")),
        ] {
            assert_eq!(event[field], value, "{event}");
        }
        let name = event["metadata"]["name"].as_str().expect("a name");
        let object = reference["name"].as_str().expect("a name");
        assert!(name.starts_with(&format!("{object}.")), "{event}");
    }

    async fn gone(&self, path: &str) {
        self.raw.until(path, |answer| answer.code == 404).await;
    }
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    })
}

fn reference_of(kind: (&str, &str), owner: &Value) -> Value {
    let mut reference = reference(owner);
    (reference["apiVersion"], reference["kind"]) = (kind.0.into(), kind.1.into());
    reference
}

fn blocking(owner: &Value) -> Value {
    let mut reference = reference(owner);
    reference["blockOwnerDeletion"] = true.into();
    reference
}

on_both_servers! {
    /// docs/apiserver.md: row 101.
    async fn dependents_of_a_deleted_object_are_deleted_recursively(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let owner = it.create("owner", &[]).await;
        let child = it.create("child", &[reference(&owner)]).await;
        it.create("grandchild", &[reference(&child)]).await;
        it.create("other", &[]).await;
        it.delete("owner", "Background").await;
        it.has("other").await;
    }

    /// docs/apiserver.md: row 101.
    async fn an_object_stays_while_one_owner_exists(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let one = it.create("one", &[]).await;
        let two = it.create("two", &[]).await;
        it.create("child", &[reference(&one), reference(&two)]).await;
        it.delete("one", "Background").await;
        // The reference to the owner that does not exist any more is removed.
        let wanted = json!([reference(&two)]);
        it.raw.until(&it.at("child"), |child| {
            child.body["metadata"]["ownerReferences"] == wanted
        }).await;
        it.delete("two", "Background").await;
        it.has("").await;
    }

    /// docs/apiserver.md: row 101.
    async fn an_owner_is_identified_by_its_uid(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let owner = it.create("owner", &[]).await;
        let mut another = reference(&owner);
        another["uid"] = "another".into();
        it.create("child", &[another]).await;
        it.has("owner").await;
        // The kind of this owner is not served, so the collector cannot decide whether it exists.
        let unknown = json!({
            "apiVersion": "ex.io/v1", "kind": "Unknown", "name": "x", "uid": "1",
        });
        it.create("kept", &[unknown]).await;
        it.settles().await;
        it.has("kept owner").await;
    }

    /// docs/apiserver.md: rows 94, 101.
    async fn orphans_lose_the_reference_to_their_owner(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let owner = it.create("owner", &[]).await;
        it.create("child", &[reference(&owner)]).await;
        it.settles().await;
        it.delete("owner", "Orphan").await;
        it.has("child").await;
        let child = it.raw.get(&it.at("child")).await.ok();
        assert_eq!(child["metadata"].get("ownerReferences"), None, "{child}");
        it.settles().await;
        it.has("child").await;
    }

    /// docs/apiserver.md: rows 94, 101.
    async fn a_foreground_deletion_waits_for_blocking_dependents(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let owner = it.create("owner", &[]).await;
        it.create("a", &[blocking(&owner)]).await;
        it.create("b", &[reference(&owner)]).await;
        let held = json!({ "metadata": {
            "name": "held", "finalizers": ["ex.io/clean"], "ownerReferences": [blocking(&owner)],
        } });
        it.raw.post(&it.raw.maps(), &held).await.ok();
        it.settles().await;
        it.delete("owner", "Foreground").await;
        it.gone(&it.at("a")).await;
        it.settles().await;
        // A dependent that does not block the owner is deleted too.
        it.has("held owner").await;
        let waiting = it.raw.get(&it.at("owner")).await.ok();
        assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        assert!(waiting["metadata"]["deletionTimestamp"].is_string(), "{waiting}");
        let held = it.raw.get(&it.at("held")).await.ok();
        assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
        it.raw.merge(&it.at("held"), &json!({ "metadata": { "finalizers": null } })).await.ok();
        it.has("").await;
    }

    /// docs/apiserver.md: rows 94, 101.
    async fn objects_that_own_each_other_do_not_wait_for_each_other(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let one = it.create("one", &[]).await;
        let two = it.create("two", &[blocking(&one)]).await;
        let change = json!({ "metadata": { "ownerReferences": [blocking(&two)] } });
        it.raw.merge(&it.at("one"), &change).await.ok();
        it.settles().await;
        it.delete("one", "Foreground").await;
        it.has("").await;
    }

    /// docs/apiserver.md: row 101.
    async fn a_cluster_scoped_object_can_own_namespaced_ones_but_not_vice_versa(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let name = |suffix: &str| format!("{}-{suffix}", it.raw.namespace);
        let owner = it.raw.post(roles, &named(&name("owner"))).await.ok();
        let role = ("rbac.authorization.k8s.io/v1", "ClusterRole");
        let role_reference = |role_object: &Value| reference_of(role, role_object);
        it.create("of-role", &[reference_of(role, &owner)]).await;
        let map = it.create("map", &[]).await;
        let odd = json!({ "metadata": { "name": name("odd"), "ownerReferences": [reference(&map)] } });
        let odd = it.raw.post(roles, &odd).await.ok();
        it.settles().await;
        it.reported("/api/v1/namespaces/default", &role_reference(&odd), &map).await;
        it.delete("map", "Background").await;
        it.raw.delete(&format!("{roles}/{}", name("owner"))).await.ok();
        it.has("").await;
        it.settles().await;
        let odd = it.raw.get(&format!("{roles}/{}", name("odd"))).await;
        assert_eq!(odd.code, 200, "its reference has no effect: {}", odd.text);
    }

    /// docs/apiserver.md: row 101.
    async fn an_owner_in_another_namespace_does_not_exist(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let other = json!({ "metadata": { "name": format!("{}-b", it.raw.namespace) } });
        let other = it.raw.post("/api/v1/namespaces", &other).await.ok();
        let there = other["metadata"]["name"].as_str().expect("a name");
        let there = format!("/api/v1/namespaces/{there}/configmaps");
        let owner = it.raw.post(&there, &named("owner")).await.ok();
        let child = it.create("child", &[reference(&owner)]).await;
        it.has("").await;
        let here = format!("/api/v1/namespaces/{}", it.raw.namespace);
        it.reported(&here, &reference(&child), &owner).await;
        assert_eq!(names(&it.raw.get(&there).await.ok()), "owner");
    }

    /// docs/apiserver.md: rows 94, 101.
    async fn a_deleted_job_orphans_its_dependents_without_a_policy(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let jobs = it.raw.at("/apis/batch/v1", "jobs");
        let template = json!({ "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
        } });
        for (name, query) in [("a", ""), ("b", "?propagationPolicy=Background")] {
            let job = json!({ "metadata": { "name": name }, "spec": { "template": template } });
            let owner = it.raw.post(&jobs, &job).await.ok();
            it.create(name, &[reference_of(("batch/v1", "Job"), &owner)]).await;
            it.settles().await;
            it.raw.delete(&format!("{jobs}/{name}{query}")).await.ok();
            it.gone(&format!("{jobs}/{name}")).await;
        }
        it.has("a").await;
        let orphan = it.raw.get(&it.at("a")).await.ok();
        assert_eq!(orphan["metadata"].get("ownerReferences"), None, "{orphan}");
    }

    /// docs/apiserver.md: row 101.
    async fn custom_resources_are_owners_and_dependents(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let widget = Widget::served(&it.raw, &json!({ "type": "object" })).await;
        let version = format!("{}/v1", widget.group);
        let new = |name: &str, references: &[Value]| json!({
            "apiVersion": version, "kind": "Widget",
            "metadata": { "name": name, "ownerReferences": references },
        });
        let owner = it.raw.post(&widget.all(), &new("owner", &[])).await.ok();
        let of_widget = reference_of((&version, "Widget"), &owner);
        let map = it.create("map", &[of_widget]).await;
        let dependent = new("dependent", &[reference(&map)]);
        it.raw.post(&widget.all(), &dependent).await.ok();
        it.settles().await;
        it.raw.delete(&format!("{}/owner", widget.all())).await.ok();
        it.has("").await;
        it.raw.until(&widget.all(), |answer| names(&answer.body).is_empty()).await;
    }

    /// docs/apiserver.md: row 101.
    async fn dependents_of_namespaces_and_definitions_are_deleted(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let name = |suffix: &str| format!("{}-{suffix}", it.raw.namespace);
        let space = it.raw.post("/api/v1/namespaces", &named(&name("b"))).await.ok();
        let widget = Widget::served(&it.raw, &json!({ "type": "object" })).await;
        let definition = it.raw.get(&widget.own_path()).await.ok();
        let extensions = "apiextensions.k8s.io/v1";
        for (suffix, reference) in [
            ("of-namespace", reference_of(("v1", "Namespace"), &space)),
            ("of-definition", reference_of((extensions, "CustomResourceDefinition"), &definition)),
        ] {
            let role = json!({ "metadata": { "name": name(suffix), "ownerReferences": [reference] } });
            it.raw.post(roles, &role).await.ok();
        }
        it.settles().await;
        it.raw.delete(&format!("/api/v1/namespaces/{}", name("b"))).await.ok();
        it.raw.delete(&widget.own_path()).await.ok();
        for suffix in ["of-namespace", "of-definition"] {
            it.gone(&format!("{roles}/{}", name(suffix))).await;
        }
    }

    /// docs/apiserver.md: row 99.
    async fn a_namespace_is_deleted_after_its_contents(cluster: Cluster) {
        let it = Collected::new(&cluster, "").await;
        let namespace = format!("/api/v1/namespaces/{}", it.raw.namespace);
        for (name, finalizers) in [
            ("free", json!([])),
            ("x", json!(["ex.io/hold"])),
            ("y", json!(["ex.io/hold", "ex.io/b"])),
        ] {
            let map = json!({ "metadata": { "name": name, "finalizers": finalizers } });
            it.raw.post(&it.raw.maps(), &map).await.ok();
        }
        it.raw.delete(&namespace).await.ok();
        it.has("x y").await;
        let terminating = it.raw.until(&namespace, |answer| {
            answer.body["status"]["conditions"].as_array().is_some_and(|it| it.len() == 5)
        }).await;
        assert_eq!(terminating["status"]["phase"], "Terminating");
        let conditions = terminating["status"]["conditions"].as_array().expect("a list").iter();
        let conditions: Vec<_> = conditions.map(|it| {
            let text = |field: &str| it[field].as_str().unwrap_or_default();
            format!("{} {} {}: {}", text("type"), text("status"), text("reason"), text("message"))
        }).collect();
        assert_eq!(conditions, [
            "NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: \
             All resources successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: \
             All legacy kube types successfully parsed",
            "NamespaceDeletionContentFailure False ContentDeleted: \
             All content successfully deleted, may be waiting on finalization",
            "NamespaceContentRemaining True SomeResourcesRemain: \
             Some resources are remaining: configmaps. has 2 resource instances",
            "NamespaceFinalizersRemaining True SomeFinalizersRemain: \
             Some content in the namespace has finalizers remaining: ex.io/b in 1 resource \
             instances, ex.io/hold in 2 resource instances",
        ]);
        let free = json!({ "metadata": { "finalizers": null } });
        for name in ["x", "y"] {
            it.raw.merge(&it.at(name), &free).await.ok();
        }
        it.gone(&namespace).await;
    }
}
