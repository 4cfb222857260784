//! Children that depend on each other: a shop with settings, a database, a web server and a route.

use std::error::Error as _;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::{ConfigMap, Service},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, CustomResource, CustomResourceExt as _, Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::{
    Context, Desired, Failure, ObjectReconciler, Outcome, Owned,
    level::{DependentId, Dependents, has_condition},
};

use super::rig::{Rig, builder, create, patch, say, watch};
use crate::{
    cluster::{Cluster, await_condition},
    kinds::config,
};

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "test.windlass.dev",
    version = "v1",
    kind = "Shop",
    namespaced,
    status = "ShopStatus"
)]
#[serde(rename_all = "camelCase")]
struct ShopSpec {
    database: bool,
    web: bool,
    #[serde(default)]
    replicas: i32,
    /// The kind or the name of a child that is invalid.
    #[serde(default)]
    invalid: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct ShopStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

struct Shops {
    configs: Owned<Shop, ConfigMap>,
    databases: Owned<Shop, StatefulSet>,
    servers: Owned<Shop, Deployment>,
    routes: Owned<Shop, Service>,
    calls: mpsc::Sender<String>,
}

/// The dependents of a shop, and their names for the test.
type Plan = (Dependents<Shop>, [(&'static str, DependentId); 5]);

// === impl Shops ===

impl Shops {
    fn plan(&self, shop: &Shop) -> Plan {
        let spec = &shop.spec;
        let mut plan = Dependents::new();
        let settings = plan.add(self.configs.dependent(config("settings", "1")));
        let database = plan.add(
            (self.databases.dependent(database()))
                .when(spec.database)
                .ready(|set: &StatefulSet| {
                    let status = set.status.as_ref();
                    status.and_then(|it| it.ready_replicas) == Some(1)
                }),
        );
        let web = plan.add(
            (self.servers.dependent(web(spec.replicas)))
                .after([settings, database])
                .when(spec.web)
                .ready(has_condition("Available", "True"))
                .failed(has_condition("Progressing", "False")),
        );
        let route = plan.add(self.routes.dependent(route()).after([web]));
        let logs = match &spec.invalid {
            Some(kind) if kind == "Secret" => Desired::json(json!({ "kind": kind })).named("logs"),
            Some(name) => Desired::json(json!({ "data": { "a/b": "1" } })).named(name),
            None => Desired::from(config("logs", "1")),
        };
        let logs = plan.add(self.configs.dependent(logs));
        let names = [
            ("settings", settings),
            ("database", database),
            ("web", web),
            ("route", route),
            ("logs", logs),
        ];
        (plan, names)
    }
}

impl ObjectReconciler<Shop> for Shops {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Shop>) -> Result<Outcome, Failure> {
        let (plan, names) = self.plan(cx.object());
        let states = plan.apply(&cx).await?;
        let mut line = String::new();
        for (name, id) in names {
            let state = states.get(id).expect("a dependent of this plan");
            line = format!("{line}{name} {state:?}, ");
        }
        say(
            &self.calls,
            format!("{line}{} | {states}", states.is_ready()),
        )
        .await;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Shop>) -> Result<Outcome, Failure> {
        let outcome = self.plan(cx.object()).0.delete(&cx).await?;
        let is_done = outcome.delay().is_none();
        say(&self.calls, format!("clean up {is_done}")).await;
        Ok(outcome)
    }
}

/// A running operator of shops, and the objects of its shop.
struct World {
    rig: Rig,
    shops: Api<Shop>,
    configs: Api<ConfigMap>,
    databases: Api<StatefulSet>,
    servers: Api<Deployment>,
    routes: Api<Service>,
}

// === impl World ===

impl World {
    async fn new(cluster: &Cluster) -> Self {
        cluster.install(&Shop::crd()).await;
        let (calls, receiver) = mpsc::channel(64);
        let mut builder = builder::<Shop>(cluster).await.on_error({
            let calls = calls.clone();
            move |report| {
                let error = report.error.source().map(ToString::to_string);
                _ = calls.try_send(format!("failed: {}", error.unwrap_or_default()));
            }
        });
        let shops = Shops {
            configs: builder.owns(watch(cluster).await),
            databases: builder.owns(watch(cluster).await),
            servers: builder.owns(watch(cluster).await),
            routes: builder.owns(watch(cluster).await),
            calls,
        };
        let controller = builder.finalizer("test.windlass.dev/shop").build(shops);
        Self {
            rig: Rig::start(controller.expect("good settings"), receiver),
            shops: cluster.api_aside(),
            configs: cluster.api_aside(),
            databases: cluster.api_aside(),
            servers: cluster.api_aside(),
            routes: cluster.api_aside(),
        }
    }

    /// The names of the children that exist.
    async fn children(&self) -> String {
        let mut names = Vec::new();
        names.extend(names_of(&self.configs).await);
        names.extend(names_of(&self.databases).await);
        names.extend(names_of(&self.servers).await);
        names.extend(names_of(&self.routes).await);
        names.retain(|name| !["kube-root-ca.crt", "kubernetes"].contains(&&**name));
        names.join(" ")
    }

    /// The next states, and what is not ready, after calls with other states.
    async fn reaches(&mut self, states: &str) -> String {
        loop {
            let found = self.rig.next().await;
            match found.split_once(" | ") {
                Some((found, reasons)) if found == states => return reasons.to_owned(),
                _ => {}
            }
        }
    }

    async fn set_ready(&self) {
        let ready = json!({ "replicas": 1, "readyReplicas": 1, "observedGeneration": 1 });
        set_status(&self.databases, "database", ready).await;
        let available = json!([{ "type": "Available", "status": "True" }]);
        let available = json!({ "conditions": available, "observedGeneration": 1 });
        set_status(&self.servers, "web", available).await;
    }
}

pub(super) async fn names_of<K>(api: &Api<K>) -> Vec<String>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Resource,
{
    let listed = api
        .list(&kube::api::ListParams::default())
        .await
        .expect("a list");
    listed.iter().map(kube::ResourceExt::name_any).collect()
}

async fn set_status<K: DeserializeOwned>(api: &Api<K>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let patched = api
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    patched.expect("an object that is there");
}

fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "shop" } },
        "spec": { "containers": [{ "name": "app", "image": "app:1" }] },
    })
}

