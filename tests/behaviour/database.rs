//! An operator as a user writes it: databases with a `StatefulSet`, a `Service`, a `ConfigMap`, a
//! `Secret` that the spec names, a name in an external DNS, and a status.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{ConfigMap, Secret, Service},
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    Context, Controller, Desired, Failure, ObjectKey, ObjectReconciler, Operator, Outcome, Owned,
    Watch,
    conditions::{Conditions as _, NewCondition},
    level::Referred,
    recorder::ObjectEvent,
};

use crate::{
    cluster::{Cluster, await_condition},
    watched::quick,
};

/// A database.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "test.windlass.dev",
    version = "v1",
    kind = "Database",
    namespaced
)]
#[kube(status = "DatabaseStatus")]
#[serde(rename_all = "camelCase")]
struct DatabaseSpec {
    replicas: i32,
    password_secret: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct DatabaseStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

/// The operator's state: its handles and the external DNS.
struct Databases {
    configs: Owned<Database, ConfigMap>,
    services: Owned<Database, Service>,
    sets: Owned<Database, StatefulSet>,
    secrets: Referred<Database, Secret>,
    dns: Arc<Mutex<BTreeSet<String>>>,
}

impl ObjectReconciler<Database> for Databases {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Database>) -> Result<Outcome, Failure> {
        let ready = self.deploy(&cx).await?;
        let mut status = cx.object().status.clone().unwrap_or_default();
        status.conditions.set(cx.generation(), ready)?;
        cx.write_status(status).await?;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Database>) -> Result<Outcome, Failure> {
        self.dns
            .lock()
            .expect("no panic")
            .remove(&cx.key().to_string());
        Ok(Outcome::done())
    }
}

impl Databases {
    /// Brings the children to the state of the spec. Returns the condition of the status.
    async fn deploy(&self, cx: &Context<Database>) -> Result<NewCondition, Failure> {
        let database = cx.object();
        // Created later, or the spec names another one: then there is another call.
        let Some(secret) = self.secrets.one(cx) else {
            let name = &database.spec.password_secret;
            cx.event(ObjectEvent::warning(
                "SecretMissing",
                format!("no Secret {name}"),
            ));
            return Ok(NewCondition::no("Ready", "SecretMissing").message(name));
        };
        let labels = json!({ "database": cx.key().name() });
        self.configs
            .apply(
                cx,
                Desired::json(json!({ "data": { "max_connections": "100" } })),
            )
            .await?;
        let service = json!({ "spec": {
            "clusterIP": "None", "selector": labels, "ports": [{ "port": 5432 }],
        }});
        self.services.apply(cx, Desired::json(service)).await?;
        let set = json!({ "spec": {
            "replicas": database.spec.replicas,
            "serviceName": cx.key().name(),
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{
                    "name": "server",
                    "image": "postgres:18",
                    "imagePullPolicy": "IfNotPresent",
                    "envFrom": [{ "secretRef": { "name": secret.name_any() } }],
                }] },
            },
        }});
        let set = self.sets.apply(cx, Desired::json(set)).await?;
        self.dns
            .lock()
            .expect("no panic")
            .insert(cx.key().to_string());
        let ready = set.status.as_ref().and_then(|status| status.ready_replicas);
        // A change of the StatefulSet's status reconciles again.
        Ok(if ready.unwrap_or(0) < database.spec.replicas {
            NewCondition::no("Ready", "PodsNotReady")
        } else {
            NewCondition::yes("Ready", "AllPodsReady")
        })
    }
}

