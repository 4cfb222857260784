//! Compares the content of two states of an object that has no generation.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};
use windlass_informer::{ErasedObject, IGNORED_METADATA};

/// Whether the generation differs, or the content for kinds without a generation.
pub(crate) fn has_changed(old: &dyn ErasedObject, new: &dyn ErasedObject) -> bool {
    match (old.generation(), new.generation()) {
        (Some(old), Some(new)) => old != new,
        _ => differs(old, new),
    }
}

/// Whether `old` and `new` differ in more than the status, the finalizers, and the fields that
/// change with each write.
///
/// Objects that are kept as JSON are compared field by field, and decoded objects of a `ListWatch` by
/// their hashes. Of other decoded objects only the metadata are visible here: a write that changed the
/// finalizers counts as no change of content, and any other write as a change.
fn differs(old: &dyn ErasedObject, new: &dyn ErasedObject) -> bool {
    if let Some((old, new)) = old.json().zip(new.json()) {
        return json_differs(old, new).unwrap_or(true);
    }
    if let Some((old, new)) = old.content_hash().zip(new.content_hash()) {
        return old != new;
    }
    let (old, new) = (old.metadata(), new.metadata());
    old.labels != new.labels
        || old.annotations != new.annotations
        || old.owner_references != new.owner_references
        || (old.finalizers == new.finalizers && old.resource_version != new.resource_version)
}

/// The members of a JSON object, which are parsed only if their text differs.
type Members<'a> = BTreeMap<&'a str, &'a RawValue>;

/// Whether the content of two objects differs. `None` if one of them is no JSON object.
fn json_differs(old: &str, new: &str) -> Option<bool> {
    let parse = |json| serde_json::from_str::<Members<'_>>(json).ok();
    let (mut old, mut new) = (parse(old)?, parse(new)?);
    let (old_metadata, new_metadata) = (take_metadata(&mut old), take_metadata(&mut new));
    if members_differ(&old, &new) {
        return Some(true);
    }
    let (Some(old), Some(new)) = (old_metadata, new_metadata) else {
        return Some(old_metadata.is_some() != new_metadata.is_some());
    };
    let (mut old, mut new) = (parse(old)?, parse(new)?);
    for field in IGNORED_METADATA {
        old.remove(field);
        new.remove(field);
    }
    Some(members_differ(&old, &new))
}

/// Removes the metadata and the status from an object, and returns the metadata.
fn take_metadata<'a>(object: &mut Members<'a>) -> Option<&'a str> {
    object.remove("status");
    object.remove("metadata").map(RawValue::get)
}

fn members_differ(old: &Members<'_>, new: &Members<'_>) -> bool {
    let is_same = |(name, value): (&&str, &&RawValue)| {
        new.get(name)
            .is_some_and(|new| values_are_equal(value.get(), new.get()))
    };
    old.len() != new.len() || !old.iter().all(is_same)
}

/// Whether two JSON texts are one value: the same text, or another order of members.
fn values_are_equal(one: &str, other: &str) -> bool {
    let parse = |json| serde_json::from_str::<Value>(json).ok();
    one == other || parse(one) == parse(other)
}

/// Removes the fields of the metadata of `object` that change although the content does not.
pub(crate) fn remove_ignored(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in IGNORED_METADATA {
            metadata.remove(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, sync::Arc};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;
    use serde_json::json;
    use windlass_informer::{DecodeError, ObjectIdentity, Stored};

    use super::*;

    /// Each row: a part that one write changes, and whether that differs: of a decoded object, of
    /// one whose finalizers the same write has changed, and of one that is kept as JSON.
    #[test]
    fn the_content_excludes_the_status_the_finalizers_and_server_fields() {
        let owner = json!([{ "apiVersion": "v1", "kind": "A", "name": "a", "uid": "1" }]);
        let managed = json!([{ "manager": "kubectl" }]);
        for (part, value, decoded, with_finalizers, as_json) in [
            ("labels", json!({ "a": "b" }), true, true, true),
            ("annotations", json!({ "a": "b" }), true, true, true),
            ("ownerReferences", owner, true, true, true),
            // Of a decoded object only the metadata are visible.
            ("data", json!({ "a": "b" }), true, false, true),
            ("status", json!({ "a": "b" }), true, false, false),
            ("managedFields", managed, true, false, false),
            ("generation", json!(7), true, false, false),
            ("finalizers", json!(["a.io/b"]), false, false, false),
        ] {
            let (old, mut new) = (object("1"), object("2"));
            match part {
                "data" | "status" => new[part] = value,
                _ => new["metadata"][part] = value,
            }
            let differ = |new: &Value| differs(&decode(&old), &decode(new));
            assert_eq!(differ(&new), decoded, "{part}");
            assert_eq!(differs(&kept(&old), &kept(&new)), as_json, "{part} in JSON");
            new["metadata"]["finalizers"] = json!(["a.io/b"]);
            assert_eq!(differ(&new), with_finalizers, "{part} and the finalizers");
        }
    }

    #[test]
    fn one_version_does_not_differ_from_itself() {
        let object = decode(&object("1"));
        assert!(!differs(&object, &object));
    }

    #[test]
    fn another_order_of_members_is_the_same_content() {
        let one = r#"{"data":{"a":"1","b":"2"},"metadata":{"name":"web"}}"#;
        let other = r#"{"metadata":{"name":"web","generation":2},"data":{"b":"2","a":"1"}}"#;
        let [one, other] = [one, other].map(|json| Kept(json.to_owned()));
        assert!(!differs(&one, &other));
    }

    #[test]
    fn json_that_is_no_object_differs() {
        let broken = Kept("[".to_owned());
        assert!(differs(&broken, &broken));
        let list = Kept("[]".to_owned());
        assert!(differs(&list, &list));
    }

    fn object(version: &str) -> Value {
        json!({ "metadata": { "name": "web", "resourceVersion": version } })
    }

    fn decode(object: &Value) -> ConfigMap {
        serde_json::from_value(object.clone()).expect("a config map")
    }

    fn kept(object: &Value) -> Kept {
        Kept(object.to_string())
    }

    /// An object that is kept as JSON.
    struct Kept(String);

    impl ObjectIdentity for Kept {
        fn namespace(&self) -> Option<&str> {
            None
        }

        fn name(&self) -> &'static str {
            "web"
        }

        fn uid(&self) -> Option<&str> {
            None
        }

        fn resource_version(&self) -> Option<&str> {
            None
        }
    }

    impl Stored for Kept {
        type Object = ();

        fn metadata(&self) -> Cow<'_, ObjectMeta> {
            Cow::Owned(ObjectMeta::default())
        }

        fn object(self: Arc<Self>) -> Result<Arc<()>, DecodeError> {
            Ok(Arc::new(()))
        }

        fn raw_json(&self) -> Option<&str> {
            Some(&self.0)
        }
    }
}
