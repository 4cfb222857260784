//! The `OpenAPI` v3 documents: the parts that kubectl reads.
//!
//! `kubectl create` and `apply` read the `PATCH` operation of a kind and its query parameters, and
//! `kubectl explain` reads the schema of the kind. So each kind has a path with this operation, and a
//! schema: that of the CRD for custom resources, and that of the Go type for built-in kinds.
//!
//! The documents do not list the strategic merge patch of built-in kinds: kubectl would then merge
//! with these schemas instead of its own types.
//!
//! Not supported: the other operations, and schemas of lists.

use serde_json::{Map, Value, json};

use super::{group_version, groups, hash};
use crate::registry::ResourceInfo;
use crate::typed;

mod builtin;
mod descriptions;
mod v2;

pub(crate) use v2::{openapi_v2, openapi_v2_protobuf};

/// The name of the schema of `metadata`, which each document contains.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns the document at `/openapi/v3`: the URLs of the documents of all group versions.
pub(crate) fn openapi_index<'a>(resources: impl IntoIterator<Item = &'a ResourceInfo>) -> Value {
    let resources: Vec<_> = resources.into_iter().collect();
    let mut paths = Map::new();
    for group in groups(resources.iter().copied()) {
        for (version, served) in group.versions {
            let path = root(group.name, version);
            // The document of built-in kinds changes only with the version of this crate.
            let hash = if served.iter().any(|info| info.custom) {
                hash::hex(&document(served))
            } else {
                hash::hex(&json!([path, env!("CARGO_PKG_VERSION")]))
            };
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// Returns the document at `/openapi/v3/api/v1` or `/openapi/v3/apis/{group}/{version}`; `None` if
/// the version is not served.
pub(crate) fn openapi<'a>(
    resources: impl IntoIterator<Item = &'a ResourceInfo>,
    group: &str,
    version: &str,
) -> Option<Value> {
    let served = resources
        .into_iter()
        .filter(|info| info.group == group && info.version == version);
    let mut served: Vec<_> = served.collect();
    served.sort_by(|a, b| a.plural.cmp(&b.plural));
    (!served.is_empty()).then(|| document(served))
}

/// Returns `api/v1`, or for example `apis/apps/v1`.
fn root(group: &str, version: &str) -> String {
    let prefix = if group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", group_version(group, version))
}

fn document<'a>(resources: impl IntoIterator<Item = &'a ResourceInfo>) -> Value {
    let (paths, mut schemas) = paths_and_schemas(resources, patch);
    descriptions::add(&mut schemas);
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "unversioned" },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// Returns a path for each resource, with the patch operation that `operation` creates for the name
/// of a schema; and the schemas.
fn paths_and_schemas<'a>(
    resources: impl IntoIterator<Item = &'a ResourceInfo>,
    operation: impl Fn(&ResourceInfo, &str) -> Value,
) -> (Map<String, Value>, Map<String, Value>) {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for info in resources {
        let name = components(info, &mut schemas);
        let namespace = if info.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let root = root(&info.group, &info.version);
        let path = format!("/{root}{namespace}/{}/{{name}}", info.plural);
        paths.insert(path, json!({ "patch": operation(info, &name) }));
    }
    (paths, schemas)
}

/// Adds the schema of a kind and the schemas to which it refers, and returns its name.
fn components(info: &ResourceInfo, schemas: &mut Map<String, Value>) -> String {
    let name = definition(info);
    if let Some(kind) = typed(info) {
        builtin::add(kind, schemas);
        if let Some(schema) = schemas.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([self::kind(info)]);
        }
    } else {
        if let Some(metadata) = typed::named("meta.v1.ObjectMeta") {
            builtin::add(metadata, schemas);
        }
        schemas.insert(name.clone(), schema(info));
    }
    name
}

/// Returns the name of the schema of a kind, such as `com.example.v1.Widget` or
/// `io.k8s.api.apps.v1.Deployment`.
fn definition(info: &ResourceInfo) -> String {
    if let Some(kind) = typed(info) {
        return builtin::definition(kind.name);
    }
    let package = info.group.rsplit('.').collect::<Vec<_>>().join(".");
    format!("{package}.{}.{}", info.version, info.kind)
}

/// Returns the type of a built-in kind.
fn typed(info: &ResourceInfo) -> Option<&'static typed::Struct> {
    if info.custom {
        return None;
    }
    typed::kind(&group_version(&info.group, &info.version), &info.kind)
}

fn patch(info: &ResourceInfo, definition: &str) -> Value {
    let query = |name: &str, kind: &str| json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } });
    let patches = [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ];
    let body: Map<_, _> = patches
        .into_iter()
        .map(|media| (media.to_owned(), json!({ "schema": { "type": "object" } })))
        .collect();
    let answer = json!({ "$ref": format!("#/components/schemas/{definition}") });
    json!({
        "operationId": format!("patch{}", info.kind),
        "parameters": [
            query("dryRun", "string"),
            query("fieldManager", "string"),
            query("fieldValidation", "string"),
            query("force", "boolean"),
        ],
        "requestBody": { "content": body, "required": true },
        "responses": {
            "200": { "description": "OK", "content": { "application/json": { "schema": answer } } },
        },
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind(info),
    })
}

fn kind(info: &ResourceInfo) -> Value {
    json!({ "group": info.group, "version": info.version, "kind": info.kind })
}

fn schema(info: &ResourceInfo) -> Value {
    let mut schema = match &info.open_api_schema {
        Some(schema @ Value::Object(_)) => schema.clone(),
        _ => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
    };
    schema["x-kubernetes-group-version-kind"] = json!([kind(info)]);
    let Some(schema_words) = schema.as_object_mut() else {
        return schema;
    };
    let properties = schema_words
        .entry("properties")
        .or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        // They are described as in built-in kinds.
        let described = |field| descriptions::of_field("io.k8s.api.core.v1.ConfigMap", field);
        for field in ["apiVersion", "kind"] {
            let property = json!({ "type": "string", "description": described(field) });
            properties.insert(field.to_owned(), property);
        }
        let metadata = json!({
            "allOf": [{ "$ref": format!("#/components/schemas/{OBJECT_META}") }],
            "description": described("metadata"),
        });
        properties.insert("metadata".to_owned(), metadata);
    }
    schema
}
