//! The Database operator in Windlass' own form.

use std::error::Error;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Secret, Service},
};
use kube::{Client, ResourceExt as _};
use windlass::{
    Context, Controller, Desired, Failure, ObjectKey, ObjectReconciler, Operator, Outcome, Owned,
    Watch,
    conditions::{Conditions as _, NewCondition},
    level::Referred,
    recorder::ObjectEvent,
};

use super::database::{Database, Dns, FINALIZER, config_map, service, stateful_set};

/// The operator: its handles to other kinds, and the external DNS.
struct Databases {
    configs: Owned<Database, ConfigMap>,
    services: Owned<Database, Service>,
    sets: Owned<Database, StatefulSet>,
    secrets: Referred<Database, Secret>,
    dns: Dns,
}

pub(crate) fn operator(
    client: Client,
    namespace: &str,
    dns: Dns,
) -> Result<Operator, Box<dyn Error>> {
    let mut databases = Controller::<Database>::builder(client, Watch::namespaced(namespace));
    let reconciler = Databases {
        configs: databases.owns(Watch::namespaced(namespace)),
        services: databases.owns(Watch::namespaced(namespace)),
        sets: databases.owns(Watch::namespaced(namespace)),
        secrets: databases.refers_to(Watch::namespaced(namespace), |database: &Database| {
            let name = ObjectKey::new(database.spec.password_secret.as_str());
            Some(name.within(database.namespace()?))
        }),
        dns,
    };
    let operator = Operator::new();
    operator.add_controller(databases.finalizer(FINALIZER).build(reconciler)?)?;
    Ok(operator)
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
        self.dns.remove(cx.key().name());
        Ok(Outcome::done())
    }
}

impl Databases {
    async fn deploy(&self, cx: &Context<Database>) -> Result<NewCondition, Failure> {
        let (name, spec) = (cx.key().name(), &cx.object().spec);
        if self.secrets.one(cx).is_none() {
            let note = format!("there is no Secret {}", spec.password_secret);
            cx.event(ObjectEvent::warning("SecretMissing", note));
            return Ok(NewCondition::no("Ready", "SecretMissing"));
        }
        self.configs.apply(cx, Desired::json(config_map())).await?;
        self.services
            .apply(cx, Desired::json(service(name)))
            .await?;
        let set = Desired::json(stateful_set(name, spec));
        let set = self.sets.apply(cx, set).await?;
        self.dns.publish(name);
        let ready = set.status.as_ref().and_then(|status| status.ready_replicas);
        if ready.unwrap_or(0) < spec.replicas {
            return Ok(NewCondition::no("Ready", "PodsNotReady"));
        }
        Ok(NewCondition::yes("Ready", "AllPodsReady"))
    }
}
