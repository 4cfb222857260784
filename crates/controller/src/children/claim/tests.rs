//! Tests of `claim.rs`.

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

fn parent() -> Parent {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("blog".into());
    map.metadata.namespace = Some("shop".into());
    map.metadata.uid = Some("u-1".into());
    Parent::of(&map, &(), "pools.windlass.dev").expect("it has a uid")
}

/// The metadata of the object `web` in `shop`, with more fields.
fn metadata(more: &Value) -> ObjectMeta {
    let mut metadata =
        json!({ "namespace": "shop", "name": "web", "uid": "w-1", "resourceVersion": "7" });
    json_patch::merge(&mut metadata, more);
    serde_json::from_value(metadata).expect("metadata")
}

fn owner(uid: &str, controller: bool) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid, "controller": controller })
}

/// What a parent with the selector `app=web` does with an object: if it writes, and if it is paused
/// or being deleted.
#[track_caller]
fn check(more: &Value, expected: [Claim; 2]) {
    let kind = ChildKind::of::<ConfigMap>(&());
    let selector = json!({ "matchLabels": { "app": "web" } });
    let selector = serde_json::from_value(selector).expect("a selector");
    let selector = ParentSelector::new(selector).expect("valid");
    let claims = [true, false].map(|writes| {
        let by = ClaimBy {
            selector: &selector,
            parent: &kind,
            writes,
        };
        parent().claim(&kind, &by, &metadata(more))
    });
    assert_eq!(claims, expected, "{more}");
}

/// Rows: BO-42
#[test]
fn an_object_is_claimed_by_its_controller_and_its_labels() {
    use Claim::{Adopt, Claimed, Leave, Release};

    let selected = |mut more: Value| {
        more["labels"]["app"] = "web".into();
        more
    };
    let owned_by = |uid: &str| json!({ "ownerReferences": [owner(uid, true)] });
    check(&selected(owned_by("u-1")), [Claimed, Claimed]);
    check(&owned_by("u-1"), [Release, Leave]);
    check(&selected(owned_by("u-2")), [Leave, Leave]);
    check(&owned_by("u-2"), [Leave, Leave]);
    check(&selected(json!({})), [Adopt, Leave]);
    check(&json!({}), [Leave, Leave]);
    // An owner that is not the controller.
    for uid in ["u-1", "u-2"] {
        let free = json!({ "ownerReferences": [owner(uid, false)] });
        check(&selected(free.clone()), [Adopt, Leave]);
        check(&free, [Leave, Leave]);
    }
    let marked = json!({ "deletionTimestamp": "2020-01-01T00:00:00Z" });
    check(&selected(marked.clone()), [Leave, Leave]);
    let mut child = owned_by("u-1");
    json_patch::merge(&mut child, &marked);
    check(&selected(child), [Claimed, Claimed]);
    check(&selected(json!({ "namespace": "other" })), [Leave, Leave]);
}

#[test]
fn the_label_of_a_child_decides_only_where_no_owner_reference_is_possible() {
    use Claim::{Adopt, Claimed, Leave, Release};

    let named = |namespace: &str, uid: &str, parent: &str| {
        json!({
            "namespace": namespace,
            "labels": { "windlass.dev/parent-uid": uid, "app": "web" },
            "annotations": { "windlass.dev/child": format!("ConfigMap/{namespace}/web {parent}") },
        })
    };
    let other_labels = |mut object: Value| {
        object["labels"]["app"] = "db".into();
        object
    };
    // A child of ours in another namespace, and one whose owner reference was removed.
    let elsewhere = named("other", "u-1", "ConfigMap/shop/blog");
    check(&elsewhere, [Claimed, Claimed]);
    check(&other_labels(elsewhere), [Release, Leave]);
    let stripped = named("shop", "u-1", "ConfigMap/shop/blog");
    check(&stripped, [Adopt, Leave]);
    check(&other_labels(stripped), [Release, Leave]);
    // A child of another parent in another namespace, and those that another parent has left.
    let theirs = named("shop", "u-2", "ConfigMap/other/blog");
    check(&theirs, [Leave, Leave]);
    check(&other_labels(theirs), [Leave, Leave]);
    for left in [
        "ConfigMap/shop/blog",
        "ClusterRole.rbac.authorization.k8s.io/blog",
    ] {
        let left = named("shop", "u-0", left);
        check(&left, [Adopt, Leave]);
        check(&other_labels(left), [Leave, Leave]);
    }
}

#[test]
fn an_adoption_keeps_other_owners_and_a_release_removes_what_marks_a_child() {
    let (parent, kind) = (parent(), ChildKind::of::<ConfigMap>(&()));
    let uids = |metadata: &Value| {
        let owners = metadata["ownerReferences"].as_array().expect("a list");
        let shown = owners
            .iter()
            .map(|it| format!("{} {}", it["uid"], it["controller"]));
        shown.collect::<Vec<_>>()
    };
    let owners = json!([owner("u-2", false), owner("u-1", false)]);
    let adopted = parent.adopted(&metadata(&json!({ "ownerReferences": owners })));
    assert_eq!(uids(&adopted), [r#""u-2" false"#, r#""u-1" true"#]);

    let child = json!({
        "ownerReferences": [owner("u-2", false), owner("u-1", true)],
        "labels": {
            "windlass.dev/parent-uid": "u-1",
            "app.kubernetes.io/managed-by": "pools.windlass.dev",
            "app": "db",
        },
        "annotations": { "windlass.dev/child": "ConfigMap/shop/web ConfigMap/shop/blog", "a": "b" },
    });
    let released = parent.released(&kind, &metadata(&child));
    assert_eq!(uids(&released), [r#""u-2" false"#]);
    let removed = json!({
        "windlass.dev/parent-uid": null, "app.kubernetes.io/managed-by": null,
    });
    assert_eq!(released["labels"], removed);
    assert_eq!(
        released["annotations"],
        json!({ "windlass.dev/child": null })
    );

    // An adopted one has marks of others.
    let adopted = json!({
        "ownerReferences": [owner("u-1", true)],
        "labels": { "windlass.dev/parent-uid": "u-0", "app.kubernetes.io/managed-by": "helm" },
    });
    let released = parent.released(&kind, &metadata(&adopted));
    assert_eq!(released, json!({ "ownerReferences": [] }));
}
