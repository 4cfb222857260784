//! Tests of sequences of writes and applies, and of the owners of fields after each.

use serde_json::{Value, json};

use super::{Shape, Types, Versions, Write, apply, track};

/// One kind in two versions, of which one has the list as a leaf.
struct Kind(Types);

impl Versions for Kind {
    fn shape(&self, api_version: &str) -> Option<Shape<'_>> {
        self.0.kind(api_version, "Thing")
    }
}

fn schema(list: &Value) -> Value {
    let text = json!({ "type": "string" });
    let mut ports = json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "port": { "type": "integer" },
                "proto": { "type": "string", "default": "TCP" },
                "name": text,
            },
        },
    });
    for (keyword, value) in list.as_object().into_iter().flatten() {
        ports[keyword] = value.clone();
    }
    json!({
        "type": "object",
        "properties": { "spec": { "type": "object", "properties": {
            "size": { "type": "integer" },
            "color": text,
            "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": text },
            "leaf": {
                "type": "object", "x-kubernetes-map-type": "atomic",
                "properties": { "a": text, "b": text },
            },
            "free": { "x-kubernetes-preserve-unknown-fields": true },
            "ports": ports,
        } } },
    })
}

fn kind() -> Kind {
    let map = json!({
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "proto"],
    });
    let (first, second) = (schema(&map), schema(&json!({})));
    let versions = [("v1".to_owned(), &first), ("v2".to_owned(), &second)];
    Kind(Types::structural("Thing", versions))
}

