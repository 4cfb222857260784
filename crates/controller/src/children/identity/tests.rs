//! Tests of `identity.rs`.

use k8s_openapi::{
    api::{core::v1::ConfigMap, rbac::v1::ClusterRole},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::api::DynamicObject;
use serde_json::json;

use super::*;

/// One row of the table of owners.
#[track_caller]
fn check(metadata: Value, expected: &Ownership) {
    let kind = ChildKind::of::<ConfigMap>(&());
    let meta: ObjectMeta = serde_json::from_value(metadata).expect("metadata");
    assert_eq!(&parent().ownership(&kind, &meta), expected, "{meta:?}");
}

fn parent() -> Parent {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("blog".into());
    map.metadata.namespace = Some("shop".into());
    map.metadata.uid = Some("u-1".into());
    Parent::of(&map, &(), "websites.windlass.dev").expect("it has a uid")
}

/// Rows: RO-39
#[test]
fn an_object_is_ours_by_its_controller_or_by_label_and_annotation_together() {
    let owner = |uid: &str, controller: bool| json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid, "controller": controller }]);
    let by = |by: &str| Ownership::Controlled { by: by.to_owned() };
    let name = |more: Value| {
        let mut metadata = json!({ "namespace": "shop", "name": "web" });
        json_patch::merge(&mut metadata, &more);
        metadata
    };
    let label = json!({ "windlass.dev/parent-uid": "u-1" });
    let itself = "ConfigMap/shop/web ConfigMap/shop/blog";
    let of_itself = json!({ "windlass.dev/child": itself });

    check(name(json!({})), &Ownership::Uncontrolled);
    check(
        name(json!({ "ownerReferences": owner("u-1", true) })),
        &Ownership::Ours,
    );
    check(
        name(json!({ "ownerReferences": owner("u-1", false) })),
        &Ownership::Uncontrolled,
    );
    check(
        name(
            json!({ "ownerReferences": owner("u-2", true), "labels": label, "annotations": of_itself }),
        ),
        &by("ConfigMap o"),
    );
    check(name(json!({ "labels": label })), &Ownership::Uncontrolled);
    check(
        name(json!({ "labels": label, "annotations": of_itself })),
        &Ownership::Ours,
    );
    check(
        name(
            json!({ "labels": label, "annotations": { "windlass.dev/child": "ConfigMap/shop/other ConfigMap/shop/blog" } }),
        ),
        &Ownership::Uncontrolled,
    );
    // An earlier parent of the same name, and another parent.
    let earlier = json!({ "windlass.dev/parent-uid": "u-0" });
    check(
        name(json!({ "labels": earlier, "annotations": of_itself })),
        &Ownership::Uncontrolled,
    );
    let of_another = json!({ "windlass.dev/child": "ConfigMap/shop/web ConfigMap/shop/news" });
    check(
        name(json!({ "labels": earlier, "annotations": of_another })),
        &by("ConfigMap/shop/news"),
    );
}

#[test]
fn the_annotation_leads_from_a_child_to_its_parent() {
    let kind = ChildKind::of::<ConfigMap>(&());
    let key = ObjectKey::new("web").within("other");
    let mut metadata = serde_json::Map::new();
    parent().mark(&kind, &key, &mut metadata).expect("marked");
    assert!(
        !metadata.contains_key("ownerReferences"),
        "the garbage collector would delete a child in another namespace"
    );
    let mut meta: ObjectMeta = serde_json::from_value(metadata.into()).expect("metadata");
    (meta.namespace, meta.name) = (Some("other".into()), Some("web".into()));
    let found = parent_key(&kind, &meta, "ConfigMap", "");
    assert_eq!(found, Some(ObjectKey::new("blog").within("shop")));
    assert_eq!(parent_key(&kind, &meta, "Secret", ""), None);
    assert_eq!(parent_key(&kind, &meta, "ConfigMap", "apps"), None);
    assert_eq!(parent_uid(&kind, &meta).as_deref(), Some("u-1"));
}

#[test]
fn a_child_keeps_its_other_owners_and_has_one_controller() {
    let kind = ChildKind::of::<ConfigMap>(&());
    let key = ObjectKey::new("web").within("shop");
    let mark = |owners: Value| {
        let mut metadata = serde_json::Map::new();
        metadata.insert("ownerReferences".to_owned(), owners);
        let marked = parent().mark(&kind, &key, &mut metadata);
        marked.map(|()| metadata["ownerReferences"].clone())
    };
    let other = json!({ "uid": "u-7", "kind": "A", "name": "a", "apiVersion": "v1" });
    let ours = json!({ "uid": "u-1", "kind": "Stale" });
    let owners = mark(json!([other, ours])).expect("valid");
    let owners: Vec<OwnerReference> = serde_json::from_value(owners).expect("owners");
    let shown: Vec<_> = (owners.iter().map(|it| (&*it.uid, it.controller))).collect();
    assert_eq!(shown, [("u-7", None), ("u-1", Some(true))]);
    assert!(mark(json!([{ "uid": "u-7", "controller": true }])).is_err());
    assert!(mark(Value::Null).is_ok());
}

#[test]
fn the_scope_of_a_kind_is_that_of_its_type() {
    assert!(ChildKind::of::<ClusterRole>(&()).is_cluster_scoped);
    assert!(!ChildKind::of::<ConfigMap>(&()).is_cluster_scoped);
    let role = kube::api::ApiResource::erase::<ClusterRole>(&());
    let kind = ChildKind::of::<DynamicObject>(&role).cluster_scoped();
    let key = ObjectKey::new("admin");
    assert_eq!(
        kind.path(&key),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin"
    );
    assert_eq!(kind.resource(), "clusterroles.rbac.authorization.k8s.io");
    let config = ChildKind::of::<ConfigMap>(&());
    assert_eq!(
        config.path(&ObjectKey::new("web").within("shop")),
        "/api/v1/namespaces/shop/configmaps/web"
    );
}

#[test]
fn the_name_of_a_controller_becomes_the_value_of_a_label() {
    assert_eq!(
        label_value("websites.windlass.dev"),
        "websites.windlass.dev"
    );
    assert_eq!(label_value("my operator/é!"), "my-operator");
    assert_eq!(label_value(&"a".repeat(70)).len(), 63);
}