fn database() -> Desired<StatefulSet> {
    let selector = json!({ "matchLabels": { "app": "shop" } });
    let spec = json!({ "selector": selector, "serviceName": "database", "template": template() });
    Desired::json(json!({ "spec": spec })).named("database")
}

fn web(replicas: i32) -> Desired<Deployment> {
    let selector = json!({ "matchLabels": { "app": "shop" } });
    let spec = json!({ "selector": selector, "replicas": replicas, "template": template() });
    Desired::json(json!({ "spec": spec })).named("web")
}

fn route() -> Desired<Service> {
    let spec = json!({ "clusterIP": "None", "ports": [{ "port": 80 }] });
    Desired::json(json!({ "spec": spec })).named("route")
}

fn shop() -> Shop {
    let spec = ShopSpec {
        database: true,
        web: true,
        replicas: 1,
        invalid: None,
    };
    Shop::new("a", spec)
}

/// A finalizer delays the end of a deletion.
fn held(is_held: bool) -> Value {
    let finalizers: &[&str] = if is_held {
        &["test.windlass.dev/held"]
    } else {
        &[]
    };
    json!({ "metadata": { "finalizers": finalizers } })
}

on_both_servers! {
    /// Rows: BO-38
    async fn a_dependent_is_applied_when_those_it_depends_on_are_ready(cluster: Cluster) {
        let mut world = World::new(&cluster).await;
        create(&world.shops, shop()).await;
        let reasons = world.reaches(
            "settings Ready, database NotReady, web Waiting, route Waiting, logs Ready, false",
        ).await;
        let name = |child: &str| child.replace('/', &format!(" {}/", cluster.namespace()));
        let (database, web) = (name("statefulsets.apps/database"), name("deployments.apps/web"));
        let route = name("services/route");
        let waiting = format!("{database} is not ready; {web} waits for {database}; {route} waits for {web}");
        assert_eq!(reasons, waiting);
        assert_eq!(world.children().await, "logs settings database");

        // The events of the children cause the calls.
        let ready = json!({ "replicas": 1, "readyReplicas": 1, "observedGeneration": 1 });
        set_status(&world.databases, "database", ready).await;
        let reasons = world.reaches(
            "settings Ready, database Ready, web NotReady, route Waiting, logs Ready, false",
        ).await;
        assert_eq!(reasons, format!("{web} is not ready; {route} waits for {web}"));
        assert_eq!(world.children().await, "logs settings database web");
        let conditions = |of, status| json!([{ "type": of, "status": status }]);
        let status = |conditions, generation| json!({
            "conditions": conditions, "observedGeneration": generation,
        });
        let available = conditions("Available", "True");
        let failed = conditions("Progressing", "False");
        set_status(&world.servers, "web", status(failed, 1)).await;
        let reasons = world.reaches(
            "settings Ready, database Ready, web Failed, route Waiting, logs Ready, false",
        ).await;
        assert_eq!(reasons, format!("{web} has failed; {route} waits for {web}"));
        set_status(&world.servers, "web", status(available.clone(), 1)).await;
        let reasons = world.reaches("settings Ready, database Ready, web Ready, route Ready, logs Ready, true").await;
        assert_eq!(reasons, "all are ready");
        assert_eq!(world.children().await, "logs settings database web route");

        // A prerequisite that is not ready any more: what exists is left as it is, and not updated.
        set_status(&world.databases, "database", json!({ "readyReplicas": 0 })).await;
        world.reaches("settings Ready, database NotReady, web Waiting, route Waiting, logs Ready, false").await;
        patch(&world.shops, "a", json!({ "spec": { "replicas": 2 } })).await;
        world.reaches("settings Ready, database NotReady, web Waiting, route Waiting, logs Ready, false").await;
        let replicas = async |world: &World| {
            let web = world.servers.get("web").await.expect("there");
            web.spec.expect("a spec").replicas
        };
        assert_eq!(replicas(&world).await, Some(1));
        assert_eq!(world.children().await, "logs settings database web route");
        set_status(&world.databases, "database", json!({ "readyReplicas": 1 })).await;
        // The new generation is not observed yet.
        world.reaches("settings Ready, database Ready, web NotReady, route Waiting, logs Ready, false").await;
        assert_eq!(replicas(&world).await, Some(2));
        set_status(&world.servers, "web", status(available, 2)).await;
        world.reaches("settings Ready, database Ready, web Ready, route Ready, logs Ready, true").await;
        world.rig.stop().await;
    }

    /// Rows: BO-38
    async fn a_false_precondition_deletes_the_dependents_in_reverse_order(cluster: Cluster) {
        let mut world = World::new(&cluster).await;
        let mut without = shop();
        without.spec.web = false;
        create(&world.shops, without).await;
        world.reaches("settings Ready, database NotReady, web Deleted, route Deleted, logs Ready, false").await;
        patch(&world.shops, "a", json!({ "spec": { "web": true } })).await;
        world.reaches("settings Ready, database NotReady, web Waiting, route Waiting, logs Ready, false").await;
        set_status(&world.databases, "database", json!({ "readyReplicas": 1, "replicas": 1, "observedGeneration": 1 })).await;
        world.reaches("settings Ready, database Ready, web NotReady, route Waiting, logs Ready, false").await;
        world.set_ready().await;
        world.reaches("settings Ready, database Ready, web Ready, route Ready, logs Ready, true").await;

        // Those that depend on it are deleted too, each after those that depend on it were deleted.
        patch(&world.routes, "route", held(true)).await;
        patch(&world.servers, "web", held(true)).await;
        patch(&world.shops, "a", json!({ "spec": { "database": false } })).await;
        let reasons = world.reaches("settings Ready, database Deleting, web Deleting, route Deleting, logs Ready, false").await;
        let name = |child: &str| child.replace('/', &format!(" {}/", cluster.namespace()));
        let (database, web) = (name("statefulsets.apps/database"), name("deployments.apps/web"));
        let route = name("services/route");
        let reverse = format!(
            "{database} waits for the deletion of {web}; {web} waits for the deletion of {route}; \
             {route} is being deleted"
        );
        assert_eq!(reasons, reverse);
        assert!(world.servers.get("web").await.expect("there").metadata.deletion_timestamp.is_none());
        patch(&world.routes, "route", held(false)).await;
        world.reaches("settings Ready, database Deleting, web Deleting, route Deleted, logs Ready, false").await;
        assert!(world.servers.get("web").await.expect("there").metadata.deletion_timestamp.is_some());
        assert_eq!(world.children().await, "logs settings database web");
        patch(&world.servers, "web", held(false)).await;
        world.reaches("settings Ready, database Deleted, web Deleted, route Deleted, logs Ready, true").await;
        assert_eq!(world.children().await, "logs settings");

        patch(&world.shops, "a", json!({ "spec": { "database": true } })).await;
        world.reaches("settings Ready, database NotReady, web Waiting, route Waiting, logs Ready, false").await;
        assert_eq!(world.children().await, "logs settings database");
        world.rig.stop().await;
    }

    /// Rows: BO-38
    async fn a_clean_up_deletes_the_dependents_in_reverse_order(cluster: Cluster) {
        let mut world = World::new(&cluster).await;
        create(&world.shops, shop()).await;
        world.reaches("settings Ready, database NotReady, web Waiting, route Waiting, logs Ready, false").await;
        set_status(&world.databases, "database", json!({ "readyReplicas": 1, "replicas": 1, "observedGeneration": 1 })).await;
        world.reaches("settings Ready, database Ready, web NotReady, route Waiting, logs Ready, false").await;
        world.set_ready().await;
        world.reaches("settings Ready, database Ready, web Ready, route Ready, logs Ready, true").await;
        patch(&world.routes, "route", held(true)).await;
        patch(&world.databases, "database", held(true)).await;
        // A child that is kept does not delay the others, and an invalid one does not prevent them.
        let keep = json!({ "metadata": { "annotations": { "windlass.dev/keep": "true" } } });
        patch(&world.configs, "settings", keep).await;
        patch(&world.shops, "a", json!({ "spec": { "invalid": "Secret" } })).await;
        while !world.rig.next().await.contains("is a Secret") {}
        world.shops.delete("a", &DeleteParams::default()).await.expect("there");
        while world.rig.next().await != "clean up false" {}
        assert_eq!(world.children().await, "settings database web route", "logs is independent");
        patch(&world.routes, "route", held(false)).await;
        while !(world.rig.next().await == "clean up false" && world.children().await == "settings database") {}
        assert!(world.shops.get_opt("a").await.expect("an answer").is_some());
        patch(&world.databases, "database", held(false)).await;
        while world.rig.next().await != "clean up true" {}
        assert_eq!(world.children().await, "settings");
        let gone = |shop: Option<&Shop>| shop.is_none();
        await_condition(world.shops.clone(), "a", gone).await.expect("deleted");
        world.rig.stop().await;
    }

    /// Rows: BO-38
    async fn an_error_of_one_dependent_does_not_prevent_independent_ones_and_all_are_reported(cluster: Cluster) {
        let mut world = World::new(&cluster).await;
        // The object of another client has the name of a child.
        create(&world.configs, config("settings", "theirs")).await;
        let mut invalid = shop();
        invalid.spec.invalid = Some("logs".to_owned());
        create(&world.shops, invalid).await;
        let failed = world.rig.next().await;
        let namespace = cluster.namespace();
        for part in [
            "failed: 2 errors: ",
            &format!("configmaps {namespace}/settings exists already"),
            &format!("cannot patch configmaps {namespace}/logs"),
        ] {
            assert!(failed.contains(part), "{part:?} is missing: {failed}");
        }
        assert_eq!(world.children().await, "settings database", "the others are applied");

        // A child that is invalid before it is sent: nothing is written.
        patch(&world.shops, "a", json!({ "spec": { "invalid": "a/b" } })).await;
        while !world.rig.next().await.contains("is not a valid name") {}
        world.databases.delete("database", &DeleteParams::default()).await.expect("there");
        while !world.rig.next().await.contains("is not a valid name") {}
        assert_eq!(world.children().await, "settings");
        patch(&world.shops, "a", json!({ "spec": { "invalid": "settings" } })).await;
        while !world.rig.next().await.contains("it is desired twice") {}

        world.configs.delete("settings", &DeleteParams::default()).await.expect("there");
        patch(&world.shops, "a", json!({ "spec": { "invalid": null } })).await;
        world.reaches("settings Ready, database NotReady, web Waiting, route Waiting, logs Ready, false").await;
        world.rig.stop().await;
    }

    /// Rows: BO-38
    async fn a_clean_up_leaves_the_children_of_an_object_that_is_deleted_without_them(cluster: Cluster) {
        let mut world = World::new(&cluster).await;
        let mut small = shop();
        small.spec.database = false;
        small.metadata.finalizers = Some(vec!["orphan".to_owned()]);
        create(&world.shops, small).await;
        world.reaches("settings Ready, database Deleted, web Deleted, route Deleted, logs Ready, true").await;
        world.shops.delete("a", &DeleteParams::default()).await.expect("there");
        while world.rig.next().await != "clean up true" {}
        assert_eq!(world.children().await, "logs settings");
        world.rig.stop().await;
    }
}
