//! Finds which elements of a list are which after a type has read and written it. *(pure)*

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

/// The most elements that are compared with each other, because each is compared with all.
const MOST_COMPARED: usize = 100;

/// The most elements of a nested list that are compared in any order, for the same reason.
const MOST_NESTED: usize = 10;

/// Brings the elements of `raw` into the order of `before`, which is `raw` as the type reads and writes
/// it: a set, for example, sorts them. Returns false, and leaves `raw` as it is, if it cannot be seen which
/// element is which.
///
/// The order differs only if an element of `before` fits another element of `raw` better than the one at its
/// index: a type that writes a value in another form changes no order. Elements fit if they have the
/// same name, or else the same values in all fields that both have. A scalar that fits none gets the
/// form of `before`.
pub(super) fn align(raw: &mut [Value], before: &[Value]) -> bool {
    if raw.len() != before.len() {
        return false;
    }
    let fits_index = |index: &usize| likeness(&raw[*index], &before[*index]).is_some();
    if !(0..raw.len()).all(|index| fits_index(&index)) {
        let order = match before.iter().map(key).collect::<Option<Vec<_>>>() {
            Some(keys) => order_by_key(raw, &keys),
            None => order_by_likeness(raw, before),
        };
        let Some(order) = order else {
            return false;
        };
        let taken: Vec<_> = (order.into_iter()).map(|index| raw[index].take()).collect();
        for (raw, taken) in raw.iter_mut().zip(taken) {
            *raw = taken;
        }
    }
    for (raw, before) in raw.iter_mut().zip(before) {
        if is_scalar(raw) && is_scalar(before) && !is_same(raw, before) {
            raw.clone_from(before);
        }
    }
    true
}

/// The index in `raw` of each element of `before`, of which these are the keys. None if an element has
/// none, or it is not the only one.
fn order_by_key(raw: &[Value], keys: &[String]) -> Option<Vec<usize>> {
    let mut order = Order::new(raw.len());
    let mut left: HashMap<String, VecDeque<usize>> = HashMap::new();
    for (index, raw) in raw.iter().enumerate() {
        match key(raw) {
            Some(key) if key == keys[index] => order.take(index, index),
            Some(key) => left.entry(key).or_default().push_back(index),
            None => {}
        }
    }
    for (index, key) in keys.iter().enumerate() {
        if order.of[index].is_some() {
            continue;
        }
        let Some(indexes) = left.get_mut(key) else {
            continue;
        };
        // Equal scalars are the same, but objects with the same name are not.
        if indexes.len() > 1 && raw[indexes[0]].is_object() {
            return None;
        }
        if let Some(from) = indexes.pop_front() {
            order.take(index, from);
        }
    }
    order.complete(|_, _| 0)
}

/// Like [`order_by_key`], for elements that are compared by their values.
fn order_by_likeness(raw: &[Value], before: &[Value]) -> Option<Vec<usize>> {
    let of = |from: usize, index: usize| likeness(&raw[from], &before[index]);
    // Better for both: an object with few fields fits many.
    let has_moved = |index: usize| {
        let own = of(index, index);
        (0..raw.len()).any(|from| {
            let likeness = of(from, index);
            from != index && likeness > own && likeness > of(from, from)
        })
    };
    if raw.len() > MOST_COMPARED {
        /// The fewest elements that are searched in a long list.
        const FEWEST: usize = 4;
        let searched = (MOST_COMPARED * MOST_COMPARED / raw.len()).max(FEWEST);
        let mut others = (0..raw.len()).filter(|index| of(*index, *index).is_none());
        let has_moved = others.by_ref().take(searched).any(has_moved);
        return (!has_moved).then(|| (0..raw.len()).collect());
    }
    if !(0..raw.len()).any(has_moved) {
        return Some((0..raw.len()).collect());
    }
    let mut order = Order::new(raw.len());
    for index in 0..raw.len() {
        let alike = |from: usize| of(from, index);
        if (0..raw.len()).any(|from| alike(from).is_some()) {
            let from = best(0..raw.len(), index, alike)?;
            if order.is_used[from] {
                return None;
            }
            order.take(index, from);
        }
    }
    order.complete(|from, index| shared(&raw[from], &before[index]))
}

/// The one that is most `alike`: that at `index`, if it is one of several. None if it cannot be seen.
fn best<L: Ord>(
    indexes: impl Iterator<Item = usize> + Clone,
    index: usize,
    alike: impl Fn(usize) -> L,
) -> Option<usize> {
    let most = indexes.clone().map(&alike).max()?;
    let mut best = indexes.filter(|from| alike(*from) == most);
    let first = best.next()?;
    match best.next() {
        None => Some(first),
        Some(second) => [first, second]
            .into_iter()
            .chain(best)
            .find(|it| *it == index),
    }
}

/// The index in a list of each element of another list of the same length.
struct Order {
    of: Vec<Option<usize>>,
    is_used: Vec<bool>,
}

