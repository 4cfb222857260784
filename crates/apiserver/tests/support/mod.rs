//! What the tests share: a client of a server, and a kind of their own.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

/// A client without a socket.
pub(crate) fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

/// The definition of `widgets.ex.io`, with a status of its own.
pub(crate) fn widget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.ex.io" },
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget", "shortNames": ["wd"] },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "selectableFields": [{ "jsonPath": ".spec.color" }],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["size"],
                            "properties": {
                                "size": { "type": "integer", "minimum": 1 },
                                "color": { "type": "string", "default": "grey" },
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": { "ready": { "type": "boolean" } },
                        },
                    },
                }},
            }],
        },
    })
}

/// Registers a definition.
pub(crate) async fn register(client: &Client, definition: Value) -> kube::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(definition).map_err(kube::Error::SerdeError)?;
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .map(drop)
}

/// What kube calls the kind of a widget.
pub(crate) fn widget_resource() -> ApiResource {
    ApiResource {
        group: "ex.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "ex.io/v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    }
}

/// The widgets of the namespace `default`.
pub(crate) fn widgets(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &widget_resource())
}

/// A widget.
pub(crate) fn widget(name: &str, spec: &Value) -> DynamicObject {
    DynamicObject::new(name, &widget_resource()).data(json!({ "spec": spec }))
}

/// The status with which a request was refused.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason, status.message),
        other => panic!("expected a refusal, not {other:?}"),
    }
}
