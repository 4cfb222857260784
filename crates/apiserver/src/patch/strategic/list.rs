//! Merges lists by a key or as a set, and puts them in order.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::super::go_value;
use super::{DIRECTIVE, Error, merge, plain_items, unknown_directive};
use crate::managed::{go_type, shown};
use crate::typed::{Field, Struct};

/// The prefix of the directive with the order of the items of a list.
pub(super) const ORDER: &str = "$setElementOrder/";

/// The effect of a patch on a list.
#[derive(Clone, Copy)]
pub(super) enum List {
    /// The patch replaces the list.
    Replaced,
    /// The patch adds the items that the list lacks.
    Set,
    /// The patch merges the items with the same value of this member.
    Keyed(&'static str),
}

/// Returns the effect of a patch on the list in a field.
pub(super) fn list_of(field: Option<&Field>) -> List {
    match field {
        Some(field) if !field.strategy.split(',').any(|word| word == "merge") => List::Replaced,
        Some(field) if field.merge_key.is_empty() => List::Set,
        Some(field) => List::Keyed(field.merge_key),
        None => List::Replaced,
    }
}

/// Returns whether a patch replaces the object in a field instead of merging it.
pub(super) fn is_replaced(field: &Field) -> bool {
    field.strategy.split(',').any(|word| word == "replace")
}

/// Checks that the items of each list of `patch` have the order that the patch specifies.
pub(super) fn check_orders(
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
pub(super) fn merge_list(
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
pub(super) fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, String> {
    item.get(key).ok_or_else(|| {
        format!(
            "map: {} does not contain declared merge key: {key}",
            shown(item)
        )
    })
}

/// Orders the items in `wanted` like it. The other items keep their order from `before`, and are after
/// the items that are new or were before them.
pub(super) fn put_in_order(
    treatment: List,
    list: &mut Vec<Value>,
    wanted: &[Value],
    before: &[Value],
) {
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
