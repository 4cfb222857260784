//! The custom resources of the tests.

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{CustomResource, Resource, ResourceExt, api::ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind with a status.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "test.windlass.dev",
    version = "v1",
    kind = "Gadget",
    namespaced,
    status = "GadgetStatus"
)]
pub(crate) struct GadgetSpec {
    pub(crate) size: u32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct GadgetStatus {
    pub(crate) ready: bool,
}

/// A kind whose Rust type asks for more than its schema does.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "test.windlass.dev",
    version = "v1",
    kind = "Gizmo",
    namespaced
)]
pub(crate) struct GizmoSpec {
    pub(crate) size: u32,
}

/// A `ConfigMap`, of which an operator reads one value.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = ConfigMap)]
pub(crate) struct Setting {
    pub(crate) metadata: ObjectMeta,
    pub(crate) data: SettingData,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SettingData {
    pub(crate) value: String,
}

/// A `CustomResourceDefinition` for [`Gizmo`] that takes anything.
pub(crate) fn loose_gizmo() -> CustomResourceDefinition {
    serde_json::from_value(serde_json::json!({
        "metadata": { "name": "gizmos.test.windlass.dev" },
        "spec": {
            "group": "test.windlass.dev",
            "scope": "Namespaced",
            "names": { "kind": "Gizmo", "plural": "gizmos", "singular": "gizmo" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    }))
    .expect("a definition")
}

pub(crate) fn config(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("value".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

pub(crate) fn labelled<K: ResourceExt>(mut object: K, key: &str, value: &str) -> K {
    object.labels_mut().insert(key.to_owned(), value.to_owned());
    object
}

/// The value of a [`config`].
pub(crate) fn value(object: &ConfigMap) -> &str {
    object
        .data
        .as_ref()
        .and_then(|data| data.get("value"))
        .map_or("", String::as_str)
}
