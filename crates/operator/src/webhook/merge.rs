//! Keeps the fields of an object that its Rust type does not have. *(pure)*

use serde_json::{Map, Value};

/// Applies the change from `before` to `after` to `raw`. `before` is `raw` as the type reads and writes
/// it, so that it lacks the fields that the type does not know, and has defaults that `raw` lacks.
///
/// What the change does not concern stays as it is in `raw`, also within elements of lists.
pub(super) fn merge(raw: &mut Value, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (raw, before, after) {
        (Value::Object(raw), Value::Object(before), Value::Object(after)) => {
            merge_fields(raw, before, after);
        }
        (Value::Array(raw), Value::Array(before), Value::Array(after))
            if raw.len() == before.len() =>
        {
            merge_elements(raw, before, after);
        }
        (raw, _, after) => *raw = after.clone(),
    }
}

fn merge_fields(
    raw: &mut Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) {
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        raw.remove(name);
    }
    for (name, after) in after {
        let before = before.get(name);
        match (raw.get_mut(name), before) {
            (Some(raw), Some(before)) => merge(raw, before, after),
            (None, Some(before)) if before == after => {}
            _ => _ = raw.insert(name.clone(), after.clone()),
        }
    }
}

/// Each element continues one of `before`: an equal one, one with the same `name`, or, if no element
/// was added or removed, the one without a name at its index. Other elements are new.
fn merge_elements(raw: &mut Vec<Value>, before: &[Value], after: &[Value]) {
    let mut sources: Vec<Option<usize>> = vec![None; after.len()];
    let mut is_used = vec![false; before.len()];
    let mut continue_where = |continues: &dyn Fn(usize, usize) -> bool| {
        for (index, source) in sources.iter_mut().enumerate() {
            if source.is_some() {
                continue;
            }
            // The same index first, so that a list of equal elements takes one comparison each.
            let indexes = std::iter::once(index).chain(0..before.len());
            let found = indexes
                .filter(|old| *old < before.len())
                .find(|old| !is_used[*old] && continues(*old, index));
            if let Some(old) = found {
                (*source, is_used[old]) = (Some(old), true);
            }
        }
    };
    continue_where(&|old, new| before[old] == after[new]);
    continue_where(&|old, new| {
        let name = before[old].get("name");
        name.is_some() && name == after[new].get("name")
    });
    if before.len() == after.len() {
        continue_where(&|old, new| old == new && before[old].get("name").is_none());
    }
    let merged = sources.into_iter().zip(after).map(|(source, after)| {
        let Some(old) = source else {
            return after.clone();
        };
        let mut element = raw[old].take();
        merge(&mut element, &before[old], after);
        element
    });
    *raw = merged.collect();
}