// === impl Order ===

impl Order {
    fn new(len: usize) -> Self {
        Self {
            of: vec![None; len],
            is_used: vec![false; len],
        }
    }

    fn take(&mut self, index: usize, from: usize) {
        self.of[index] = Some(from);
        self.is_used[from] = true;
    }

    /// Gives the elements that fit none, because the type writes them in another form, one of those that
    /// are left: the most `alike`. None if it cannot be seen.
    fn complete(mut self, alike: impl Fn(usize, usize) -> usize) -> Option<Vec<usize>> {
        let missing = (0..self.of.len()).filter(|index| self.of[*index].is_none());
        let missing: Vec<_> = missing.collect();
        let left = (0..self.of.len()).filter(|from| !self.is_used[*from]);
        let left: Vec<_> = left.collect();
        if missing == left {
            // Nothing shows that one of them has moved.
            for index in missing {
                self.take(index, index);
            }
        } else if missing.len() > MOST_COMPARED {
            return None;
        } else {
            for index in missing {
                let from = best(left.iter().copied(), index, |from| alike(from, index))?;
                if self.is_used[from] {
                    return None;
                }
                self.take(index, from);
            }
        }
        self.of.into_iter().collect()
    }
}

/// The text by which an element is found. None for a list and for an object without a name.
fn key(element: &Value) -> Option<String> {
    match element {
        Value::Object(fields) => fields.get("name").map(|name| format!("name {name}")),
        Value::Array(_) => None,
        // The same for 1 and 1.0.
        Value::Number(number) if number.is_f64() => number.as_f64().map(|it| it.to_string()),
        scalar => Some(scalar.to_string()),
    }
}

/// The number of values that two elements share. None if they differ in one, or have other names.
fn likeness(raw: &Value, before: &Value) -> Option<usize> {
    match (raw.get("name"), before.get("name")) {
        (Some(name), Some(it)) => (name == it).then(|| 1 + shared(raw, before)),
        _ => nested(raw, before),
    }
}

/// The number of values that two elements share, whether or not they differ in others.
fn shared(raw: &Value, before: &Value) -> usize {
    let (Some(raw), Some(before)) = (raw.as_object(), before.as_object()) else {
        return nested(raw, before).unwrap_or(0);
    };
    let values = before
        .iter()
        .filter_map(|(name, it)| raw.get(name).zip(Some(it)));
    values.filter_map(|(raw, it)| nested(raw, it)).sum()
}

/// The number of values that two values share. None if they differ in one: fields that one of them lacks
/// are accepted, and the order of a nested list that the type sorts.
fn nested(raw: &Value, before: &Value) -> Option<usize> {
    match (raw, before) {
        (Value::Object(raw), Value::Object(before)) => fields(raw, before),
        (Value::Array(raw), Value::Array(before)) => elements(raw, before),
        // Read as a default.
        (Value::Null, it) if !it.is_null() => Some(0),
        (raw, before) => is_same(raw, before).then_some(1),
    }
}

fn fields(raw: &Map<String, Value>, before: &Map<String, Value>) -> Option<usize> {
    let fields = before.iter().map(|(name, it)| match raw.get(name) {
        Some(raw) => nested(raw, it),
        None => Some(0),
    });
    fields.sum()
}

fn elements(raw: &[Value], before: &[Value]) -> Option<usize> {
    if raw.len() != before.len() {
        return None;
    }
    let by_index = raw.iter().zip(before).map(|(raw, it)| nested(raw, it));
    if let Some(shared) = by_index.sum() {
        return Some(shared);
    }
    if raw.iter().chain(before).all(is_scalar) {
        let sorted = |list: &[Value]| {
            let mut keys: Vec<_> = list.iter().filter_map(key).collect();
            keys.sort_unstable();
            keys
        };
        return (sorted(raw) == sorted(before)).then_some(raw.len());
    }
    if raw.len() > MOST_NESTED {
        return None;
    }
    let mut left: Vec<_> = raw.iter().collect();
    let shared = before.iter().map(|it| {
        let alike = left.iter().enumerate();
        let alike = alike.filter_map(|(index, raw)| Some((nested(raw, it)?, index)));
        let (shared, index) = alike.max()?;
        left.remove(index);
        Some(shared)
    });
    shared.sum()
}

