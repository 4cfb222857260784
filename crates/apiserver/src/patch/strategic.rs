//! Strategic merge patches: merge patches that know which lists are maps in disguise.
//!
//! The type of an object says of each list whether a patch replaces it or merges it, and by
//! which key.
//!
//! Source: apimachinery `pkg/util/strategicpatch`, for what the directives mean.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::typed::{Field, Shape, Struct, named};

/// What to do with a map or a list instead of merging: `replace` or `delete`.
const DIRECTIVE: &str = "$patch";
/// The only keys of a map that stay.
const RETAIN_KEYS: &str = "$retainKeys";
/// In which order the items of a list are to be.
const ORDER: &str = "$setElementOrder/";
/// What to take out of a list of plain values.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// How a patch treats a list.
#[derive(Clone, Copy)]
enum List {
    /// It replaces it.
    Replaced,
    /// It adds what is not in it.
    Set,
    /// It merges the items with the same value of this member.
    Keyed(&'static str),
}

/// How the list in a field is treated.
fn list_of(field: Option<&Field>) -> List {
    match field {
        Some(field) if !field.strategy.split(',').any(|word| word == "merge") => List::Replaced,
        Some(field) if field.merge_key.is_empty() => List::Set,
        Some(field) => List::Keyed(field.merge_key),
        None => List::Replaced,
    }
}

/// The type of an object, or of the items of a list or a map.
fn inside(shape: &Shape) -> Option<&'static Struct> {
    match shape {
        Shape::Struct(name) => named(name),
        Shape::List(_, inner) | Shape::Map(_, inner) => inside(inner),
        _ => None,
    }
}

/// Merges `patch` into `target`, which is of type `kind`.
pub(super) fn merge(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    kind: Option<&'static Struct>,
) {
    let field_of = |name: &str| kind.and_then(|kind| kind.fields.get(name));
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
        let field = field_of(key);
        let inner_kind = field.and_then(|field| inside(&field.shape));
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
                    merge(inner, patch, inner_kind);
                }
            }
            Value::Array(patch) => {
                let list = target.entry(key).or_insert(Value::Null);
                if !list.is_array() {
                    *list = Value::Array(Vec::new());
                }
                if let Value::Array(list) = list {
                    merge_list(list_of(field), inner_kind, list, patch);
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
            put_in_order(list_of(field_of(field)), list, wanted);
        }
    }
}

fn merge_list(
    treatment: List,
    kind: Option<&'static Struct>,
    list: &mut Vec<Value>,
    patch: &[Value],
) {
    let is_directive = |item: &Value, wanted: &str| {
        item.get(DIRECTIVE)
            .is_some_and(|directive| directive == wanted)
    };
    let is_replaced = patch.iter().any(|item| is_directive(item, "replace"));
    let key = match treatment {
        List::Keyed(key) if !is_replaced => key,
        List::Set if !is_replaced => {
            for item in patch {
                if !list.contains(item) {
                    list.push(item.clone());
                }
            }
            return;
        }
        List::Keyed(_) | List::Set | List::Replaced => {
            let items = patch.iter().filter(|item| !is_directive(item, "replace"));
            *list = items.map(|item| plain(item, kind)).collect();
            return;
        }
    };
    for item in patch {
        let same = |other: &Value| other.get(key).is_some() && other.get(key) == item.get(key);
        if is_directive(item, "delete") {
            list.retain(|other| !same(other));
            continue;
        }
        match (list.iter_mut().find(|other| same(other)), item) {
            (Some(Value::Object(target)), Value::Object(patch)) => merge(target, patch, kind),
            _ => list.push(plain(item, kind)),
        }
    }
}

/// A value that is new to the object: what the patch says, without its directives.
fn plain(value: &Value, kind: Option<&'static Struct>) -> Value {
    match value {
        Value::Object(patch) => {
            let mut object = Map::new();
            merge(&mut object, patch, kind);
            object.into()
        }
        Value::Array(items) => items.iter().map(|item| plain(item, kind)).collect(),
        other => other.clone(),
    }
}

/// Brings the items that `wanted` names into its order; the others stay before them.
fn put_in_order(treatment: List, list: &mut [Value], wanted: &[Value]) {
    let place = |item: &Value| {
        wanted.iter().position(|wanted| match treatment {
            List::Keyed(key) => item.get(key) == wanted.get(key),
            List::Set | List::Replaced => item == wanted,
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

    use super::{merge, named};

    #[track_caller]
    fn check(kind: &str, target: Value, patch: &Value, expected: &Value) {
        let mut target = target;
        let (Some(object), Some(changes)) = (target.as_object_mut(), patch.as_object()) else {
            panic!("both are objects");
        };
        merge(object, changes, named(kind));
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
            "core.v1.PodSpec",
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
            "core.v1.PodSpec",
            before(),
            &json!({ "containers": [{ "name": "web", "$patch": "delete" }, { "name": "new" }] }),
            &json!({ "containers": [{ "name": "side", "image": "b" }, { "name": "new" }] }),
        );
        check(
            "core.v1.PodSpec",
            before(),
            &json!({ "containers": [{ "$patch": "replace" }, { "name": "only" }] }),
            &json!({ "containers": [{ "name": "only" }] }),
        );
    }

    #[test]
    fn other_lists_are_replaced_and_maps_are_merged() {
        check(
            "core.v1.Container",
            json!({ "args": ["a"], "labels": { "a": "1", "b": "2" } }),
            &json!({ "args": ["b"], "labels": { "a": null, "c": "3" } }),
            &json!({ "args": ["b"], "labels": { "b": "2", "c": "3" } }),
        );
    }

    #[test]
    fn directives_are_followed_and_never_stored() {
        check(
            "apps.v1.DeploymentSpec",
            json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": {} } }),
            &json!({ "strategy": { "$retainKeys": ["type"], "type": "Recreate" } }),
            &json!({ "strategy": { "type": "Recreate" } }),
        );
        check(
            "core.v1.Pod",
            json!({ "a": { "b": 1 }, "c": { "d": 1 } }),
            &json!({ "a": { "$patch": "replace", "x": 1 }, "c": { "$patch": "delete" } }),
            &json!({ "a": { "x": 1 } }),
        );
        check(
            "meta.v1.ObjectMeta",
            json!({ "finalizers": ["a", "b"] }),
            &json!({ "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"] }),
            &json!({ "finalizers": ["b", "c"] }),
        );
        check(
            "core.v1.Pod",
            json!({}),
            &json!({ "spec": { "$retainKeys": ["a"], "volumes": [{ "name": "v", "$retainKeys": [] }] } }),
            &json!({ "spec": { "volumes": [{ "name": "v" }] } }),
        );
    }
}
