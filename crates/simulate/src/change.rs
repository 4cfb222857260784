//! The difference between two states of an object, in one line. *(pure)*

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Fields of `metadata` that change with each write, or that only the server writes.
const LEFT_OUT: [&str; 5] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
];

/// The largest number of fields that are named.
const MOST: usize = 6;

/// The longest value that is shown, in characters.
const LONGEST: usize = 160;

/// Describes what a write changed: each changed field with its old and new value, such as
/// `.spec.replicas: 1 -> 2`.
pub(crate) fn describe(before: Option<&Value>, after: Option<&Value>) -> String {
    let (before, after) = match (before, after) {
        (None, None) => return "nothing".to_owned(),
        (Some(_), None) => return "deleted".to_owned(),
        (before, Some(after)) => (before, after),
    };
    let Some(before) = before else {
        return "created".to_owned();
    };
    let (old, new) = (fields(before), fields(after));
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let changed = names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name));
    let changed: Vec<_> = changed
        .map(|name| {
            let value = |fields: &BTreeMap<String, String>| {
                fields
                    .get(name)
                    .map_or_else(|| "absent".to_owned(), |it| shortened(it))
            };
            format!("{name}: {} -> {}", value(&old), value(&new))
        })
        .collect();
    match changed.len() {
        0 => "nothing".to_owned(),
        count if count > MOST => {
            let (shown, more) = (changed[..MOST].join(", "), count - MOST);
            format!("{shown} and {more} more fields")
        }
        _ => changed.join(", "),
    }
}

/// A text of at most [`LONGEST`] characters.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The fields of an object, each with its path and its JSON.
fn fields(object: &Value) -> BTreeMap<String, String> {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
    }
    let mut fields = BTreeMap::new();
    flatten("", &object, &mut fields);
    fields
}

fn flatten(path: &str, value: &Value, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                flatten(&format!("{path}.{key}"), value, fields);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), value, fields);
            }
        }
        other => _ = fields.insert(path.to_owned(), other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::describe;

    #[test]
    fn a_change_names_the_fields_with_their_old_and_new_values() {
        let object = |version: u64, spec: Value| {
            json!({
                "metadata": { "name": "a", "resourceVersion": version.to_string() }, "spec": spec,
            })
        };
        let one = object(1, json!({ "replicas": 1, "ports": [{ "port": 80 }] }));
        let two = object(
            2,
            json!({ "replicas": 2, "ports": [{ "port": 80 }], "paused": true }),
        );
        assert_eq!(
            describe(Some(&one), Some(&two)),
            ".spec.paused: absent -> true, .spec.replicas: 1 -> 2"
        );
        assert_eq!(
            describe(Some(&one), Some(&object(3, one["spec"].clone()))),
            "nothing"
        );
        assert_eq!(describe(None, Some(&one)), "created");
        assert_eq!(describe(Some(&one), None), "deleted");
        let long = object(4, json!({ "text": "x".repeat(500) }));
        assert!(describe(Some(&one), Some(&long)).len() < 400);
    }
}
