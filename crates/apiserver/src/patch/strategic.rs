//! Strategic merge patches: merge patches that merge some lists by a key.
//!
//! The type of an object defines for each list whether a patch replaces it or merges it, and by
//! which key.
//!
//! Source: apimachinery `pkg/util/strategicpatch`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{go_map, go_value};
use crate::managed::{go_type, shown};
use crate::status::Status;
use crate::typed::{Field, FieldType, Struct, named};

/// The directive that replaces or deletes a map or list: `replace` or `delete`.
const DIRECTIVE: &str = "$patch";
/// The directive with the only keys of a map that are kept.
const RETAIN_KEYS: &str = "$retainKeys";
/// The prefix of the directive with the order of the items of a list.
const ORDER: &str = "$setElementOrder/";
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

/// The effect of a patch on a list.
#[derive(Clone, Copy)]
enum List {
    /// The patch replaces the list.
    Replaced,
    /// The patch adds the items that the list lacks.
    Set,
    /// The patch merges the items with the same value of this member.
    Keyed(&'static str),
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

/// Returns the effect of a patch on the list in a field.
fn list_of(field: Option<&Field>) -> List {
    match field {
        Some(field) if !field.strategy.split(',').any(|word| word == "merge") => List::Replaced,
        Some(field) if field.merge_key.is_empty() => List::Set,
        Some(field) => List::Keyed(field.merge_key),
        None => List::Replaced,
    }
}

/// Returns whether a patch replaces the object in a field instead of merging it.
fn is_replaced(field: &Field) -> bool {
    field.strategy.split(',').any(|word| word == "replace")
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

/// Checks that the items of each list of `patch` have the order that the patch specifies.
fn check_orders(
    patch: &Map<String, Value>,
    field_of: impl Fn(&str) -> Option<&'static Field>,
) -> Result<(), Error> {
    for (directive, wanted) in patch {
        let Some(name) = directive.strip_prefix(ORDER) else {
            continue;
        };
        let Some(order) = wanted.as_array() else {
            let found = go_type(wanted);
            return Err(format!("expected a []interface {{}}, but received a {found}").into());
        };
        let Some(items) = patch.get(name).and_then(Value::as_array) else {
            continue;
        };
        let key = match list_of(field_of(name)) {
            List::Keyed(key) => Some(key),
            List::Set | List::Replaced => None,
        };
        if order.is_empty() {
            continue;
        }
        if let Some(key) = key {
            order
                .iter()
                .try_for_each(|item| key_of(item, key).map(drop))?;
        }
        let identity = |item: &'_ Value| match key {
            Some(key) => item.get(key).cloned(),
            None => Some(item.clone()),
        };
        let mut rest = order.iter();
        let mut kept = items
            .iter()
            .filter(|item| key.is_none() || item.get(DIRECTIVE).is_none());
        let is_in_order = kept.all(|item| rest.any(|wanted| identity(wanted) == identity(item)));
        if !is_in_order {
            let (items, order) = (go_value(&items.clone().into()), go_value(wanted));
            return Err(format!(
                "The order in patch list:\n{items}\n doesn't match $setElementOrder list:\n{order}\n"
            )
            .into());
        }
    }
    Ok(())
}

/// Merges `patch` into an existing list.
fn merge_list(
    treatment: List,
    kind: Option<&'static Struct>,
    list: &mut Vec<Value>,
    patch: &[Value],
) -> Result<(), Error> {
    let is_replaced = || patch.iter().any(|item| is_directive(item, "replace"));
    let key = match treatment {
        List::Replaced => {
            *list = patch.to_vec();
            return Ok(());
        }
        List::Set if is_replaced() => {
            *list = plain_items(patch).collect();
            return Ok(());
        }
        List::Set => {
            check_same_types(list, patch)?;
            let before = list.clone();
            let mut seen: HashSet<Value> = list.iter().cloned().collect();
            let new = patch.iter().filter(|item| seen.insert((*item).clone()));
            list.extend(new.cloned());
            put_in_order(treatment, list, patch, &before);
            return Ok(());
        }
        List::Keyed(key) => key,
    };
    check_same_types(list, patch)?;
    let mut deleted = HashSet::new();
    for item in patch {
        match item.get(DIRECTIVE) {
            Some(directive) if directive == "delete" => {
                deleted.insert(key_of(item, key)?);
            }
            Some(directive) if directive == "merge" => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(message.to_owned().into());
            }
            Some(directive) if directive != "replace" => {
                let item = item.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(directive, &item).into());
            }
            _ => {}
        }
    }
    if is_replaced() {
        *list = plain_items(patch).collect();
        return Ok(());
    }
    if !deleted.is_empty() {
        list.retain(|item| item.get(key).is_none_or(|value| !deleted.contains(value)));
    }
    let before = list.clone();
    let mut places = HashMap::new();
    for (at, item) in list.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(value.clone()).or_insert(at);
        }
    }
    let plain_items = patch.iter().filter(|item| item.get(DIRECTIVE).is_none());
    for item in plain_items {
        let Value::Object(patch) = item else {
            list.push(item.clone());
            continue;
        };
        let value = key_of(item, key)?;
        let target = places.get(value).and_then(|at| list.get_mut(*at));
        if let Some(Value::Object(target)) = target {
            merge(target, patch, kind)?;
        } else {
            places.insert(value.clone(), list.len());
            list.push(item.clone());
        }
    }
    put_in_order(treatment, list, patch, &before);
    Ok(())
}

