//! The documents about the built-in kinds: each entry of the embedded server equals that of the
//! real one.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_apiserver::ApiServer;

use super::openapi::bare;
use super::raw::Raw;
use crate::cluster::Cluster;

/// Resources that the embedded server does not serve.
const NOT_SERVED: [&str; 3] = ["/v1 bindings", "/v1 componentstatuses", "/proxy"];

/// The schemas of types that are not the types of a stored kind, of a part of one or of a review.
const NOT_DESCRIBED: [&str; 18] = [
    "List",
    "ComponentStatus",
    "ComponentCondition",
    "v1.Binding",
    "Eviction",
    "TokenRequest",
    "BoundObjectReference",
    "autoscaling.v1.Scale",
    "JSONSchemaPropsOr",
    "APIResource",
    "DeleteOptions",
    "FieldsV1",
    "Patch",
    "Preconditions",
    "RawExtension",
    "ShardInfo",
    "meta.v1.Status",
    "WatchEvent",
];

/// Definitions of documents that no resource has: those of discovery and `/version`.
const NOT_DEFINED: [&str; 5] = [
    "meta.v1.APIGroup",
    "meta.v1.APIVersions",
    "meta.v1.GroupVersionForDiscovery",
    "meta.v1.ServerAddressByClientCIDR",
    "pkg.version.Info",
];

/// Schemas that differ: a list type of bytes, a reference without `allOf`, the parts of schemas of
/// schemas, and the version and kind of a type that is a part of another one.
const OTHER_SCHEMAS: [&str; 4] = [
    "APIServiceSpec",
    "IngressRule",
    "JSONSchemaProps",
    "apis/apps/v1 io.k8s.api.core.v1.PersistentVolumeClaim",
];

/// The entries of documents, by their names.
type Entries = BTreeMap<String, Value>;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Compares the entries of the server of `cluster` with those of an embedded one.
async fn compare(cluster: &Cluster, absent: &[&str], read: impl AsyncFn(&Raw) -> Entries) {
    let server = ApiServer::new();
    let ours = Raw::of(kube::Client::new(server.service(), "default"), "default");
    let (theirs, ours) = (read(&Raw::new(cluster).await).await, read(&ours).await);
    assert!(!ours.is_empty());
    let mut differences = Vec::new();
    for (name, entry) in &theirs {
        match ours.get(name) {
            Some(same) if same == entry => {}
            Some(_) if OTHER_SCHEMAS.iter().any(|known| name.ends_with(known)) => {}
            Some(other) => differences.push(format!("{name}:\n  real {entry}\n  here {other}")),
            None if absent.iter().any(|known| name.contains(known)) => {}
            None => differences.push(format!("{name}: only real: {entry}")),
        }
    }
    let more = ours.keys().filter(|name| !theirs.contains_key(*name));
    differences.extend(more.map(|name| format!("{name}: only here")));
    let count = differences.len();
    assert!(
        differences.is_empty(),
        "{count} of {}:\n{}",
        theirs.len(),
        differences.join("\n")
    );
    println!("{} entries are equal", ours.len());
}

/// Whether a group is part of Kubernetes: other tests define custom ones.
fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with("k8s.io")
}

/// The items of a list in a document.
fn items<'a>(document: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    document[field].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The groups, and the resources of each version.
async fn plain(raw: &Raw) -> Entries {
    let mut entries = Entries::new();
    let mut paths = vec!["/api/v1".to_owned()];
    for group in items(&raw.get("/apis").await.ok(), "groups") {
        if is_built_in(text(group, "name")) {
            entries.insert(format!("group {}", text(group, "name")), group.clone());
            let versions = items(group, "versions");
            paths.extend(versions.map(|it| format!("/apis/{}", text(it, "groupVersion"))));
        }
    }
    for path in paths {
        for resource in items(&raw.get(&path).await.ok(), "resources") {
            entries.insert(
                format!("{path} {}", text(resource, "name")),
                resource.clone(),
            );
        }
    }
    entries
}