/// Copies the fields of `raw` that `known` lacks to the same paths of `converted`, which is `known` in
/// another version. `known` is `raw` as the type reads and writes it.
///
/// Not within lists, because elements can have other indexes in the other version.
pub(super) fn carry(raw: &Value, known: &Value, converted: &mut Value) {
    let (Some(raw), Some(known), Some(converted)) = (
        raw.as_object(),
        known.as_object(),
        converted.as_object_mut(),
    ) else {
        return;
    };
    for (name, value) in raw {
        match (known.get(name), converted.get_mut(name)) {
            (Some(known), Some(converted)) => carry(value, known, converted),
            (None, None) => _ = converted.insert(name.clone(), value.clone()),
            // The conversion has removed it, or has set the field itself.
            (Some(_), None) | (None, Some(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{carry, merge};

    #[test]
    fn fields_that_the_type_does_not_have_are_carried_to_the_other_version() {
        let raw = json!({
            "spec": { "size": 1, "newer": { "a": 1 }, "both": 1, "list": [{ "more": 1 }], "old": 1 },
            "status": { "ready": true },
        });
        let known = json!({ "spec": { "size": 1, "list": [{}], "old": 1 } });
        let mut converted = json!({ "spec": { "replicas": 1, "both": 2, "list": [{}] } });
        carry(&raw, &known, &mut converted);
        let spec = json!({ "replicas": 1, "newer": { "a": 1 }, "both": 2, "list": [{}] });
        assert_eq!(
            converted,
            json!({ "spec": spec, "status": { "ready": true } })
        );
    }

    #[test]
    fn only_what_the_type_has_changed_changes() {
        let same = json!({ "replicas": null, "labels": {} });
        check(json!({ "extra": 1 }), &same, &same, &json!({ "extra": 1 }));
        // Neither the object has the fields, nor was there a change of the others.
        check(
            json!({ "extra": 1 }),
            &same,
            &json!({ "replicas": 2, "labels": {} }),
            &json!({ "extra": 1, "replicas": 2 }),
        );
        check(
            json!({ "extra": 1 }),
            &same,
            &json!({ "replicas": null, "labels": { "a": "b" } }),
            &json!({ "extra": 1, "labels": { "a": "b" } }),
        );
        // The form of an unchanged value stays.
        check(
            json!({ "cpu": "1000m", "size": 1.0 }),
            &json!({ "cpu": "1", "size": 1 }),
            &json!({ "cpu": "1", "size": 2 }),
            &json!({ "cpu": "1000m", "size": 2 }),
        );
        // A field that the type omits if it has its default.
        check(
            json!({ "size": 0, "extra": { "a": 1 } }),
            &json!({}),
            &json!({ "size": 3 }),
            &json!({ "size": 3, "extra": { "a": 1 } }),
        );
        check(
            json!({ "size": 3, "extra": 1 }),
            &json!({ "size": 3 }),
            &json!({}),
            &json!({ "extra": 1 }),
        );
        check(
            json!({ "spec": null }),
            &json!({ "spec": null }),
            &json!({ "spec": { "a": 1 } }),
            &json!({ "spec": { "a": 1 } }),
        );
    }

    #[test]
    fn elements_of_lists_keep_their_unknown_fields() {
        let element = |name: &str, image: &str| json!({ "name": name, "image": image });
        let more = |name: &str, image: &str| json!({ "name": name, "image": image, "more": name });
        let (a, b, c) = (element("a", "1"), element("b", "1"), element("c", "1"));
        let raw = json!([more("a", "1"), more("b", "1")]);
        let before = json!([a, b]);
        let check = |after: Value, merged: Value| check(raw.clone(), &before, &after, &merged);
        check(json!([c, a, b]), json!([c, more("a", "1"), more("b", "1")]));
        check(json!([b]), json!([more("b", "1")]));
        check(json!([b, a]), json!([more("b", "1"), more("a", "1")]));
        check(
            json!([c, a, element("b", "2")]),
            json!([c, more("a", "1"), more("b", "2")]),
        );
        check(
            json!([a, element("d", "1")]),
            json!([more("a", "1"), element("d", "1")]),
        );
        check(json!([]), json!([]));
    }

    #[test]
    fn elements_without_names_continue_by_index() {
        let raw = json!([{ "port": 1, "more": 1 }, { "port": 2, "more": 2 }]);
        let before = json!([{ "port": 1 }, { "port": 2 }]);
        check(
            raw.clone(),
            &before,
            &json!([{ "port": 1 }, { "port": 3 }]),
            &json!([{ "port": 1, "more": 1 }, { "port": 3, "more": 2 }]),
        );
        // Which of the two has changed cannot be seen.
        check(
            raw,
            &before,
            &json!([{ "port": 2 }, { "port": 3 }, { "port": 4 }]),
            &json!([{ "port": 2, "more": 2 }, { "port": 3 }, { "port": 4 }]),
        );
    }

    #[test]
    fn a_list_that_the_type_reads_with_another_length_is_replaced() {
        check(json!([1, 1]), &json!([1]), &json!([1, 2]), &json!([1, 2]));
    }

    #[track_caller]
    fn check(mut raw: Value, before: &Value, after: &Value, merged: &Value) {
        merge(&mut raw, before, after);
        assert_eq!(&raw, merged);
    }
}