/// Checks that all items of a list and of its patch have the same Go type.
fn check_same_types(list: &[Value], patch: &[Value]) -> Result<(), String> {
    let mut all = list.iter().chain(patch).map(go_type);
    let Some(first) = all.next() else {
        return Ok(());
    };
    if all.all(|other| other == first) {
        return Ok(());
    }
    let lists = [list, patch].map(|list| shown(&list.to_vec().into()));
    Err(format!(
        "list element types are not identical: [{}]",
        lists.join(" ")
    ))
}

fn is_directive(item: &Value, wanted: &str) -> bool {
    item.get(DIRECTIVE)
        .is_some_and(|directive| directive == wanted)
}

/// Returns the value by which `item` is merged.
fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, String> {
    item.get(key).ok_or_else(|| {
        format!(
            "map: {} does not contain declared merge key: {key}",
            shown(item)
        )
    })
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

/// Orders the items in `wanted` like it. The other items keep their order from `before`, and are after
/// the items that are new or were before them.
fn put_in_order(treatment: List, list: &mut Vec<Value>, wanted: &[Value], before: &[Value]) {
    fn identity(treatment: List, item: &Value) -> Option<&Value> {
        match treatment {
            List::Keyed(key) => item.get(key),
            List::Set | List::Replaced => Some(item),
        }
    }
    let places = |items: &[Value]| {
        let mut places = HashMap::new();
        for (at, item) in items.iter().enumerate() {
            if let Some(value) = identity(treatment, item) {
                places.entry(value.clone()).or_insert(at);
            }
        }
        places
    };
    let (wanted, before) = (places(wanted), places(before));
    let place = |places: &HashMap<Value, usize>, item: &Value| {
        identity(treatment, item).and_then(|value| places.get(value).copied())
    };
    let (mut named, mut others): (Vec<_>, Vec<_>) = std::mem::take(list)
        .into_iter()
        .partition(|item| place(&wanted, item).is_some());
    named.sort_by_key(|item| place(&wanted, item));
    others.sort_by_key(|item| place(&before, item));
    let mut others = others.into_iter().peekable();
    for item in named {
        let at = place(&before, &item);
        while let Some(other) =
            others.next_if(|other| at.is_some_and(|at| place(&before, other) < Some(at)))
        {
            list.push(other);
        }
        list.push(item);
    }
    list.extend(others);
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
