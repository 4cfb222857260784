//! Keeps the fields of an object that its Rust type does not have. *(pure)*

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use super::align::align;

/// Applies the change from `before` to `after` to `raw`. `before` is `raw` as the type reads and writes
/// it, so that it lacks the fields that the type does not know, and has defaults that `raw` lacks.
///
/// What the change does not concern stays as it is in `raw`, also within elements of lists. A list that has
/// changed gets the order of `after`, and is `after` if it cannot be seen which element of `before` is
/// which of `raw`.
pub(super) fn merge(raw: &mut Value, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (raw, before, after) {
        (Value::Object(raw), Value::Object(before), Value::Object(after)) => {
            merge_fields(raw, before, after);
        }
        (Value::Array(raw), Value::Array(before), Value::Array(after)) => {
            if align(raw, before) {
                merge_elements(raw, before, after);
            } else {
                raw.clone_from(after);
            }
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
            // The type reads this object as a default that it omits.
            (Some(Value::Object(raw)), None) if after.is_object() => {
                merge_fields(raw, &Map::new(), after.as_object().unwrap_or(&Map::new()));
            }
            _ => _ = raw.insert(name.clone(), after.clone()),
        }
    }
}

/// Each element continues one of `before`: an equal one, one with the same `name`, or, if no element
/// was added or removed, the one without a name at its index, if they share a value or no other element
/// is left. Other elements are new.
fn merge_elements(raw: &mut Vec<Value>, before: &[Value], after: &[Value]) {
    let mut sources = Sources {
        of: vec![None; after.len()],
        is_used: vec![false; before.len()],
    };
    sources.take_same_index(|index| before[index] == after[index]);
    // Texts, because values have no hash. A list can have many elements.
    sources.take_equal(before, after, |element| Some(element.to_string()));
    sources.take_equal(before, after, |element| {
        element.get("name").map(ToString::to_string)
    });
    if before.len() == after.len() {
        sources.take_same_index(|index| {
            let (before, after) = (&before[index], &after[index]);
            before.get("name").is_none() && shares_a_value(before, after)
        });
        sources.take_last(|index| before[index].get("name").is_none());
    }
    let merged = sources.of.into_iter().zip(after).map(|(source, after)| {
        let Some(old) = source else {
            return after.clone();
        };
        let mut element = raw[old].take();
        merge(&mut element, &before[old], after);
        element
    });
    *raw = merged.collect();
}

/// Which old element each new element of a list continues.
struct Sources {
    of: Vec<Option<usize>>,
    is_used: Vec<bool>,
}

/// Whether two elements have a field with the same value, or no fields: otherwise the second one has
/// probably moved from another index.
fn shares_a_value(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        return true;
    };
    before.len() <= 1
        || before
            .iter()
            .any(|(name, value)| after.get(name) == Some(value))
}

// === impl Sources ===

impl Sources {
    fn take(&mut self, old: usize, new: usize) {
        self.of[new] = Some(old);
        self.is_used[old] = true;
    }

    /// Each new element continues the old one at its index, if `continues` accepts the index.
    fn take_same_index(&mut self, continues: impl Fn(usize) -> bool) {
        for index in 0..self.of.len().min(self.is_used.len()) {
            if self.of[index].is_none() && !self.is_used[index] && continues(index) {
                self.take(index, index);
            }
        }
    }

    /// If one new and one old element are left, and they have the same index, the new one continues the
    /// old one, if `continues` accepts the index.
    fn take_last(&mut self, continues: impl Fn(usize) -> bool) {
        let mut left = (0..self.of.len()).filter(|new| self.of[*new].is_none());
        if let (Some(index), None) = (left.next(), left.next())
            && self.is_used.get(index) == Some(&false)
            && continues(index)
        {
            self.take(index, index);
        }
    }

