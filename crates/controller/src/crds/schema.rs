//! The fields of one schema of a custom resource that another one lacks. *(pure)*

use serde_json::{Map, Value};

/// Returns the paths of the fields of `model` that the API server removes from objects, because `served`
/// has neither these fields nor a node that preserves unknown fields. `[*]` stands for all elements of a
/// list or all keys of a map.
pub(super) fn missing_fields(model: &Value, served: &Value) -> Vec<String> {
    let mut missing = Vec::new();
    compare(model, served, "", &mut missing);
    missing
}

/// Fields that each object has, also where the schema does not declare them.
const OF_EACH_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

fn compare(model: &Value, served: &Value, path: &str, missing: &mut Vec<String>) {
    let keeps_unknown = preserves(served) || served["additionalProperties"] == true;
    let is_object = path.is_empty() || served["x-kubernetes-embedded-resource"] == true;
    for (name, model) in fields(model) {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let served = (served["properties"].get(name)).or_else(|| schema(served));
        match served {
            _ if is_object && OF_EACH_OBJECT.contains(&name.as_str()) => {}
            Some(served) => compare(model, served, &path, missing),
            None if keeps_unknown => {}
            None => missing.push(path),
        }
    }
    let each = format!("{path}[*]");
    match (schema(model), schema(served)) {
        (Some(model), Some(served)) => compare(model, served, &each, missing),
        (Some(_), None) if !keeps_unknown => missing.push(each.clone()),
        (None, None) if keeps_any(model) && served["type"] == "object" && !keeps_unknown => {
            missing.push(each.clone());
        }
        _ => {}
    }
    if model["items"].is_object() && served["items"].is_object() {
        compare(&model["items"], &served["items"], &each, missing);
    }
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(Map::iter)
}

/// The schema of the values of a map.
fn schema(of: &Value) -> Option<&Value> {
    of.get("additionalProperties").filter(|it| it.is_object())
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// Whether the type has fields of any name.
fn keeps_any(model: &Value) -> bool {
    preserves(model) || model["additionalProperties"] == true
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::missing_fields;

    #[test]
    fn a_field_is_missing_where_the_served_schema_removes_it() {
        let string = || json!({ "type": "string" });
        let object = |fields: Value| json!({ "type": "object", "properties": fields });
        let map = |values: Value| json!({ "type": "object", "additionalProperties": values });
        let list = |items: Value| json!({ "type": "array", "items": items });
        let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let (ab, a) = (
            object(json!({ "a": string(), "b": string() })),
            object(json!({ "a": string() })),
        );
        let check = |model: &Value, served: &Value, missing: &[&str]| {
            let (model, served) = (
                object(json!({ "spec": model })),
                object(json!({ "spec": served })),
            );
            assert_eq!(missing_fields(&model, &served), missing, "{model} {served}");
        };
        check(&ab, &ab, &[]);
        check(&a, &ab, &[]);
        check(&ab, &a, &["spec.b"]);
        check(&list(ab.clone()), &list(a.clone()), &["spec[*].b"]);
        check(&map(ab.clone()), &map(a.clone()), &["spec[*].b"]);
        check(&map(string()), &a, &["spec[*]"]);
        check(&map(string()), &map(json!(true)), &[]);
        check(&map(string()), &any, &[]);
        check(&ab, &any, &[]);
        check(&ab, &map(string()), &[]);
        check(&any, &a, &["spec[*]"]);
        check(&any, &any, &[]);
        check(&any, &map(string()), &[]);
        // A node that keeps unknown fields does not keep those of the nodes below it.
        let mut outer = object(json!({ "inner": a }));
        outer["x-kubernetes-preserve-unknown-fields"] = json!(true);
        let model = object(json!({ "inner": ab, "c": string() }));
        check(&model, &outer, &["spec.inner.b"]);
        // Another type is refused by the API server, which is not silent.
        check(&ab, &string(), &["spec.a", "spec.b"]);
        // Each object has metadata, also one within an object.
        let resource = object(json!({ "metadata": string(), "kind": string() }));
        assert_eq!(missing_fields(&resource, &object(json!({}))), [""; 0]);
        check(&resource, &a, &["spec.kind", "spec.metadata"]);
        let mut embedded = a;
        embedded["x-kubernetes-embedded-resource"] = json!(true);
        check(&resource, &embedded, &[]);
    }
}
