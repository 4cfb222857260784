//! Tests of the discovery documents.

use serde_json::{Value, json};

use super::{
    aggregated, api_versions, group, group_list, openapi, openapi_index, resource_list, version,
};
use crate::registry::{ResourceInfo, Subresource};

/// Rows of docs/apiserver.md: 117.
#[test]
fn groups_list_their_versions_the_preferred_one_first() {
    let resources = resources();
    let list = group_list(&resources);
    check(&list, "/kind", &json!("APIGroupList"));
    check(&list, "/groups/0/name", &json!("apps"));
    check(&list, "/groups/1/name", &json!("ex.io"));
    check(&list, "/groups/2", &Value::Null);
    check(
        &list,
        "/groups/1/versions/0/groupVersion",
        &json!("ex.io/v1"),
    );
    check(&list, "/groups/1/versions/1/version", &json!("v1beta1"));

    let one = group(&resources, "ex.io").expect("the group is served");
    check(&one, "/kind", &json!("APIGroup"));
    check(&one, "/preferredVersion/groupVersion", &json!("ex.io/v1"));
    assert_eq!(group(&resources, "none.io"), None);
    assert_eq!(group(&resources, ""), None);
    check(&api_versions("127.0.0.1:1"), "/versions", &json!(["v1"]));
}

/// Rows of docs/apiserver.md: 117.
#[test]
fn a_version_lists_its_resources_and_their_subresources() {
    let resources = resources();
    let list = resource_list(&resources, "ex.io", "v1beta1").expect("the version is served");
    check(&list, "/kind", &json!("APIResourceList"));
    check(&list, "/groupVersion", &json!("ex.io/v1beta1"));
    check(
        &list,
        "/resources/0",
        &json!({
            "name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget",
            "verbs": ["get", "list"], "shortNames": ["wd"], "categories": ["all"],
            "storageVersionHash": super::hash::storage_version("ex.io", "v1", "Widget"),
        }),
    );
    check(
        &list,
        "/resources/2",
        &json!({
            "name": "widgets/scale", "singularName": "", "namespaced": true, "kind": "Scale",
            "group": "autoscaling", "version": "v1", "verbs": ["get"],
        }),
    );
    check(
        &list,
        "/resources/1",
        &json!({"name": "widgets/status", "singularName": "", "namespaced": true,
                "kind": "Widget", "verbs": ["get"]}),
    );
    check(&list, "/resources/3", &Value::Null);
    let core = resource_list(&resources, "", "v1").expect("the version is served");
    check(&core, "/groupVersion", &json!("v1"));
    assert_eq!(resource_list(&resources, "ex.io", "v9"), None);
}

/// Rows of docs/apiserver.md: 118.
#[test]
fn the_aggregated_document_has_all_groups_and_resources() {
    let resources = resources();
    let apis = aggregated(&resources, false);
    check(&apis, "/apiVersion", &json!("apidiscovery.k8s.io/v2"));
    check(&apis, "/items/0/metadata/name", &json!("apps"));
    check(&apis, "/items/1/versions/0/version", &json!("v1"));
    check(&apis, "/items/1/versions/0/freshness", &json!("Current"));
    let widgets = apis
        .pointer("/items/1/versions/0/resources/0")
        .expect("there are widgets");
    check(widgets, "/scope", &json!("Namespaced"));
    check(
        widgets,
        "/responseKind",
        &json!({"group": "ex.io", "version": "v1", "kind": "Widget"}),
    );
    check(
        widgets,
        "/subresources/0/responseKind",
        &json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
    );
    let api = aggregated(&resources, true);
    check(&api, "/items/0/metadata", &json!({}));
    check(
        &api,
        "/items/0/versions/0/resources/0/scope",
        &json!("Cluster"),
    );
    check(&api, "/items/1", &Value::Null);
}

/// Rows of docs/apiserver.md: 120.
#[test]
fn the_version_document_has_all_parts_of_the_version() {
    let version = version("v1.36.3");
    check(&version, "/major", &json!("1"));
    check(&version, "/minor", &json!("36"));
    check(&version, "/emulationMinor", &json!("36"));
    check(&version, "/minCompatibilityMinor", &json!("35"));
    check(&version, "/gitVersion", &json!("v1.36.3"));
}

/// Rows of docs/apiserver.md: 122.
#[test]
fn kubectl_finds_the_patch_and_the_schema_of_a_kind() {
    let resources = resources();
    let index = openapi_index(&resources);
    let url = index
        .pointer("/paths/apis~1ex.io~1v1/serverRelativeURL")
        .and_then(Value::as_str);
    assert!(
        url.is_some_and(|url| url.starts_with("/openapi/v3/apis/ex.io/v1?hash=")),
        "{url:?}"
    );
    assert!(index.pointer("/paths/api~1v1").is_some());

    let document = openapi(&resources, "ex.io", "v1").expect("the version is served");
    let patch = &document["paths"]["/apis/ex.io/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    check(
        patch,
        "/x-kubernetes-group-version-kind",
        &json!({"group": "ex.io", "version": "v1", "kind": "Widget"}),
    );
    let parameters = patch["parameters"]
        .as_array()
        .expect("there are parameters");
    for wanted in ["dryRun", "fieldValidation"] {
        assert!(
            parameters
                .iter()
                .any(|parameter| parameter["name"] == wanted),
            "{wanted}"
        );
    }
    let schema = &document["components"]["schemas"]["io.ex.v1.Widget"];
    check(
        schema,
        "/properties/spec/properties/size/type",
        &json!("integer"),
    );
    check(
        schema,
        "/x-kubernetes-group-version-kind/0/kind",
        &json!("Widget"),
    );
    check(
        schema,
        "/properties/metadata/allOf/0/$ref",
        &json!("#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
    );

    let core = openapi(&resources, "", "v1").expect("the version is served");
    assert!(core["paths"].get("/api/v1/namespaces/{name}").is_some());
    assert!(
        core["components"]["schemas"]
            .get("io.k8s.api.core.v1.Namespace")
            .is_some()
    );
    assert_eq!(openapi(&resources, "ex.io", "v9"), None);
}

/// Out of order, as a registry may give them.
fn resources() -> Vec<ResourceInfo> {
    let widget = |version: &str, storage| ResourceInfo {
        namespaced: true,
        short_names: vec!["wd".to_owned()],
        categories: vec!["all".to_owned()],
        subresources: vec![
            sub("status", "ex.io", version, "Widget"),
            sub("scale", "autoscaling", "v1", "Scale"),
        ],
        custom: true,
        storage,
        open_api_schema: Some(json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "metadata": {"type": "object"},
        }})),
        ..info("ex.io", version, "Widget")
    };
    vec![
        widget("v1beta1", false),
        widget("v1", true),
        info("apps", "v1", "Deployment"),
        info("", "v1", "Namespace"),
    ]
}

fn sub(name: &str, group: &str, version: &str, kind: &str) -> Subresource {
    Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: vec!["get".to_owned()],
    }
}

fn info(group: &str, version: &str, kind: &str) -> ResourceInfo {
    ResourceInfo {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: format!("{}s", kind.to_lowercase()),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        verbs: vec!["get".to_owned(), "list".to_owned()],
        subresources: Vec::new(),
        storage: true,
        custom: false,
        deprecation: None,
        open_api_schema: None,
    }
}

#[track_caller]
fn check(document: &Value, pointer: &str, wanted: &Value) {
    assert_eq!(
        document.pointer(pointer).unwrap_or(&Value::Null),
        wanted,
        "{pointer}"
    );
}
