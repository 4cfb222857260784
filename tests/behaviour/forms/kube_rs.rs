//! The Database operator with kube-rs.

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::StatefulSet,
        core::v1::{ConfigMap, Secret, Service},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{
        controller::{Action, Controller},
        events::{Event, EventType, Recorder, Reporter},
        finalizer::{self, finalizer},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::database::{
    Database, DatabaseStatus, Dns, FINALIZER, config_map, service, stateful_set,
};

const MANAGER: &str = "databases";

/// The operator: its clients, the store of databases, and the external DNS.
struct Data {
    client: Client,
    recorder: Recorder,
    dns: Dns,
}

pub(crate) async fn run(
    client: Client,
    namespace: &str,
    dns: Dns,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let any = watcher::Config::default;
    let databases = Api::<Database>::namespaced(client.clone(), namespace);
    let configs = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let services = Api::<Service>::namespaced(client.clone(), namespace);
    let sets = Api::<StatefulSet>::namespaced(client.clone(), namespace);
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let reporter = Reporter {
        controller: MANAGER.to_owned(),
        instance: None,
    };
    let data = Data {
        recorder: Recorder::new(client.clone(), reporter),
        client,
        dns,
    };
    let controller = Controller::new(databases, any());
    let store = controller.store();
    controller
        .owns(configs, any())
        .owns(services, any())
        .owns(sets, any())
        .watches(secrets, any(), move |secret| users(&store, &secret))
        .graceful_shutdown_on(stop)
        .run(reconcile, error_policy, Arc::new(data))
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::error!(%error, "reconcile failed");
            }
        })
        .await;
}

/// The databases that use `secret`.
fn users(store: &Store<Database>, secret: &Secret) -> Vec<ObjectRef<Database>> {
    let databases = store.state_filter(|database| {
        database.namespace() == secret.namespace()
            && database.spec.password_secret == secret.name_any()
    });
    let users = databases.iter().map(|it| ObjectRef::from_obj(&**it));
    users.collect()
}

async fn reconcile(
    database: Arc<Database>,
    data: Arc<Data>,
) -> Result<Action, finalizer::Error<kube::Error>> {
    let namespace = database.namespace().unwrap_or_default();
    let databases = Api::<Database>::namespaced(data.client.clone(), &namespace);
    finalizer(&databases, FINALIZER, database, |event| async {
        match event {
            finalizer::Event::Apply(database) => {
                let (status, reason) = deploy(&database, &data).await?;
                report(&databases, &database, status, reason).await
            }
            finalizer::Event::Cleanup(database) => {
                data.dns.remove(&database.name_any());
                Ok(Action::await_change())
            }
        }
    })
    .await
}

fn error_policy(_: Arc<Database>, _: &finalizer::Error<kube::Error>, _: Arc<Data>) -> Action {
    Action::requeue(Duration::from_secs(5))
}

async fn deploy(
    database: &Database,
    data: &Data,
) -> Result<(&'static str, &'static str), kube::Error> {
    let (name, spec) = (database.name_any(), &database.spec);
    let namespace = database.namespace().unwrap_or_default();
    let secrets = Api::<Secret>::namespaced(data.client.clone(), &namespace);
    if secrets.get_opt(&spec.password_secret).await?.is_none() {
        let event = Event {
            type_: EventType::Warning,
            reason: "SecretMissing".to_owned(),
            note: Some(format!("there is no Secret {}", spec.password_secret)),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        let regarding = database.object_ref(&());
        data.recorder.publish(&event, &regarding).await?;
        return Ok(("False", "SecretMissing"));
    }
    apply::<ConfigMap>(database, data, config_map()).await?;
    apply::<Service>(database, data, service(&name)).await?;
    let set = stateful_set(&name, spec);
    let set = apply::<StatefulSet>(database, data, set).await?;
    data.dns.publish(&name);
    let ready = set.status.and_then(|status| status.ready_replicas);
    if ready.unwrap_or(0) < spec.replicas {
        return Ok(("False", "PodsNotReady"));
    }
    Ok(("True", "AllPodsReady"))
}

/// Applies a child with the name of its owner.
async fn apply<K>(database: &Database, data: &Data, content: Value) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let mut child = content;
    child["apiVersion"] = K::api_version(&()).into();
    child["kind"] = K::kind(&()).into();
    child["metadata"] = json!({
        "name": database.name_any(),
        "ownerReferences": [database.controller_owner_ref(&())],
    });
    let namespace = database.namespace().unwrap_or_default();
    let children = Api::<K>::namespaced(data.client.clone(), &namespace);
    let params = PatchParams::apply(MANAGER).force();
    let name = database.name_any();
    children.patch(&name, &params, &Patch::Apply(child)).await
}

/// Writes the condition `Ready`, if it has changed.
async fn report(
    databases: &Api<Database>,
    database: &Database,
    status: &str,
    reason: &str,
) -> Result<Action, kube::Error> {
    let mut conditions = database.status.clone().unwrap_or_default().conditions;
    let old = conditions.iter().position(|it| it.type_ == "Ready");
    let old = old.map(|index| conditions.remove(index));
    let since = old.as_ref().filter(|old| old.status == status);
    let since = since.map(|old| old.last_transition_time.clone());
    conditions.push(Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: database.meta().generation,
        last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
    });
    let new = DatabaseStatus { conditions };
    if database.status.as_ref() != Some(&new) {
        let patch = Patch::Merge(json!({ "status": new }));
        let (name, params) = (database.name_any(), PatchParams::default());
        databases.patch_status(&name, &params, &patch).await?;
    }
    Ok(Action::await_change())
}
