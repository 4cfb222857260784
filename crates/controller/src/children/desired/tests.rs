//! Tests of `desired.rs`.

use k8s_openapi::api::{core::v1::ConfigMap, core::v1::Secret, rbac::v1::ClusterRole};
use kube::Resource;
use serde_json::json;

use super::*;
use crate::children::plan::APPLIED;

fn parent(namespace: Option<&str>) -> Parent {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("blog".into());
    map.metadata.namespace = namespace.map(str::to_owned);
    map.metadata.uid = Some("u-1".into());
    Parent::of(&map, &(), "websites").expect("it has a uid")
}

/// One row: the key of the child of a parent in `namespace`, or why it is invalid.
#[track_caller]
fn check<C>(namespace: Option<&str>, desired: Desired<C>, expected: &str)
where
    C: Resource<DynamicType = ()> + 'static,
{
    let kind = ChildKind::of::<C>(&());
    let shown = match desired.prepare(&parent(namespace), &kind) {
        Ok(prepared) => prepared.key.to_string(),
        Err(ChildError::Invalid { source, .. }) => source.to_string(),
        Err(other) => panic!("{other}"),
    };
    assert!(shown.starts_with(expected), "{shown:?}, not {expected:?}");
}

/// Rows: RO-31
#[test]
fn a_child_has_a_name_a_namespace_and_the_declared_kind() {
    let map = Desired::<ConfigMap>::json;
    let role = Desired::<ClusterRole>::json;
    let shop = Some("shop");
    check(shop, map(json!({})), "shop/blog");
    check(shop, map(json!({})).named("web"), "shop/web");
    check(
        shop,
        map(json!({ "metadata": { "name": "web", "namespace": "shop" } })),
        "shop/web",
    );
    check(None, role(json!({})), "blog");
    check(
        None,
        map(json!({ "metadata": { "namespace": "shop" } })),
        "shop/blog",
    );

    check(
        shop,
        map(json!({ "metadata": { "generateName": "web-" } })),
        "it needs a name",
    );
    check(
        shop,
        map(json!({ "kind": "Secret" })),
        "it is a Secret, and only ConfigMap of v1",
    );
    check(
        shop,
        map(json!({ "apiVersion": "v2" })),
        "it is a v2, and only",
    );
    check(shop, map(json!([])), "it must be a JSON object");
    check(
        shop,
        map(json!({ "metadata": 7 })),
        "its metadata must be a map",
    );
    check(
        shop,
        map(json!({ "metadata": { "labels": [] } })),
        "its labels must be a map",
    );
    check(
        shop,
        map(json!({})).named("a/../b"),
        "its name \"a/../b\" is not",
    );
    check(shop, map(json!({})).named(".."), "its name \"..\" is not");
    check(shop, map(json!({})).named("a?b"), "its name \"a?b\" is not");
    check(None, map(json!({})), "it needs a namespace");
    check(
        None,
        role(json!({ "metadata": { "namespace": "shop" } })),
        "its kind is cluster-scoped, and",
    );
}

/// Rows: RO-42
#[test]
fn a_child_elsewhere_needs_permission_and_has_no_owner_reference() {
    let elsewhere = || {
        let object = json!({ "metadata": { "namespace": "other" } });
        Desired::<ConfigMap>::json(object)
    };
    check(
        Some("shop"),
        elsewhere(),
        "it is not in the namespace of its parent",
    );
    check(Some("shop"), elsewhere().untracked_owner(), "other/blog");
    let role = || Desired::<ClusterRole>::json(json!({}));
    check(Some("shop"), role(), "it is not in the namespace");
    check(Some("shop"), role().untracked_owner(), "blog");

    let kind = ChildKind::of::<ConfigMap>(&());
    let prepared = elsewhere()
        .untracked_owner()
        .prepare(&parent(Some("shop")), &kind)
        .expect("allowed");
    assert!(prepared.body["metadata"]["ownerReferences"].is_null());
    assert_eq!(
        prepared.body["metadata"]["labels"]["windlass.dev/parent-uid"],
        "u-1"
    );
}

#[test]
fn a_child_from_the_store_is_written_without_the_fields_of_the_server() {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("web".into());
    map.metadata.uid = Some("u-7".into());
    map.metadata.resource_version = Some("9".into());
    map.metadata.generation = Some(3);
    map.metadata.managed_fields = Some(Vec::new());
    let kind = ChildKind::of::<ConfigMap>(&());
    let prepared = Desired::from(map).prepare(&parent(Some("shop")), &kind);
    let body = prepared.expect("valid").body;
    let metadata = body["metadata"].as_object().expect("a map");
    let fields: Vec<_> = metadata.keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        [
            "annotations",
            "labels",
            "name",
            "namespace",
            "ownerReferences"
        ]
    );
}