/// The resources and subresources of the aggregated documents.
async fn aggregated(raw: &Raw) -> Entries {
    let mut entries = Entries::new();
    for path in ["/api", "/apis"] {
        let document = raw.get_as(path, AGGREGATED).await.ok();
        for group in items(&document, "items") {
            let name = text(&group["metadata"], "name");
            for version in items(group, "versions").filter(|_| is_built_in(name)) {
                let place = format!("{name}/{}", text(version, "version"));
                entries.insert(format!("{place} freshness"), version["freshness"].clone());
                for resource in items(version, "resources") {
                    let mut resource = resource.clone();
                    let place = format!("{place} {}", text(&resource, "resource"));
                    for part in items(&resource, "subresources") {
                        entries.insert(
                            format!("{place}/{}", text(part, "subresource")),
                            part.clone(),
                        );
                    }
                    if let Some(members) = resource.as_object_mut() {
                        members.remove("subresources");
                    }
                    entries.insert(place, resource);
                }
            }
        }
    }
    entries
}

/// The schemas of `OpenAPI` v3.
async fn schemas(raw: &Raw) -> Entries {
    let mut entries = Entries::new();
    let index = raw.get("/openapi/v3").await.ok();
    for path in index["paths"].as_object().expect("paths").keys() {
        let group = path
            .strip_prefix("apis/")
            .and_then(|path| path.split_once('/'));
        let is_group = path == "api/v1" || group.is_some_and(|(group, _)| is_built_in(group));
        if !is_group {
            continue;
        }
        let document = raw.get(&format!("/openapi/v3/{path}")).await.ok();
        let schemas = document
            .pointer("/components/schemas")
            .and_then(Value::as_object);
        for (name, schema) in schemas.into_iter().flatten() {
            let mut schema = schema.clone();
            mask_schema(&mut schema);
            entries.insert(format!("{path} {name}"), schema);
        }
    }
    entries
}

/// The definitions of `OpenAPI` v2.
async fn definitions(raw: &Raw) -> Entries {
    let document = raw.get("/openapi/v2").await.ok();
    let definitions = document["definitions"].as_object().expect("definitions");
    // Those of custom kinds begin with their group.
    let definitions = definitions
        .iter()
        .filter(|(name, _)| name.starts_with("io.k8s."));
    let definitions = definitions.map(|(name, definition)| {
        let mut definition = bare(definition);
        mask_schema(&mut definition);
        (name.clone(), definition)
    });
    definitions.collect()
}

/// Removes what the embedded server does not have, or orders otherwise.
fn mask_schema(schema: &mut Value) {
    if let Some(members) = schema.as_object_mut() {
        members.remove("x-kubernetes-unions");
        if let Some(required) = members.get_mut("required").and_then(Value::as_array_mut) {
            required.sort_by_key(Value::to_string);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        for inner in ["items", "additionalProperties"] {
            if let Some(members) = property.get_mut(inner).and_then(Value::as_object_mut) {
                members.remove("enum");
            }
        }
    }
}

on_both_servers! {
    /// docs/apiserver.md: row 117.
    async fn the_documents_of_groups_and_versions_are_equal(cluster: Cluster) {
        cluster.require_the_default_version();
        compare(&cluster, &NOT_SERVED, plain).await;
    }

    /// docs/apiserver.md: row 118.
    async fn the_aggregated_documents_are_equal(cluster: Cluster) {
        cluster.require_the_default_version();
        compare(&cluster, &NOT_SERVED, aggregated).await;
    }

    /// docs/apiserver.md: row 122.
    async fn the_schemas_of_types_are_equal(cluster: Cluster) {
        cluster.require_the_default_version();
        compare(&cluster, &NOT_DESCRIBED, schemas).await;
    }
    /// docs/apiserver.md: row 123.
    async fn the_definitions_of_the_old_document_are_equal(cluster: Cluster) {
        if !cluster.has_the_default_version() {
            return;
        }
        let absent = [&NOT_DESCRIBED[..], &NOT_DEFINED].concat();
        compare(&cluster, &absent, definitions).await;
    }
}
