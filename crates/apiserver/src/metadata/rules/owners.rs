//! Rules for owner references.

use std::collections::HashSet;

use serde_json::Value;

use super::super::syntax;
use crate::status::FieldError;

pub(super) fn owners(metadata: &Value, errors: &mut Vec<FieldError>) {
    let mut controller: Option<String> = None;
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    for owner in owners.into_iter().flatten() {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        for (field, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let value = text(field);
            // An apiVersion with two slashes is invalid.
            let is_version = field != "apiVersion" || syntax::api_version(value).is_none();
            if value.is_empty() || !is_version {
                let path = format!("metadata.ownerReferences.{field}");
                errors.push(FieldError::invalid(path, &value.into(), detail));
            }
        }
        let api_version = text("apiVersion");
        if text("kind") == "Event" && matches!(api_version, "v1" | "events.k8s.io/v1") {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let detail = format!("{group}/{version}, Kind=Event is disallowed from being an owner");
            let path = "metadata.ownerReferences";
            errors.push(FieldError::invalid(path, owner, detail));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let name = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in \
                     references for {first} and {name}"
                );
                let all = &metadata["ownerReferences"];
                errors.push(FieldError::invalid("metadata.ownerReferences", all, detail));
            }
            controller = Some(name);
        }
    }
}

/// Drops duplicate owner references, and returns the warning for the client. As in Kubernetes, the
/// text differs for a patch.
pub(crate) fn drop_duplicate_owners(object: &mut Value, is_patch: bool) -> Option<String> {
    let metadata = object.get_mut("metadata")?;
    let list = metadata.get_mut("ownerReferences")?.as_array_mut()?;
    let mut seen = HashSet::with_capacity(list.len());
    let mut duplicates = Vec::new();
    list.retain(|reference| {
        let is_new = seen.insert(reference.clone());
        if !is_new {
            let uid = reference.get("uid").and_then(Value::as_str);
            duplicates.push(uid.unwrap_or_default().to_owned());
        }
        is_new
    });
    let place = if is_patch {
        "duplicate entries after mutating admission happens"
    } else {
        "duplicate entries"
    };
    (!duplicates.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains {place}; API server dedups owner references in \
             1.20+, and may reject such requests as early as 1.24; please fix your requests; \
             duplicate UID(s) observed: {}",
            duplicates.join(", ")
        )
    })
}