#[test]
fn the_string_data_of_a_secret_is_encoded() {
    let kind = ChildKind::of::<Secret>(&());
    let prepare = |object: Value| {
        let prepared = Desired::<Secret>::json(object).prepare(&parent(Some("shop")), &kind);
        prepared.map(|it| it.body)
    };
    let body = prepare(json!({
        "data": { "a": "MQ==", "b": "Mg==" }, "stringData": { "b": "two", "c": "" },
    }));
    let body = body.expect("valid");
    assert_eq!(
        body["data"],
        json!({ "a": "MQ==", "b": "dHdv", "c": "" }),
        "stringData wins, as in the API server"
    );
    assert!(body.get("stringData").is_none());
    assert!(prepare(json!({ "stringData": [] })).is_err());
    assert!(prepare(json!({ "stringData": { "a": 7 } })).is_err());
}

/// Rows: BO-66
#[test]
fn overrides_of_a_secret_win_in_each_form() {
    let kind = ChildKind::of::<Secret>(&());
    let prepare = |overrides: Value| {
        let object = json!({ "data": { "a": "MQ==" }, "stringData": { "b": "two" } });
        let desired = Desired::<Secret>::json(object).overridden_by(overrides);
        let prepared = desired.prepare(&parent(Some("shop")), &kind);
        prepared.map(|it| it.body["data"].clone())
    };
    let both = |fields: Value| prepare(fields).expect("valid");
    let merged = json!({ "a": "MQ==", "b": "MjI=" });
    assert_eq!(both(json!({ "data": { "b": "MjI=" } })), merged);
    assert_eq!(both(json!({ "stringData": { "b": "22" } })), merged);
    let merged = json!({ "a": "MTE=", "b": "dHdv" });
    assert_eq!(both(json!({ "stringData": { "a": "11" } })), merged);
    let only_a = json!({ "a": "MQ==" });
    assert_eq!(both(json!({ "data": { "b": null } })), only_a);
    assert_eq!(both(json!({ "stringData": { "b": null } })), only_a);
    assert_eq!(
        both(Value::Null),
        json!({ "a": "MQ==", "b": "dHdv" }),
        "no overrides"
    );
    let refused = prepare(json!({ "stringData": null })).expect_err("it says not what to remove");
    let shown = format!("{refused:?}");
    assert!(shown.contains("overrides.stringData"), "{shown}");
}

/// An operator that reads a child, changes it and applies it desires the same state each time.
#[test]
fn a_desired_state_from_a_read_object_has_no_status_and_no_mark_of_ours() {
    let kind = ChildKind::of::<ConfigMap>(&());
    let prepare = |object: Value| {
        let desired = Desired::<ConfigMap>::json(object).strategy(UpdateStrategy::Recreate);
        let prepared = desired
            .prepare(&parent(Some("shop")), &kind)
            .expect("valid");
        (prepared.digest, prepared.mark, prepared.body)
    };
    let (digest, mark, body) = prepare(json!({ "data": { "a": "b" } }));
    let mut read = body;
    read["metadata"]["resourceVersion"] = "7".into();
    read["metadata"]["annotations"][APPLIED] = mark.expect("it has one").to_string().into();
    read["status"] = json!({ "ready": true });
    let (again, mark_again, body) = prepare(read);
    assert!(digest == again && mark == mark_again, "{body}");
    let (changed, changed_mark, _) = prepare(json!({ "data": { "a": "c" } }));
    assert!(digest != changed && mark != changed_mark);
}

/// A new version of the operator can have another name, and its kinds another API version.
#[test]
fn the_mark_of_a_desired_state_does_not_depend_on_the_identity_of_the_child() {
    let kind = ChildKind::of::<ConfigMap>(&());
    let mark = |parent: &Parent| {
        let desired = Desired::<ConfigMap>::json(json!({ "data": { "a": "b" } }));
        let desired = desired.strategy(UpdateStrategy::Recreate);
        desired.prepare(parent, &kind).expect("valid").mark
    };
    let parent = parent(Some("shop"));
    let mut renamed = parent.clone();
    renamed.manager = "sites-operator".to_owned();
    renamed.api_version = "v2".to_owned();
    assert!(mark(&parent).is_some() && mark(&parent) == mark(&renamed));
}
