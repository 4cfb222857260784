//! Strategic merge patches: merge patches that merge some lists by a key.
//!
//! The type of an object defines for each list whether a patch replaces it or merges it, and by
//! which key.
//!
//! Source: apimachinery `pkg/util/strategicpatch`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::go_map;
use crate::managed::go_type;
use crate::status::Status;
use crate::typed::{FieldType, Struct, named};

mod list;

use self::list::{
    List, ORDER, check_orders, is_replaced, key_of, list_of, merge_list, put_in_order,
};

/// The directive that replaces or deletes a map or list: `replace` or `delete`.
const DIRECTIVE: &str = "$patch";
/// The directive with the only keys of a map that are kept.
const RETAIN_KEYS: &str = "$retainKeys";
/// The prefix of the directive with the items to remove from a list of scalars.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// A strategic merge patch that cannot be applied, with the message of Kubernetes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// A directive has the wrong form: 400.
    Malformed(&'static str),
    /// The patch does not match its directives or its type: 500.
    Unmergeable(String),
}

// === impl Error ===

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::Unmergeable(message)
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::Malformed(message) => Self::bad_request(message),
            Error::Unmergeable(message) => Self::untyped(message),
        }
    }
}

/// Returns the type of an object, or of the items of a list or the values of a map.
fn inside(shape: &FieldType) -> Option<&'static Struct> {
    match shape {
        FieldType::Struct(name) => named(name),
        FieldType::List(_, inner) | FieldType::Map(_, inner) => inside(inner),
        _ => None,
    }
}

/// Merges `patch` into `target`, which is of type `kind`.
///
/// # Errors
///
/// An item without its merge key, or a directive that is unknown or does not match the patch.
pub(super) fn merge(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    kind: Option<&'static Struct>,
) -> Result<(), Error> {
    let field_of = |name: &str| kind.and_then(|kind| kind.fields.get(name));
    match patch.get(DIRECTIVE) {
        None => {}
        Some(directive) if directive == "replace" => {
            // The rest of the patch is not interpreted: not even a `null` is dropped.
            target.clone_from(patch);
            target.remove(DIRECTIVE);
            return Ok(());
        }
        Some(directive) if directive == "delete" => {
            target.clear();
            return Ok(());
        }
        Some(directive) => return Err(unknown_directive(directive, patch).into()),
    }
    retain_keys(target, patch)?;
    check_orders(patch, field_of)?;
    // The lists for which the patch specifies the order, before the merge.
    let ordered = patch.keys().filter_map(|key| key.strip_prefix(ORDER));
    let before = |target: &Map<String, Value>, key: &str| {
        let list = target.get(key).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let before: HashMap<&str, Vec<Value>> = ordered.map(|key| (key, before(target, key))).collect();
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        let field = field_of(key);
        let inner_kind = field.and_then(|field| inside(&field.shape));
        match value {
            Value::Null => _ = target.remove(key),
            Value::Object(patch) => match target.get_mut(key) {
                Some(inner @ Value::Object(_)) if field.is_some_and(is_replaced) => {
                    *inner = value.clone();
                }
                Some(Value::Object(inner)) => merge(inner, patch, inner_kind)?,
                // A directive about an object that is not there has no effect.
                _ if patch.contains_key(DIRECTIVE) => {}
                _ => _ = target.insert(key.clone(), plain(value)),
            },
            Value::Array(patch) => match target.get_mut(key) {
                Some(Value::Array(list)) => merge_list(list_of(field), inner_kind, list, patch)?,
                _ => _ = target.insert(key.clone(), plain_list(patch)),
            },
            plain => _ = target.insert(key.clone(), plain.clone()),
        }
    }
    for (key, value) in patch {
        let Some(wanted) = value.as_array() else {
            continue;
        };
        if let Some(field) = key.strip_prefix(DELETE_FROM) {
            if let Some(list) = target.get_mut(field).and_then(Value::as_array_mut) {
                let wanted: HashSet<&Value> = wanted.iter().collect();
                list.retain(|item| !wanted.contains(item));
            }
        } else if let Some(field) = key.strip_prefix(ORDER)
            && let Some(list) = target.get_mut(field).and_then(Value::as_array_mut)
        {
            let before = before.get(field).map_or(&[][..], Vec::as_slice);
            let treatment = list_of(field_of(field));
            if let List::Keyed(key) = treatment {
                wanted
                    .iter()
                    .try_for_each(|item| key_of(item, key).map(drop))?;
            }
            put_in_order(treatment, list, wanted, before);
        }
    }
    Ok(())
}

/// Returns the message about a directive that is neither `replace` nor `delete`.
fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> String {
    let (directive, patch) = (go_string(directive), go_map(patch));
    format!("unknown patch type: {directive} in map: {patch}")
}

/// Prints a value like Go does with `%s`: a value that is not a string with its type.
fn go_string(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={value})", go_type(value)),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_string).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| format!("{name}:{}", go_string(value)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
    }
}

/// Removes the members of `target` that the directive of `patch` does not retain.
fn retain_keys(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Error> {
    const MALFORMED: Error = Error::Malformed("invalid patch format of retainKeys");
    let Some(retained) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let retained = retained.as_array().ok_or(MALFORMED)?;
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    // The patch sets only members that are retained.
    let mut set = patch
        .iter()
        .filter(|(key, value)| !key.starts_with('$') && !value.is_null());
    if set.any(|(key, _)| !retained.contains(key.as_str())) {
        return Err(MALFORMED);
    }
    target.retain(|key, _| retained.contains(key.as_str()));
    Ok(())
}

/// Returns the value that a patch adds to an object, without its directives.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(patch) => {
            let members = patch.iter();
            let members = members.filter(|(key, value)| {
                !key.starts_with('$') && !value.is_null() && value.get(DIRECTIVE).is_none()
            });
            let members = members.map(|(key, value)| (key.clone(), plain(value)));
            Value::Object(members.collect())
        }
        Value::Array(items) => plain_list(items),
        other => other.clone(),
    }
}

/// Returns the list that a patch adds to an object.
fn plain_list(items: &[Value]) -> Value {
    plain_items(items).collect()
}

fn plain_items(items: &[Value]) -> impl Iterator<Item = Value> {
    let items = items.iter();
    items
        .filter(|item| item.get(DIRECTIVE).is_none())
        .map(plain)
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
        assert_eq!(merge(object, changes, named(kind)), Ok(()), "{patch}");
        assert_eq!(target, *expected, "{patch}");
    }

    #[test]
    fn lists_with_a_merge_key_are_merged_by_it() {
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
            &json!({ "containers": [{ "name": "new" }, { "name": "side", "image": "b" }] }),
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
    fn directives_are_applied_and_never_stored() {
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
            &json!({ "a": { "x": 1 }, "c": {} }),
        );
        check(
            "meta.v1.ObjectMeta",
            json!({ "finalizers": ["a", "b"] }),
            &json!({ "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"] }),
            &json!({ "finalizers": ["c", "b"] }),
        );
        check(
            "core.v1.Pod",
            json!({}),
            &json!({ "spec": { "$retainKeys": ["a"], "volumes": [{ "name": "v", "$retainKeys": [] }] } }),
            &json!({ "spec": { "volumes": [{ "name": "v" }] } }),
        );
    }
}
