//! The kind of the Database operator, and the contents of its children.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The finalizer for the names in the DNS.
pub(crate) const FINALIZER: &str = "forms.windlass.dev/dns";

/// A database.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "forms.windlass.dev",
    version = "v1",
    kind = "Database",
    namespaced,
    status = "DatabaseStatus"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseSpec {
    pub(crate) replicas: i32,
    pub(crate) password_secret: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub(crate) struct DatabaseStatus {
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
}

/// An external DNS, with the names of the databases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dns(Arc<Mutex<BTreeSet<String>>>);

// === impl Dns ===

impl Dns {
    pub(crate) fn publish(&self, name: &str) {
        self.0.lock().expect("no panic").insert(name.to_owned());
    }

    pub(crate) fn remove(&self, name: &str) {
        self.0.lock().expect("no panic").remove(name);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().expect("no panic").iter().cloned().collect()
    }
}

pub(crate) fn config_map() -> Value {
    json!({ "data": { "max_connections": "100" } })
}

pub(crate) fn service(name: &str) -> Value {
    json!({ "spec": {
        "clusterIP": "None", "selector": { "database": name }, "ports": [{ "port": 5432 }],
    }})
}

pub(crate) fn stateful_set(name: &str, spec: &DatabaseSpec) -> Value {
    let labels = json!({ "database": name });
    json!({ "spec": {
        "replicas": spec.replicas,
        "serviceName": name,
        "selector": { "matchLabels": labels },
        "template": {
            "metadata": { "labels": labels },
            "spec": { "containers": [{
                "name": "server",
                "image": "postgres:18",
                "imagePullPolicy": "IfNotPresent",
                "envFrom": [{ "secretRef": { "name": spec.password_secret } }],
            }] },
        },
    }})
}
