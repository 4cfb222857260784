//! The Database operator in two forms: with kube-rs, and in Windlass' own form.
//!
//! Both pass the same scenario, and leave the same objects. `docs/from-kube-rs.md` shows both.

mod database;
mod kube_rs;
mod windlass;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Secret, Service},
    events::v1::Event,
};
use kube::{
    Api, CustomResourceExt as _, Resource, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, NamespaceResourceScope},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::database::{Database, DatabaseSpec, Dns};
use crate::cluster::{Cluster, await_condition, create_namespace};

/// The objects at several times.
type States = Vec<BTreeMap<String, Value>>;

/// The labels that `Owned::apply` adds.
const ADDED: [&str; 2] = ["app.kubernetes.io/managed-by", "windlass.dev/parent-uid"];

/// The form of the operator.
#[derive(Clone, Copy, Debug)]
enum Form {
    KubeRs,
    Windlass,
}

/// Runs the operator, and stops it after the scenario.
async fn run(cluster: &Cluster, form: Form) -> States {
    let namespace = format!("{}-{form:?}", cluster.namespace()).to_lowercase();
    create_namespace(cluster.aside(), &namespace).await;
    let (dns, stop) = (Dns::default(), CancellationToken::new());
    let (client, stopped) = (cluster.aside(), stop.clone());
    let scenario = async {
        let stages = scenario(cluster, &namespace, &dns).await;
        stop.cancel();
        stages
    };
    let operator = async {
        match form {
            Form::KubeRs => {
                kube_rs::run(client, &namespace, dns.clone(), stopped.cancelled_owned()).await;
            }
            Form::Windlass => {
                let operator = windlass::operator(client, &namespace, dns.clone());
                let operator = operator.expect("good settings");
                operator.run_until(stopped).await.expect("it is stopped");
            }
        }
    };
    let ((), stages) = futures::join!(operator, scenario);
    stages
}

async fn scenario(cluster: &Cluster, namespace: &str, dns: &Dns) -> States {
    let client = || cluster.aside();
    let databases = Api::<Database>::namespaced(client(), namespace);
    let secrets = Api::<Secret>::namespaced(client(), namespace);
    let sets = Api::<StatefulSet>::namespaced(client(), namespace);
    let mut stages = Vec::new();
    let secret = async |name: &str| {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.to_owned());
        let created = secrets.create(&PostParams::default(), &secret).await;
        created.expect("a new secret");
    };
    let change = async |patch: Value| {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        databases
            .patch("db", &params, &patch)
            .await
            .expect("it exists");
    };
    let spec = DatabaseSpec {
        replicas: 2,
        password_secret: "password".to_owned(),
    };
    let database = Database::new("db", spec);
    let created = databases.create(&PostParams::default(), &database).await;
    created.expect("a new database");
    stages.push(state(cluster, namespace, "SecretMissing").await);
    secret("password").await;
    stages.push(state(cluster, namespace, "PodsNotReady").await);
    assert_eq!(dns.names(), ["db"]);
    // There is no controller of StatefulSets.
    let status = Patch::Merge(json!({ "status": { "replicas": 2, "readyReplicas": 2 } }));
    let patched = sets
        .patch_status("db", &PatchParams::default(), &status)
        .await;
    patched.expect("it exists");
    stages.push(state(cluster, namespace, "AllPodsReady").await);
    change(json!({ "spec": { "passwordSecret": "other" } })).await;
    stages.push(state(cluster, namespace, "SecretMissing").await);
    secret("other").await;
    stages.push(state(cluster, namespace, "AllPodsReady").await);
    change(json!({ "spec": { "replicas": 3 } })).await;
    stages.push(state(cluster, namespace, "PodsNotReady").await);
    let deleted = databases.delete("db", &DeleteParams::default()).await;
    deleted.expect("it exists");
    let gone = |database: Option<&Database>| database.is_none();
    await_condition(databases, "db", gone)
        .await
        .expect("a watch");
    assert!(dns.names().is_empty());
    let events = Api::<Event>::namespaced(client(), namespace);
    let events = events.list(&ListParams::default()).await.expect("a list");
    let reasons = events.items.iter().filter_map(|it| it.reason.as_deref());
    let reasons: Vec<_> = reasons.collect();
    assert!(reasons.contains(&"SecretMissing"), "{reasons:?}");
    stages
}

