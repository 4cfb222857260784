//! A hash of the content of an object without a generation. *(pure)*

use std::hash::{DefaultHasher, Hasher as _};

use super::fields::Fields;

/// The fields of `metadata` that change although the content does not.
pub const IGNORED_METADATA: [&str; 4] = [
    "resourceVersion",
    "managedFields",
    "finalizers",
    "generation",
];

/// Hashes an object without its status and the [`IGNORED_METADATA`]. The order of the fields of the
/// object and of its metadata has no effect. `None` if `json` is no object.
///
/// The text of each value is hashed: an API server writes equal values as equal text.
pub(crate) fn content_hash(json: &str) -> Option<u64> {
    let mut fields = Fields::of(json.as_bytes());
    if !fields.enter() {
        return None;
    }
    let mut hash = 0_u64;
    while let Some(name) = fields.next().ok()? {
        if &*name == b"status" {
            fields.value().ok()?;
        } else if &*name == b"metadata" && fields.enter() {
            while let Some(name) = fields.next().ok()? {
                let value = fields.value().ok()?;
                if !IGNORED_METADATA.iter().any(|it| it.as_bytes() == &*name) {
                    hash = hash.wrapping_add(field_hash(b"metadata", &name, value));
                }
            }
        } else {
            let value = fields.value().ok()?;
            hash = hash.wrapping_add(field_hash(b"", &name, value));
        }
    }
    Some(hash)
}

fn field_hash(parent: &[u8], name: &[u8], value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in [parent, name, value] {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::content_hash;

    #[test]
    fn the_hash_excludes_the_status_the_finalizers_and_server_fields() {
        for (part, value, differs) in [
            ("data", json!({ "a": "b" }), true),
            ("status", json!({ "a": "b" }), false),
            ("metadata.labels", json!({ "a": "b" }), true),
            ("metadata.annotations", json!({ "a": "b" }), true),
            ("metadata.name", json!("other"), true),
            ("metadata.resourceVersion", json!("2"), false),
            ("metadata.managedFields", json!([{ "manager": "m" }]), false),
            ("metadata.finalizers", json!(["a.io/b"]), false),
            ("metadata.generation", json!(7), false),
        ] {
            let old = json!({ "metadata": { "name": "web", "resourceVersion": "1" } });
            let mut new = old.clone();
            match part.split_once('.') {
                Some((parent, part)) => new[parent][part] = value,
                None => new[part] = value,
            }
            assert_eq!(hash(&old) != hash(&new), differs, "{part}");
        }
    }

    #[test]
    fn the_place_of_a_field_counts_and_its_order_does_not() {
        let one = content_hash(r#"{"a":"1","b":"2","metadata":{"c":"3","d":"4"}}"#);
        assert!(one.is_some());
        let reordered = content_hash(r#"{"metadata":{"d":"4","c":"3"},"b":"2","a":"1"}"#);
        assert_eq!(one, reordered);
        for moved in [
            r#"{"a":"2","b":"1","metadata":{"c":"3","d":"4"}}"#,
            r#"{"a":"1","b":"2","c":"3","metadata":{"d":"4"}}"#,
            r#"{"a":"1","b":"2","metadata":null}"#,
        ] {
            assert_ne!(one, content_hash(moved), "{moved}");
        }
        assert_eq!(content_hash("[]"), None);
        assert_eq!(content_hash(r#"{"a":"#), None);
    }

    fn hash(object: &Value) -> Option<u64> {
        content_hash(&object.to_string())
    }
}
