//! Finds which elements of a list are which after a type has read and written it. *(pure)*

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

/// The most objects without names that are compared with each other, because each is compared with all.
const MOST_COMPARED: usize = 100;

/// Brings the elements of `raw` into the order of `before`, which is `raw` as the type reads and writes
/// it: a set, for example, sorts them. Returns false, and leaves `raw` as it is, if it cannot be seen which
/// element is which.
///
/// An element without fields must be equal. An object must have the same name. An object without a name
/// must share more values with its element of `before` than with the others, because a type can write a
/// value in another form.
pub(super) fn align(raw: &mut [Value], before: &[Value]) -> bool {
    if raw.len() != before.len() {
        return false;
    }
    if raw.iter().zip(before).all(|(raw, it)| corresponds(raw, it)) {
        return true;
    }
    let Some(order) = order(raw, before) else {
        return false;
    };
    let taken: Vec<_> = (order.into_iter()).map(|index| raw[index].take()).collect();
    for (raw, taken) in raw.iter_mut().zip(taken) {
        *raw = taken;
    }
    true
}

/// Whether `before` is `raw`, if it has the same index.
fn corresponds(raw: &Value, before: &Value) -> bool {
    match (raw, before) {
        (Value::Object(raw), Value::Object(before)) => {
            let is_equal =
                |(name, it): (&String, &Value)| raw.get(name).is_none_or(|raw| raw == it);
            match (raw.get("name"), before.get("name")) {
                (Some(raw), Some(before)) => raw == before,
                _ => scalars(before).all(is_equal),
            }
        }
        (Value::Array(raw), Value::Array(before)) => {
            raw.len() == before.len()
                && raw.iter().zip(before).all(|(raw, it)| corresponds(raw, it))
        }
        (raw, before) => raw == before,
    }
}

/// The index in `raw` of each element of `before`. None if an element has none, or it is not the only one.
fn order(raw: &[Value], before: &[Value]) -> Option<Vec<usize>> {
    let mut named: HashMap<String, VecDeque<usize>> = HashMap::new();
    let mut nameless = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        match text(raw) {
            Some(text) => named.entry(text).or_default().push_back(index),
            None => nameless.push(index),
        }
    }
    let is_ambiguous = |(_, indexes): (&String, &VecDeque<usize>)| {
        indexes.len() > 1 && raw[indexes[0]].is_object()
    };
    if named.iter().any(is_ambiguous) || nameless.len() > MOST_COMPARED {
        return None;
    }
    let order = before.iter().map(|before| match text(before) {
        Some(text) => named.get_mut(&text)?.pop_front(),
        None => most_alike(raw, &nameless, before.as_object()?),
    });
    let order = order.collect::<Option<Vec<_>>>()?;
    let mut is_used = vec![false; raw.len()];
    let mut indexes = order.iter();
    let is_once = indexes.all(|index| !std::mem::replace(&mut is_used[*index], true));
    is_once.then_some(order)
}

/// The text by which an element is found. None for an object without a name.
fn text(element: &Value) -> Option<String> {
    match element {
        Value::Object(fields) => fields.get("name").map(|name| format!("name {name}")),
        other => Some(other.to_string()),
    }
}

/// The only one of these objects that shares the most values with `before`.
fn most_alike(raw: &[Value], indexes: &[usize], before: &Map<String, Value>) -> Option<usize> {
    let shared = |index: usize| {
        let values = scalars(before);
        values
            .filter(|(name, it)| raw[index].get(name) == Some(it))
            .count()
    };
    let most = indexes.iter().map(|index| shared(*index)).max()?;
    let mut alike = indexes.iter().filter(|index| shared(**index) == most);
    match (alike.next(), alike.next()) {
        (Some(index), None) => Some(*index),
        _ => None,
    }
}

fn scalars(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let is_scalar = |it: &Value| !it.is_object() && !it.is_array();
    object.iter().filter(move |(_, it)| is_scalar(it))
}