    /// Each new element continues the first old one that is left and has the same `text`.
    fn take_equal(
        &mut self,
        before: &[Value],
        after: &[Value],
        text: impl Fn(&Value) -> Option<String>,
    ) {
        let mut left: HashMap<String, VecDeque<usize>> = HashMap::new();
        let unused = (0..before.len()).filter(|old| !self.is_used[*old]);
        for old in unused {
            if let Some(text) = text(&before[old]) {
                left.entry(text).or_default().push_back(old);
            }
        }
        for (new, after) in after.iter().enumerate() {
            let text = if self.of[new].is_none() {
                text(after)
            } else {
                None
            };
            let old = text.and_then(|text| left.get_mut(&text)?.pop_front());
            if let Some(old) = old {
                self.take(old, new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::merge;

    #[test]
    fn an_object_that_the_type_reads_as_its_default_keeps_its_unknown_fields() {
        check(
            json!({ "resources": { "newer": 1 } }),
            &json!({}),
            &json!({ "resources": { "cpu": "1" } }),
            &json!({ "resources": { "newer": 1, "cpu": "1" } }),
        );
    }

    /// Each element is compared with few others, so that a large list cannot stop the operator.
    #[test]
    fn a_list_with_many_elements_that_all_change_is_merged() {
        const MANY: usize = 200_000;
        let list = |end: &str| {
            (0..MANY)
                .map(|it| format!("{it}{end}").into())
                .collect::<Vec<Value>>()
        };
        let (before, after) = (Value::from(list("")), Value::from(list("-")));
        check(before.clone(), &before, &after, &after);
    }

    #[test]
    fn an_element_that_was_sorted_and_changed_does_not_get_the_fields_of_another() {
        check(
            json!([{ "port": 2, "to": "b", "more": 2 }, { "port": 1, "to": "a", "more": 1 }]),
            &json!([{ "port": 2, "to": "b" }, { "port": 1, "to": "a" }]),
            &json!([{ "port": 1, "to": "A" }, { "port": 2, "to": "B" }]),
            &json!([{ "port": 1, "to": "A" }, { "port": 2, "to": "B" }]),
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
        // All known fields of the only element that changes.
        let raw_rules =
            json!([{ "port": 1, "to": "a", "more": 1 }, { "port": 2, "to": "b", "more": 2 }]);
        let rules = json!([{ "port": 1, "to": "a" }, { "port": 2, "to": "b" }]);
        check(
            raw_rules.clone(),
            &rules,
            &json!([{ "port": 1, "to": "a" }, { "port": 3, "to": "c" }]),
            &json!([{ "port": 1, "to": "a", "more": 1 }, { "port": 3, "to": "c", "more": 2 }]),
        );
        // It was moved too: the element that is left has another index.
        check(
            raw_rules,
            &rules,
            &json!([{ "port": 3, "to": "c" }, { "port": 1, "to": "a" }]),
            &json!([{ "port": 3, "to": "c" }, { "port": 1, "to": "a", "more": 1 }]),
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

    #[test]
    fn a_list_that_the_type_reads_in_another_order_is_merged_by_its_elements() {
        // A set.
        check(
            json!(["b", "a"]),
            &json!(["a", "b"]),
            &json!(["b"]),
            &json!(["b"]),
        );
        check(
            json!([{ "name": "b", "more": 2 }, { "name": "a", "more": 1 }]),
            &json!([{ "name": "a", "to": 0 }, { "name": "b", "to": 0 }]),
            &json!([{ "name": "a", "to": 5 }, { "name": "b", "to": 0 }]),
            &json!([{ "name": "a", "to": 5, "more": 1 }, { "name": "b", "more": 2 }]),
        );
        // Elements without names, one of which the type writes in another form.
        check(
            json!([{ "port": 2, "wait": "60s", "more": 2 }, { "port": 1, "wait": "1s", "more": 1 }]),
            &json!([{ "port": 1, "wait": "1s" }, { "port": 2, "wait": "1m" }]),
            &json!([{ "port": 1, "wait": "2s" }, { "port": 2, "wait": "1m" }]),
            &json!([{ "port": 1, "wait": "2s", "more": 1 }, { "port": 2, "wait": "60s", "more": 2 }]),
        );
        // Which element is which cannot be seen.
        check(
            json!([{ "port": 2, "more": 2 }, { "port": 1, "more": 1 }, { "port": 1, "more": 0 }]),
            &json!([{ "port": 1 }, { "port": 1 }, { "port": 2 }]),
            &json!([{ "port": 1 }, { "port": 3 }]),
            &json!([{ "port": 1 }, { "port": 3 }]),
        );
    }

    #[test]
    fn a_list_of_which_the_type_writes_an_element_in_another_form_stays_in_order() {
        check(
            json!([{ "host": "a", "wait": "60s", "more": 1 }, { "host": "b", "wait": "1s" }]),
            &json!([{ "host": "a", "wait": "1m" }, { "host": "b", "wait": "1s" }]),
            &json!([{ "host": "a", "wait": "1m" }, { "host": "b", "wait": "2s" }]),
            &json!([{ "host": "a", "wait": "60s", "more": 1 }, { "host": "b", "wait": "2s" }]),
        );
    }

    #[track_caller]
    fn check(mut raw: Value, before: &Value, after: &Value, merged: &Value) {
        merge(&mut raw, before, after);
        assert_eq!(&raw, merged);
    }
}