/// The objects, when the condition of the database has this reason for its generation.
async fn state(cluster: &Cluster, namespace: &str, reason: &str) -> BTreeMap<String, Value> {
    let databases = Api::<Database>::namespaced(cluster.aside(), namespace);
    let has = |database: Option<&Database>| {
        database.is_some_and(|database| {
            let status = database.status.as_ref();
            let conditions = status.map(|status| &status.conditions);
            conditions.into_iter().flatten().any(|it| {
                it.reason == reason && it.observed_generation == database.metadata.generation
            })
        })
    };
    let reached = await_condition(databases, "db", has).await;
    reached.expect("a watch");
    let mut objects = BTreeMap::new();
    objects.extend(all::<Database>(cluster, namespace).await);
    objects.extend(all::<ConfigMap>(cluster, namespace).await);
    objects.extend(all::<Service>(cluster, namespace).await);
    objects.extend(all::<StatefulSet>(cluster, namespace).await);
    objects
}

/// The objects of a kind, without what differs between two runs, and without the labels that Windlass adds.
async fn all<K>(cluster: &Cluster, namespace: &str) -> Vec<(String, Value)>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let kind = ApiResource::erase::<K>(&());
    let api = Api::<DynamicObject>::namespaced_with(cluster.aside(), namespace, &kind);
    let listed = api.list(&ListParams::default()).await.expect("a list");
    let objects = listed
        .into_iter()
        .filter(|it| it.name_any() != "kube-root-ca.crt");
    objects
        .map(|mut object| {
            let conditions = object.data.pointer_mut("/status/conditions");
            let conditions = conditions.and_then(Value::as_array_mut);
            for condition in conditions.into_iter().flatten() {
                condition["lastTransitionTime"] = Value::Null;
            }
            let labels = object.labels().keys();
            let labels: Vec<_> = labels.filter(|it| !ADDED.contains(&it.as_str())).collect();
            let owners = object.owner_references().iter();
            let owners =
                owners.map(|it| (&it.kind, &it.name, it.controller, it.block_owner_deletion));
            let shown = json!({
                "labels": labels,
                "finalizers": object.finalizers(),
                "owners": owners.collect::<Vec<_>>(),
                "content": object.data,
            });
            (format!("{}/{}", kind.plural, object.name_any()), shown)
        })
        .collect()
}

on_both_servers! {
    /// Rows: KR-04, KR-05, BO-12, BO-15, BO-17
    async fn a_database_operator_in_two_forms_leaves_the_same_objects(cluster: Cluster) {
        cluster.install(&Database::crd()).await;
        let kube_rs = run(&cluster, Form::KubeRs).await;
        let windlass = run(&cluster, Form::Windlass).await;
        assert_eq!(kube_rs.len(), 6);
        for (step, (kube_rs, windlass)) in kube_rs.iter().zip(&windlass).enumerate() {
            assert_eq!(kube_rs, windlass, "state {step}");
        }
    }

    /// A minute on the real server. `tests/models` has hours of virtual time for other operators.
    ///
    /// Rows: BO-06, BO-12
    async fn a_database_operator_writes_nothing_without_changes(cluster: Cluster) {
        cluster.install(&Database::crd()).await;
        let namespace = cluster.namespace().to_owned();
        let (dns, stop) = (Dns::default(), CancellationToken::new());
        let operator = windlass::operator(cluster.client().await, &namespace, dns);
        let operator = operator.expect("good settings");
        let quiet = async {
            let _stopped_at_the_end = stop.clone().drop_guard();
            create(&cluster, &namespace).await;
            let before = cluster.connection().writes();
            assert!(before > 0);
            let period = Duration::from_secs(if cluster.is_embedded() { 5 } else { 60 });
            tokio::time::sleep(period).await;
            assert_eq!(cluster.connection().writes(), before);
        };
        let (ended, ()) = futures::join!(operator.run_until(stop.clone()), quiet);
        ended.expect("it is stopped");
    }
}

/// Creates a database with its Secret, and the status of its `StatefulSet`, until it is ready.
async fn create(cluster: &Cluster, namespace: &str) {
    let params = PostParams::default();
    let mut secret = Secret::default();
    secret.metadata.name = Some("password".to_owned());
    let secrets = Api::<Secret>::namespaced(cluster.aside(), namespace);
    secrets.create(&params, &secret).await.expect("a new one");
    let spec = DatabaseSpec {
        replicas: 2,
        password_secret: "password".to_owned(),
    };
    let databases = Api::<Database>::namespaced(cluster.aside(), namespace);
    let database = Database::new("db", spec);
    databases
        .create(&params, &database)
        .await
        .expect("a new one");
    state(cluster, namespace, "PodsNotReady").await;
    let status = Patch::Merge(json!({ "status": { "replicas": 2, "readyReplicas": 2 } }));
    let sets = Api::<StatefulSet>::namespaced(cluster.aside(), namespace);
    let params = PatchParams::default();
    let patched = sets.patch_status("db", &params, &status).await;
    patched.expect("it exists");
    state(cluster, namespace, "AllPodsReady").await;
}
