//! Fields of a desired state that are added, moved or removed before it is written. *(pure)*

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use crate::children::{
    CHILD, ChildKind, InvalidChild, MANAGED_BY, PARENT_UID, Parent, plan::APPLIED,
};

/// Removes what an object that was read from the API server has beside what is desired: the status,
/// and what this library has written.
pub(super) fn remove_observed(
    body: &mut Map<String, Value>,
    metadata: &mut Map<String, Value>,
    parent: &Parent,
) {
    body.remove("status");
    for (field, ours) in [
        ("labels", [PARENT_UID, MANAGED_BY]),
        ("annotations", [CHILD, APPLIED]),
    ] {
        if let Some(Value::Object(entries)) = metadata.get_mut(field) {
            entries.retain(|name, _| !ours.contains(&name.as_str()));
            if entries.is_empty() {
                metadata.remove(field);
            }
        }
    }
    if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
        owners.retain(|owner| owner["uid"] != parent.uid);
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

/// Sets `apiVersion` and `kind`, which may be missing.
pub(super) fn set_kind(
    body: &mut Map<String, Value>,
    kind: &ChildKind,
) -> Result<(), InvalidChild> {
    for (field, declared) in [("apiVersion", &kind.api_version), ("kind", &kind.kind)] {
        match body.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::String(found)) if found == declared => {}
            Some(found) => {
                let found = found.as_str().unwrap_or_default();
                return Err(InvalidChild::OtherKind {
                    found: windlass_informer::one_line(found).into_owned(),
                    declared: format!("{} of {}", kind.kind, kind.api_version),
                });
            }
        }
        body.insert(field.to_owned(), declared.clone().into());
    }
    Ok(())
}

/// Moves the `stringData` of a Secret, or of overrides of one, into `data`. The API server does that
/// too, and then keeps entries that later requests do not have. An entry that is null is none, and
/// removes that of the object in `is_overrides`.
///
/// Source: <https://github.com/kubernetes/kubernetes/issues/108008>.
pub(super) fn encode_string_data(
    body: &mut Map<String, Value>,
    is_overrides: bool,
) -> Result<(), InvalidChild> {
    let strings = match body.remove("stringData") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(strings)) => strings,
        Some(_) => {
            return Err(InvalidChild::NotAMap {
                field: "stringData",
            });
        }
    };
    let data = body.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    let data = data
        .as_object_mut()
        .ok_or(InvalidChild::NotAMap { field: "data" })?;
    for (key, value) in strings {
        let value = match value {
            Value::String(text) => STANDARD.encode(text).into(),
            Value::Null if is_overrides => Value::Null,
            Value::Null => continue,
            _ => {
                return Err(InvalidChild::NotAMap {
                    field: "stringData",
                });
            }
        };
        data.insert(key, value);
    }
    Ok(())
}
