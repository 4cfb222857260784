//! Strategic merge patches: merge patches that know which lists are maps in disguise.
//!
//! Kubernetes says of each list of its types whether a patch replaces it or merges it,
//! and by which key. The built-in kinds have no types here, so the keys follow from
//! the name of the field, which is enough: a name means the same wherever it occurs, but
//! for `ports`.
//!
//! Source: apimachinery `pkg/util/strategicpatch`, for what the directives mean.

use std::cmp::Ordering;

use serde_json::{Map, Value};

/// What to do with a map or a list instead of merging: `replace` or `delete`.
const DIRECTIVE: &str = "$patch";
/// The only keys of a map that stay.
const RETAIN_KEYS: &str = "$retainKeys";
/// In which order the items of a list are to be.
const ORDER: &str = "$setElementOrder/";
/// What to take out of a list of plain values.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// The lists that are maps in disguise, and what their items are called by.
const MERGE_KEYS: &[(&str, &[&str])] = &[
    ("addresses", &["type"]),
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("ownerReferences", &["uid"]),
    ("podIPs", &["ip"]),
    // Of a container, and of a service.
    ("ports", &["containerPort", "port"]),
    ("resourceClaims", &["name"]),
    ("secrets", &["name"]),
    ("taints", &["key"]),
    ("topologySpreadConstraints", &["topologyKey"]),
    ("variables", &["name"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
];

/// The lists of plain values that are sets.
const MERGED_SETS: &[&str] = &["finalizers"];

/// Merges `patch` into `target`.
pub(super) fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    if patch
        .get(DIRECTIVE)
        .is_some_and(|directive| directive == "replace")
    {
        target.clear();
    }
    if let Some(retained) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        target.retain(|key, _| retained.iter().any(|retained| retained == key));
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        match value {
            Value::Null => _ = target.remove(key),
            Value::Object(patch) if patch.get(DIRECTIVE).is_some_and(|d| d == "delete") => {
                target.remove(key);
            }
            Value::Object(patch) => {
                let inner = target.entry(key).or_insert(Value::Null);
                if !inner.is_object() {
                    *inner = Map::new().into();
                }
                if let Value::Object(inner) = inner {
                    merge(inner, patch);
                }
            }
            Value::Array(patch) => {
                let list = target.entry(key).or_insert(Value::Null);
                if !list.is_array() {
                    *list = Value::Array(Vec::new());
                }
                if let Value::Array(list) = list {
                    merge_list(key, list, patch);
                }
            }
            plain => _ = target.insert(key.clone(), plain.clone()),
        }
    }
    for (key, value) in patch {
        let Some(wanted) = value.as_array() else {
            continue;
        };
        if let Some(field) = key.strip_prefix(DELETE_FROM) {
            if let Some(list) = target.get_mut(field).and_then(Value::as_array_mut) {
                list.retain(|item| !wanted.contains(item));
            }
        } else if let Some(field) = key.strip_prefix(ORDER)
            && let Some(list) = target.get_mut(field).and_then(Value::as_array_mut)
        {
            put_in_order(field, list, wanted);
        }
    }
}

fn merge_list(field: &str, list: &mut Vec<Value>, patch: &[Value]) {
    if MERGED_SETS.contains(&field) {
        for item in patch {
            if !list.contains(item) {
                list.push(item.clone());
            }
        }
        return;
    }
    let replaces = |item: &Value| {
        item.get(DIRECTIVE)
            .is_some_and(|directive| directive == "replace")
    };
    let key = patch.iter().find_map(|item| merge_key(field, item));
    let Some(key) = key.filter(|_| !patch.iter().any(replaces)) else {
        *list = patch
            .iter()
            .filter(|item| !replaces(item))
            .map(plain)
            .collect();
        return;
    };
    for item in patch {
        let same = |other: &Value| other.get(key).is_some() && other.get(key) == item.get(key);
        if item
            .get(DIRECTIVE)
            .is_some_and(|directive| directive == "delete")
        {
            list.retain(|other| !same(other));
            continue;
        }
        match (list.iter_mut().find(|other| same(other)), item) {
            (Some(Value::Object(target)), Value::Object(patch)) => merge(target, patch),
            _ => list.push(plain(item)),
        }
    }
}