/// Whether two values are the same: numbers by value, like 1 and 1.0.
fn is_same(raw: &Value, before: &Value) -> bool {
    match (raw, before) {
        (Value::Number(raw), Value::Number(before)) if raw.is_f64() != before.is_f64() => {
            raw.as_f64() == before.as_f64()
        }
        (raw, before) => raw == before,
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::merge::merge;

    #[test]
    fn elements_that_the_type_writes_in_another_form_keep_their_unknown_fields() {
        // Numbers are compared by value.
        check(
            json!([{ "weight": 1, "zone": "a", "x": 1 }, { "weight": 2, "zone": "a", "x": 2 }]),
            &json!([{ "weight": 1.0, "zone": "a" }, { "weight": 2.0, "zone": "a" }]),
            &json!([{ "weight": 1.0, "zone": "a" }, { "weight": 3.0, "zone": "a" }]),
            &json!([{ "weight": 1, "zone": "a", "x": 1 }, { "weight": 3.0, "zone": "a", "x": 2 }]),
        );
        // An element is appended.
        check(
            json!([{ "wait": "60s", "zone": "a", "x": 1 }, { "wait": "120s", "zone": "a", "x": 2 }]),
            &json!([{ "wait": "1m", "zone": "a" }, { "wait": "2m", "zone": "a" }]),
            &json!([{ "wait": "1m", "zone": "a" }, { "wait": "2m", "zone": "a" }, { "wait": "3m" }]),
            &json!([
                { "wait": "60s", "zone": "a", "x": 1 }, { "wait": "120s", "zone": "a", "x": 2 },
                { "wait": "3m" },
            ]),
        );
        // A name.
        check(
            json!([{ "name": "A", "x": 1 }, { "name": "b", "x": 2 }]),
            &json!([{ "name": "a", "to": 0 }, { "name": "b", "to": 0 }]),
            &json!([{ "name": "a", "to": 0 }, { "name": "b", "to": 1 }]),
            &json!([{ "name": "A", "x": 1 }, { "name": "b", "to": 1, "x": 2 }]),
        );
        // A name that the type does not know.
        check(
            json!([{ "name": "a", "wait": "60s" }, { "name": "b", "wait": "1s" }]),
            &json!([{ "wait": "1m" }, { "wait": "1s" }]),
            &json!([{ "wait": "1m" }, { "wait": "2s" }]),
            &json!([{ "name": "a", "wait": "60s" }, { "name": "b", "wait": "2s" }]),
        );
        // A list within a list.
        check(
            json!([[{ "wait": "60s", "x": 1 }], [{ "wait": "1s", "x": 2 }]]),
            &json!([[{ "wait": "1m" }], [{ "wait": "1s" }]]),
            &json!([[{ "wait": "1m" }], [{ "wait": "2s" }]]),
            &json!([[{ "wait": "60s", "x": 1 }], [{ "wait": "2s", "x": 2 }]]),
        );
        // An element with few fields fits each, but is at its index.
        check(
            json!([{ "zone": "a", "wait": "60s", "x": 1 }, { "zone": "a", "x": 2 }]),
            &json!([{ "zone": "a", "wait": "1m" }, { "zone": "a", "wait": "0s" }]),
            &json!([{ "zone": "a", "wait": "1m" }, { "zone": "a", "wait": "9s" }]),
            &json!([{ "zone": "a", "wait": "60s", "x": 1 }, { "zone": "a", "wait": "9s", "x": 2 }]),
        );
    }

    #[test]
    fn many_elements_without_names_keep_their_unknown_fields_unless_they_have_moved() {
        let list = |element: &dyn Fn(usize) -> Value| (0..1000).map(element).collect::<Value>();
        let mut raw = list(&|it| json!({ "wait": format!("{it}s"), "x": it }));
        let mut before = list(&|it| json!({ "wait": format!("{it}s") }));
        raw[0]["wait"] = json!("60000ms");
        let mut after = before.clone();
        after[999]["wait"] = json!("1h");
        let mut merged = raw.clone();
        merged[999]["wait"] = json!("1h");
        check(raw.clone(), &before, &after, &merged);
        if let Some(list) = before.as_array_mut() {
            list.reverse();
        }
        check(raw, &before, &after, &after);
    }

    #[test]
    fn a_set_is_merged_by_the_nested_fields_of_its_elements() {
        check(
            json!([{ "ref": { "id": "b", "x": 2 } }, { "ref": { "id": "a", "x": 1 } }]),
            &json!([{ "ref": { "id": "a" } }, { "ref": { "id": "b" } }]),
            &json!([{ "ref": { "id": "b" } }]),
            &json!([{ "ref": { "id": "b", "x": 2 } }]),
        );
        // Sets within the elements.
        check(
            json!([{ "ports": [9, 8], "x": 2 }, { "ports": [2, 1], "x": 1 }]),
            &json!([{ "ports": [1, 2] }, { "ports": [8, 9] }]),
            &json!([{ "ports": [8, 9] }]),
            &json!([{ "ports": [9, 8], "x": 2 }]),
        );
        // One of them has the default.
        check(
            json!([{ "at": { "port": 5 }, "x": 2 }, { "x": 1 }]),
            &json!([{ "at": { "port": 0 } }, { "at": { "port": 5 } }]),
            &json!([{ "at": { "port": 0 } }]),
            &json!([{ "x": 1 }]),
        );
    }

    #[track_caller]
    fn check(mut raw: Value, before: &Value, after: &Value, merged: &Value) {
        merge(&mut raw, before, after);
        assert_eq!(&raw, merged);
    }
}
