//! The text of a discovery document, with its members in the order of Go's types. *(pure)*

use serde_json::{Map, Value};

use crate::json;

/// The members of all types of discovery documents, in an order that agrees with each type. Members
/// that are not here come last.
const ORDER: [&str; 21] = [
    "metadata",
    "name",
    "singularName",
    "namespaced",
    "resource",
    "subresource",
    "responseKind",
    "scope",
    "singularResource",
    "groupVersion",
    "group",
    "version",
    "kind",
    "acceptedTypes",
    "verbs",
    "shortNames",
    "categories",
    "storageVersionHash",
    "versions",
    "preferredVersion",
    "resources",
];

/// Returns the text of a document. One without a kind, such as those of `OpenAPI`, has its members in
/// alphabetical order.
pub(crate) fn text(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match document.as_object() {
        Some(members) if members.contains_key("kind") => {
            write_object(&mut out, members, &["kind", "apiVersion"]);
        }
        _ => json::write(&mut out, document),
    }
    out
}

/// Writes an object, the members in `first` first.
fn write_object(out: &mut Vec<u8>, members: &Map<String, Value>, first: &[&str]) {
    let rank = |name: &str| {
        let mut order = first.iter().chain(&ORDER);
        order.position(|it| *it == name).unwrap_or(usize::MAX)
    };
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by_key(|(name, _)| rank(name));
    out.push(b'{');
    json::write_members(out, sorted, |out, _, value| write_value(out, value));
    out.push(b'}');
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(members) => write_object(out, members, &[]),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        value => json::write(out, value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

    #[test]
    fn the_kind_is_first_in_a_document_and_after_the_scope_in_a_resource() {
        let document = json!({
            "kind": "APIResourceList",
            "groupVersion": "v1",
            "resources": [{
                "kind": "ConfigMap", "name": "configmaps", "namespaced": true,
                "singularName": "configmap", "verbs": ["get"],
            }],
        });
        assert_eq!(
            String::from_utf8_lossy(&text(&document)),
            concat!(
                r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","#,
                r#""singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["get"]}]}"#
            )
        );
    }
}