fn write<'a>(manager: &'a str, now: &'a str) -> Write<'a> {
    Write {
        manager,
        api_version: "v1",
        kind: "Thing",
        subresource: "",
        now,
        ignored: &[&["status"]],
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "so that a call can hold the JSON itself"
)]
fn thing(spec: Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

/// The object after an update by `manager`, who sends no entries.
fn updated(live: &Value, object: Value, manager: &str) -> Value {
    let mut object = object;
    object["metadata"]["uid"] = "1".into();
    track(live, &mut object, &kind(), &write(manager, "t"));
    object
}

fn applied(live: &Value, config: &Value, manager: &str, force: bool) -> Result<Value, String> {
    let applied = apply(live, config, &kind(), &write(manager, "t"), force);
    applied
        .map(|mut object| {
            object["metadata"]["uid"] = "1".into();
            object
        })
        .map_err(|error| error.status("x").message().to_owned())
}

/// The owners of fields, as `manager operation: path path`.
fn owners(object: &Value) -> Vec<String> {
    let entries = super::entries::stored(crate::metadata::field(object, "managedFields"));
    let entries = entries.expect("our own entries");
    let shown = entries.iter().map(|(id, ownership)| {
        let paths = ownership.set.paths();
        let paths: Vec<_> = paths
            .iter()
            .map(|path| super::path::written(path))
            .collect();
        format!("{} {:?}: {}", id.manager, id.operation, paths.join(" "))
    });
    shown.collect()
}

fn nothing() -> Value {
    json!({})
}

#[test]
fn a_new_object_is_owned_by_its_creator_except_fields_of_the_server() {
    let created = updated(
        &nothing(),
        thing(json!({ "size": 1, "leaf": { "a": "1" } })),
        "me",
    );
    assert_eq!(owners(&created), ["me Update: .spec .spec.leaf .spec.size"]);
}

#[test]
fn an_update_owns_changed_fields_and_removed_fields_have_no_owner() {
    let created = updated(
        &nothing(),
        thing(json!({ "size": 1, "color": "red" })),
        "me",
    );
    let changed = updated(&created, thing(json!({ "size": 2 })), "you");
    assert_eq!(
        owners(&changed),
        ["me Update: .spec", "you Update: .spec.size"]
    );
    let same = updated(&changed, thing(json!({ "size": 2 })), "third");
    assert_eq!(owners(&same), owners(&changed));
}

#[test]
fn an_apply_owns_its_fields_and_conflicts_about_changed_ones() {
    let created = updated(
        &nothing(),
        thing(json!({ "size": 1, "color": "red" })),
        "me",
    );
    let config = thing(json!({ "size": 2, "color": "red" }));
    let conflict = applied(&created, &config, "you", false).expect_err("me owns the size");
    assert_eq!(
        conflict,
        r#"Apply failed with 1 conflict: conflict with "me" using v1: .spec.size"#
    );
    let forced = applied(&created, &config, "you", true).expect("it is forced");
    assert_eq!(forced["spec"], json!({ "size": 2, "color": "red" }));
    assert_eq!(
        owners(&forced),
        [
            "me Update: .spec .spec.color",
            "you Apply: .spec.color .spec.size"
        ]
    );
    let shared = thing(json!({ "color": "red" }));
    let shared = applied(&forced, &shared, "third", false).expect("the same value is no conflict");
    assert!(owners(&shared).contains(&"third Apply: .spec.color".to_owned()));
}

#[test]
fn several_conflicts_are_grouped_by_manager() {
    let created = updated(
        &nothing(),
        thing(json!({ "size": 1, "color": "red" })),
        "me",
    );
    let config = thing(json!({ "tags": ["x"] }));
    let live = applied(&created, &config, "you", false).expect("no manager owns the tags");
    let config = thing(json!({ "size": 2, "color": "blue" }));
    let live = applied(&live, &config, "you", true).expect("it is forced");
    let back = thing(json!({ "size": 3, "color": "red" }));
    assert_eq!(
        applied(&live, &back, "me", false),
        Err(
            "Apply failed with 2 conflicts: conflicts with \"you\":\n- .spec.color\n- .spec.size"
                .to_owned()
        )
    );
}

#[test]
fn fields_missing_from_the_next_apply_are_removed_unless_others_own_them() {
    let config = thing(json!({ "size": 1, "color": "red", "tags": ["a", "b"] }));
    let live = applied(&nothing(), &config, "me", false).expect("there is no other manager");
    let config = thing(json!({ "color": "red", "tags": ["b", "c"] }));
    let live = applied(&live, &config, "you", false).expect("the values are the same");
    let live = applied(&live, &thing(json!({})), "me", false).expect("it takes nothing");
    assert_eq!(live["spec"], json!({ "color": "red", "tags": ["b", "c"] }));
    let empty = json!({ "metadata": { "name": "a" } });
    let live = applied(&live, &empty, "you", false).expect("it takes nothing");
    assert_eq!(owners(&live), ["me Apply: .spec"]);
}

#[test]
fn list_items_are_identified_by_their_keys_or_the_defaults_of_absent_keys() {
    let config = thing(json!({ "ports": [{ "port": 1 }, { "port": 1, "proto": "UDP" }] }));
    let live = applied(&nothing(), &config, "me", false).expect("there is no other manager");
    assert_eq!(
        owners(&live),
        [
            r#"me Apply: .spec.ports[port=1,proto="TCP"] .spec.ports[port=1,proto="UDP"] .spec.ports[port=1,proto="TCP"].port .spec.ports[port=1,proto="UDP"].port .spec.ports[port=1,proto="UDP"].proto"#
        ]
    );
    let config = thing(json!({ "ports": [{ "port": 2 }, { "port": 1, "name": "x" }] }));
    let live = applied(&live, &config, "you", false).expect("no manager owns the name");
    assert_eq!(
        live["spec"]["ports"],
        json!([{ "port": 2 }, { "port": 1, "name": "x" }, { "port": 1, "proto": "UDP" }])
    );
    let twice = thing(json!({ "ports": [{ "port": 1 }, { "port": 1, "proto": "TCP" }] }));
    let error = applied(&live, &twice, "you", false).expect_err("one key twice");
    assert!(
        error.ends_with(r#"duplicate entries for key [port=1,proto="TCP"]"#),
        "{error}"
    );
    let keyless = thing(json!({ "ports": [1] }));
    assert!(applied(&live, &keyless, "you", false).is_err());
}

#[test]
fn a_configuration_with_a_wrong_type_is_rejected() {
    for (config, fault) in [
        (
            thing(json!({ "colour": "x" })),
            ".spec.colour: field not declared in schema",
        ),
        (
            thing(json!({ "size": "x" })),
            ".spec.size: expected numeric (int or float), got string",
        ),
        (thing(json!([])), ".spec: expected map, got &{[]}"),
        (
            thing(json!({ "tags": {} })),
            ".spec.tags: expected list, got &{map[]}",
        ),
        (
            thing(json!({ "tags": [null] })),
            ".spec.tags: element 0: associative list without keys has an element that's an explicit null",
        ),
    ] {
        let error = applied(&nothing(), &config, "me", false).expect_err(fault);
        assert_eq!(
            error,
            format!("failed to create typed patch object (x): {fault}")
        );
    }
    let entries = json!({ "metadata": { "name": "a", "managedFields": [] } });
    assert_eq!(
        applied(&nothing(), &entries, "me", false),
        Err("metadata.managedFields must be nil".to_owned())
    );
}

#[test]
fn fields_written_before_tracking_are_owned_by_before_first_apply() {
    let mut live = thing(json!({ "size": 1 }));
    live["metadata"]["uid"] = "1".into();
    let untracked = updated(&live, thing(json!({ "size": 2 })), "me");
    assert_eq!(owners(&untracked), Vec::<String>::new());
    let conflict = applied(&untracked, &thing(json!({ "size": 3 })), "me", false);
    assert_eq!(
        conflict,
        Err(r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .spec.size"#.to_owned())
    );
}

#[test]
fn an_empty_list_of_entries_drops_them_and_others_are_taken_as_sent() {
    let created = updated(&nothing(), thing(json!({ "size": 1 })), "me");
    let mut reset = thing(json!({ "size": 1 }));
    reset["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        owners(&updated(&created, reset, "me")),
        Vec::<String>::new()
    );
    let mut sent = thing(json!({ "size": 1 }));
    sent["metadata"]["managedFields"] = json!([{
        "manager": "you", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { "f:size": {} } },
    }]);
    assert_eq!(
        owners(&updated(&created, sent, "me")),
        ["you Update: .spec.size"]
    );
    let mut malformed = thing(json!({ "size": 1 }));
    malformed["metadata"]["managedFields"] = json!([{ "operation": "Guess" }]);
    assert_eq!(
        owners(&updated(&created, malformed, "me")),
        owners(&created)
    );
}

#[test]
fn more_than_ten_updaters_share_an_entry() {
    let mut live = updated(&nothing(), thing(json!({ "free": {} })), "u00");
    for number in 1..15 {
        let mut object = live.clone();
        object["spec"]["free"][format!("f{number:02}")] = 1.into();
        track(
            &live,
            &mut object,
            &kind(),
            &write(&format!("u{number:02}"), &format!("t{number:02}")),
        );
        live = object;
    }
    let owners = owners(&live);
    assert_eq!(owners.len(), 10, "{owners:?}");
    assert!(
        owners[0].starts_with("ancient-changes Update: "),
        "{owners:?}"
    );
    assert!(
        owners.iter().any(|owner| owner.starts_with("u14 ")),
        "{owners:?}"
    );
}

#[test]
fn entries_follow_a_list_that_became_atomic_and_removed_versions_are_dropped() {
    let config = thing(json!({ "ports": [{ "port": 1 }] }));
    let live = applied(&nothing(), &config, "me", false).expect("there is no other manager");
    let mut moved = live.clone();
    moved["metadata"]["managedFields"][0]["apiVersion"] = "v2".into();
    let changed = updated(
        &moved,
        json!({
            "metadata": moved["metadata"], "spec": { "ports": [{ "port": 1 }], "size": 1 },
        }),
        "you",
    );
    assert_eq!(
        owners(&changed),
        ["me Apply: .spec.ports", "you Update: .spec.size"]
    );
    moved["metadata"]["managedFields"][0]["apiVersion"] = "v0".into();
    let changed = updated(
        &moved,
        json!({
            "metadata": moved["metadata"], "spec": { "ports": [{ "port": 1 }], "size": 1 },
        }),
        "you",
    );
    assert_eq!(owners(&changed), ["you Update: .spec.size"]);
}

#[test]
fn kubectl_takes_over_fields_of_its_client_side_apply() {
    let last = json!({ "apiVersion": "v1", "kind": "Thing", "metadata": { "name": "a" }, "spec": { "size": 1 } });
    let mut object = thing(json!({ "size": 1, "color": "red" }));
    object["metadata"]["annotations"] =
        json!({ "kubectl.kubernetes.io/last-applied-configuration": last.to_string() });
    let live = updated(&nothing(), object, "kubectl-client-side-apply");
    let config = thing(json!({ "size": 2 }));
    assert!(applied(&live, &config, "me", false).is_err());
    let taken = applied(&live, &config, "kubectl", false).expect("kubectl wrote it");
    assert_eq!(taken["spec"]["size"], 2);
    assert_eq!(
        taken["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"],
        "{\"apiVersion\":\"v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"size\":2}}\n"
    );
    let other = thing(json!({ "color": "blue" }));
    assert!(
        applied(&live, &other, "kubectl", false).is_err(),
        "the color was not in it"
    );
}