on_both_servers! {
    /// Rows: KR-04, KR-05, BO-12, BO-15, BO-17, BO-29
    async fn a_database_is_deployed_reconfigured_and_cleaned_up(cluster: Cluster) {
        cluster.install(&Database::crd()).await;
        let dns = Arc::<Mutex<BTreeSet<String>>>::default();
        let operator = operator(&cluster, &dns).await;
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let stop = stop.clone();
            async move { operator.run_until(stop).await }
        });
        let running = AbortOnDropHandle::new(running);

        let databases = cluster.api_aside::<Database>();
        let secrets = cluster.api_aside::<Secret>();
        let sets = cluster.api_aside::<StatefulSet>();
        let spec = DatabaseSpec { replicas: 2, password_secret: "password".to_owned() };
        databases.create(&PostParams::default(), &Database::new("db", spec)).await.expect("new");
        let missing = reaches(&databases, "SecretMissing").await;
        assert_eq!((&*missing.status, missing.observed_generation), ("False", Some(1)));
        assert!(sets.get_opt("db").await.expect("a response").is_none());

        create_secret(&secrets, "password").await;
        let not_ready = reaches(&databases, "PodsNotReady").await;
        assert_eq!(not_ready.last_transition_time, missing.last_transition_time, "still false");
        let set = sets.get("db").await.expect("applied");
        assert_eq!(set.owner_references()[0].name, "db");
        cluster.api_aside::<Service>().get("db").await.expect("applied");
        cluster.api_aside::<ConfigMap>().get("db").await.expect("applied");
        assert_eq!(dns.lock().expect("no panic").len(), 1);

        // The test plays the controller of StatefulSets.
        let status = json!({ "status": { "replicas": 2, "readyReplicas": 2 } });
        let patched = sets.patch_status("db", &PatchParams::default(), &Patch::Merge(status)).await;
        patched.expect("there");
        reaches(&databases, "AllPodsReady").await;

        merge(&databases, json!({ "spec": { "passwordSecret": "other" } })).await;
        reaches(&databases, "SecretMissing").await;
        create_secret(&secrets, "other").await;
        reaches(&databases, "AllPodsReady").await;
        merge(&databases, json!({ "spec": { "replicas": 3 } })).await;
        reaches(&databases, "PodsNotReady").await;
        let set = sets.get("db").await.expect("there");
        assert_eq!(set.spec.and_then(|spec| spec.replicas), Some(3));

        databases.delete("db", &DeleteParams::default()).await.expect("there");
        let gone = |database: Option<&Database>| database.is_none();
        await_condition(databases, "db", gone).await.expect("deleted");
        assert!(dns.lock().expect("no panic").is_empty());
        stop.cancel();
        running.await.expect("no panic").expect("a graceful shutdown");

        let events = cluster.api_aside::<Event>().list(&ListParams::default()).await;
        let events = events.expect("a list").items;
        let notes: Vec<_> = events.iter().filter_map(|event| event.note.as_deref()).collect();
        // Two causes with one reason are counted in one Event.
        assert_eq!(notes, ["no Secret password"], "the note of the first one");
        let regarding = events[0].regarding.as_ref().expect("an object");
        assert_eq!((regarding.kind.as_deref(), regarding.name.as_deref()), (Some("Database"), Some("db")));
    }
}

async fn operator(cluster: &Cluster, dns: &Arc<Mutex<BTreeSet<String>>>) -> Operator {
    let databases = Watch::from(cluster.api::<Database>().await).settings(quick);
    let mut databases = Controller::builder(cluster.client().await, databases);
    let password = |database: &Database| {
        let name = ObjectKey::new(database.spec.password_secret.as_str());
        Some(name.within(database.namespace()?))
    };
    let reconciler = Databases {
        configs: databases.owns(Watch::from(cluster.api().await).settings(quick)),
        services: databases.owns(Watch::from(cluster.api().await).settings(quick)),
        sets: databases.owns(Watch::from(cluster.api().await).settings(quick)),
        secrets: databases.refers_to(Watch::from(cluster.api().await).settings(quick), password),
        dns: Arc::clone(dns),
    };
    let databases = databases
        .finalizer("test.windlass.dev/dns")
        .build(reconciler);
    let operator = Operator::new();
    operator
        .add_controller(databases.expect("good settings"))
        .expect("a new name");
    operator
}

/// Waits for a condition with this reason, and returns it.
async fn reaches(databases: &Api<Database>, reason: &'static str) -> Condition {
    let find = move |database: &Database| {
        let conditions = &database.status.as_ref()?.conditions;
        conditions.iter().find(|it| it.reason == reason).cloned()
    };
    let has = move |database: Option<&Database>| database.and_then(find).is_some();
    let database = await_condition(databases.clone(), "db", has).await;
    let database = database.expect("the status changes");
    database.as_ref().and_then(find).expect("it has it")
}

async fn create_secret(secrets: &Api<Secret>, name: &str) {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .expect("new");
}

async fn merge(databases: &Api<Database>, patch: serde_json::Value) {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    databases.patch("db", &params, &patch).await.expect("there");
}
