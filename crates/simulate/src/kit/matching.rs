//! Compares an object with the parts of it that a test expects. *(pure)*

use serde_json::Value;

/// The differences, each with its path. Members that `expected` does not name are ignored; an
/// expected `null` is an absent member. Lists have the same length, and their items are compared in
/// order.
pub(super) fn differences(expected: &Value, actual: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", expected, actual, &mut found);
    found
}

fn compare(path: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(members), Value::Object(_)) => {
            for (key, value) in members {
                compare(&format!("{path}.{key}"), value, &actual[key], found);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (index, (item, other)) in items.iter().zip(others).enumerate() {
                compare(&format!("{path}[{index}]"), item, other, found);
            }
        }
        (expected, actual) if expected == actual => {}
        _ => {
            let path = if path.is_empty() { "the object" } else { path };
            let actual = match actual {
                Value::Null => "absent".to_owned(),
                actual => actual.to_string(),
            };
            found.push(format!("{path}: expected {expected}, actual {actual}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::differences;

    #[test]
    fn named_members_are_compared_and_others_ignored() {
        let object = json!({ "spec": { "replicas": 2, "ports": [{ "port": 80, "name": "a" }] } });
        let check = |expected: Value, found: &[&str]| {
            assert_eq!(differences(&expected, &object), found, "{expected}");
        };
        check(json!({ "spec": { "replicas": 2 } }), &[]);
        check(
            json!({ "spec": { "ports": [{ "port": 80 }], "paused": null } }),
            &[],
        );
        check(
            json!({ "spec": { "replicas": 1 }, "status": { "ready": true } }),
            &[
                ".spec.replicas: expected 1, actual 2",
                r#".status: expected {"ready":true}, actual absent"#,
            ],
        );
        check(
            json!({ "spec": { "ports": [] } }),
            &[r#".spec.ports: expected [], actual [{"name":"a","port":80}]"#],
        );
    }
}
