//! Decodes, defaults and updates `metadata`, in the same way for all kinds. *(pure)*

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::status::FieldError;

mod decode;
mod rules;
pub(crate) mod syntax;

pub(crate) use self::decode::decode;

pub(crate) use rules::{
    Finalizers, MAX_MANAGER, NameRule, drop_duplicate_owners, field_manager,
    unqualified_finalizers, validate, validate_embedded, validate_namespace_finalizers,
};

/// The length to which `generateName` is truncated, in bytes: with five random characters, the name
/// has 63, the maximum of a DNS label.
const MAX_GENERATED_BASE: usize = 58;

/// Returns the `metadata` of an object, and creates it if it is missing.
pub(crate) fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object.get("metadata").is_some_and(Value::is_object) {
        object["metadata"] = json!({});
    }
    match object.get_mut("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => unreachable!("it was made an object above"),
    }
}

/// Returns a field of `metadata`.
pub(crate) fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(name)
}

/// Returns a string in `metadata`; empty if it is missing.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    field(object, name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns whether the object has no finalizers.
pub(crate) fn is_unfinalized(object: &Value) -> bool {
    field(object, "finalizers")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
}

/// Sets the fields of a new object that only the server sets.
pub(crate) fn stamp(object: &mut Value, uid: &str, now: &str) {
    let metadata = of(object);
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "resourceVersion",
    ] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
}

/// Generates a name from `base` and five random characters.
pub(crate) fn generated_name(base: &str, random: &mut impl rand::Rng) -> String {
    /// Without vowels, so that names contain no words, and without similar characters.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let end = (0..=MAX_GENERATED_BASE.min(base.len()))
        .rev()
        .find(|end| base.is_char_boundary(*end))
        .unwrap_or_default();
    let mut name = base[..end].to_owned();
    name.extend((0..5).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())])));
    name
}

/// Copies the fields from `old` that an update may omit, and returns the errors of immutable fields.
pub(crate) fn carry_over(object: &mut Value, old: &Value) -> Vec<FieldError> {
    /// The immutable fields: an omitted field is copied, and another value is an error.
    const KEPT: &[&str] = &[
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "name",
        "namespace",
    ];
    let mut errors = Vec::new();
    let metadata = of(object);
    for field in KEPT {
        let before = old
            .get("metadata")
            .and_then(|metadata| metadata.get(*field));
        match (metadata.get(*field), before) {
            (None, Some(before)) => {
                metadata.insert((*field).to_owned(), before.clone());
            }
            (Some(after), before) if before != Some(after) => errors.push(FieldError::invalid(
                format!("metadata.{field}"),
                after,
                "field is immutable",
            )),
            _ => {}
        }
    }
    for field in [
        "creationTimestamp",
        "generation",
        "resourceVersion",
        "selfLink",
    ] {
        match old.get("metadata").and_then(|metadata| metadata.get(field)) {
            Some(before) => metadata.insert(field.to_owned(), before.clone()),
            None => metadata.remove(field),
        };
    }
    errors
}

/// Returns an error for finalizers that are added to a terminating object.
pub(crate) fn new_finalizers(object: &Value, old: &Value) -> Option<FieldError> {
    let list = |object: &Value| {
        field(object, "finalizers")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let before: HashSet<Value> = list(old).into_iter().collect();
    let mut added: Vec<_> = list(object)
        .into_iter()
        .filter(|finalizer| !before.contains(finalizer))
        .collect();
    added.sort_by_key(ToString::to_string);
    if added.is_empty() {
        return None;
    }
    let added: Vec<_> = added.iter().map(Value::to_string).collect();
    Some(FieldError::forbidden(
        "metadata.finalizers",
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ),
    ))
}

/// Marks an object for deletion. Returns whether the object changed.
pub(crate) fn mark_dying(object: &mut Value, now: &str) -> bool {
    let metadata = of(object);
    if metadata.contains_key("deletionTimestamp") {
        return false;
    }
    metadata.insert("deletionTimestamp".to_owned(), now.into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
    true
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use serde_json::json;

    use super::{carry_over, decode, generated_name, mark_dying, new_finalizers};

    #[test]
    fn a_generated_name_keeps_58_letters_of_its_base() {
        let mut random = StdRng::seed_from_u64(1);
        let name = generated_name(&"x".repeat(100), &mut random);
        assert_eq!(name.len(), 63);
        assert!(generated_name("web-", &mut random).starts_with("web-"));
        assert_eq!(
            generated_name(&"ä".repeat(40), &mut random).chars().count(),
            34
        );
    }

    #[test]
    fn metadata_of_the_wrong_type_does_not_decode() {
        for metadata in [
            json!("x"),
            json!({ "labels": { "a": 1 } }),
            json!({ "name": 1 }),
            json!({ "finalizers": "x" }),
            json!({ "finalizers": [1] }),
            json!({ "ownerReferences": ["x"] }),
            json!({ "generation": "1" }),
        ] {
            let mut object = json!({ "metadata": metadata });
            assert!(decode(&mut object, "ObjectMeta").is_err(), "{object}");
        }
        let mut object =
            json!({ "metadata": { "name": "a", "labels": {}, "color": "red", "uid": null } });
        let unknown = decode(&mut object, "ObjectMeta");
        assert_eq!(unknown, Ok(vec!["metadata.color".to_owned()]));
        assert_eq!(object, json!({ "metadata": { "name": "a" } }));
    }

    #[test]
    fn omitted_fields_are_kept_and_changed_ones_rejected() {
        let old = json!({ "metadata": { "name": "a", "uid": "1", "generation": 3 } });
        let mut new = json!({ "metadata": { "name": "a", "generation": 9 } });
        assert_eq!(carry_over(&mut new, &old), []);
        assert_eq!(new, old);
        let mut new = json!({ "metadata": { "name": "a", "uid": "2" } });
        let errors = carry_over(&mut new, &old);
        assert_eq!(errors.len(), 1);
        assert_eq!(
            errors[0].to_string(),
            r#"metadata.uid: Invalid value: "2": field is immutable"#
        );
    }

    #[test]
    fn a_terminating_object_gets_no_new_finalizers() {
        let old = json!({ "metadata": { "finalizers": ["a", "b"] } });
        assert_eq!(
            new_finalizers(&json!({ "metadata": { "finalizers": ["b"] } }), &old),
            None
        );
        let error = new_finalizers(&json!({ "metadata": { "finalizers": ["b", "c"] } }), &old);
        assert!(
            error
                .expect("c is new")
                .to_string()
                .ends_with(r#"[]string{"c"}"#)
        );
    }

    #[test]
    fn a_deletion_is_marked_once_and_increases_the_generation() {
        let mut object = json!({ "metadata": { "generation": 1 } });
        assert!(mark_dying(&mut object, "t1"));
        assert!(!mark_dying(&mut object, "t2"));
        assert_eq!(
            object["metadata"],
            json!({ "generation": 2, "deletionTimestamp": "t1", "deletionGracePeriodSeconds": 0 })
        );
    }
}