/// What `item` of the list `field` is called by; nothing if the list is replaced.
fn merge_key(field: &str, item: &Value) -> Option<&'static str> {
    let (_, keys) = MERGE_KEYS.iter().find(|(name, _)| *name == field)?;
    keys.iter().copied().find(|key| item.get(key).is_some())
}

/// A value that is new to the object: what the patch says, without its directives.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(patch) => {
            let mut object = Map::new();
            merge(&mut object, patch);
            object.into()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

/// Brings the items that `wanted` names into its order; the others stay before them.
fn put_in_order(field: &str, list: &mut [Value], wanted: &[Value]) {
    let place = |item: &Value| {
        wanted
            .iter()
            .position(|wanted| match merge_key(field, wanted) {
                Some(key) => item.get(key) == wanted.get(key),
                None => item == wanted,
            })
    };
    list.sort_by(|a, b| match (place(a), place(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::merge;

    #[track_caller]
    fn check(target: Value, patch: &Value, expected: &Value) {
        let mut target = target;
        let (Some(object), Some(changes)) = (target.as_object_mut(), patch.as_object()) else {
            panic!("both are objects");
        };
        merge(object, changes);
        assert_eq!(target, *expected, "{patch}");
    }

    #[test]
    fn lists_of_named_things_are_merged_by_name() {
        let before = || {
            json!({ "containers": [
                { "name": "web", "image": "a", "ports": [{ "containerPort": 80 }] },
                { "name": "side", "image": "b" },
            ]})
        };
        check(
            before(),
            &json!({
                "$setElementOrder/containers": [{ "name": "side" }, { "name": "web" }],
                "containers": [{ "name": "web", "image": "c" }],
            }),
            &json!({ "containers": [
                { "name": "side", "image": "b" },
                { "name": "web", "image": "c", "ports": [{ "containerPort": 80 }] },
            ]}),
        );
        check(
            before(),
            &json!({ "containers": [{ "name": "web", "$patch": "delete" }, { "name": "new" }] }),
            &json!({ "containers": [{ "name": "side", "image": "b" }, { "name": "new" }] }),
        );
        check(
            before(),
            &json!({ "containers": [{ "$patch": "replace" }, { "name": "only" }] }),
            &json!({ "containers": [{ "name": "only" }] }),
        );
    }

    #[test]
    fn other_lists_are_replaced_and_maps_are_merged() {
        check(
            json!({ "args": ["a"], "labels": { "a": "1", "b": "2" } }),
            &json!({ "args": ["b"], "labels": { "a": null, "c": "3" } }),
            &json!({ "args": ["b"], "labels": { "b": "2", "c": "3" } }),
        );
    }

    #[test]
    fn directives_are_followed_and_never_stored() {
        check(
            json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": {} } }),
            &json!({ "strategy": { "$retainKeys": ["type"], "type": "Recreate" } }),
            &json!({ "strategy": { "type": "Recreate" } }),
        );
        check(
            json!({ "a": { "b": 1 }, "c": { "d": 1 } }),
            &json!({ "a": { "$patch": "replace", "x": 1 }, "c": { "$patch": "delete" } }),
            &json!({ "a": { "x": 1 } }),
        );
        check(
            json!({ "finalizers": ["a", "b"] }),
            &json!({ "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"] }),
            &json!({ "finalizers": ["b", "c"] }),
        );
        check(
            json!({}),
            &json!({ "spec": { "$retainKeys": ["a"], "volumes": [{ "name": "v", "$retainKeys": [] }] } }),
            &json!({ "spec": { "volumes": [{ "name": "v" }] } }),
        );
    }
}
