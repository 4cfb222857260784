//! Validates the metadata of objects of all kinds. *(pure)*

use serde_json::Value;

use super::syntax;
use crate::status::FieldError;

mod owners;

pub(crate) use self::owners::drop_duplicate_owners;
use self::owners::owners;

/// The maximum size of all annotations together: 256 KiB.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The maximum length of the name of a field manager, in bytes.
pub(crate) const MAX_MANAGER: usize = 128;

/// The maximum length of the name of a subresource in `managedFields`, in bytes.
const MAX_SUBRESOURCE: usize = 256;

/// The standard finalizers of Kubernetes without a domain.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// The rule for the names of the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// A DNS subdomain, such as `example.com`: most kinds.
    Subdomain,
    /// A DNS label, such as `my-name`: namespaces.
    Label,
    /// A DNS label that does not begin with a digit: services.
    Label1035,
    /// A segment of a URL path: roles and their bindings.
    PathSegment,
    /// An IP address in canonical form: `IPAddress`.
    Address,
}

/// The rule for the finalizers of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finalizers {
    /// With a domain, or a standard finalizer: built-in kinds.
    Qualified,
    /// With or without a domain: custom resources. Without a domain, the response has a warning.
    Any,
}

// === impl NameRule ===

impl NameRule {
    /// Returns the messages of the errors in `name`.
    pub(crate) fn check(self, name: &str) -> Option<String> {
        match self {
            Self::Subdomain => syntax::subdomain(name),
            Self::Label => syntax::label(name),
            Self::Label1035 => syntax::label_1035(name),
            Self::PathSegment => syntax::path_segment(name),
            Self::Address => syntax::address(name),
        }
    }
}

/// Returns the errors in the decoded metadata of `object`.
pub(crate) fn validate(object: &Value, names: NameRule, finalizers: Finalizers) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(metadata) = object.get("metadata") else {
        return vec![FieldError::required("metadata", "")];
    };
    match metadata.get("name").and_then(Value::as_str) {
        None => errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        )),
        Some(name) => {
            if let Some(why) = names.check(name) {
                errors.push(FieldError::invalid("metadata.name", &name.into(), why));
            }
        }
    }
    let base = metadata.get("generateName").and_then(Value::as_str);
    // kube-apiserver replaces a dash at the end and the character before it.
    let sample = base.map(|base| match base.strip_suffix('-') {
        Some(start) if !start.is_empty() => {
            let mut sample = start.to_owned();
            sample.pop();
            sample + "a"
        }
        _ => base.to_owned(),
    });
    if let (Some(base), Some(why)) = (base, sample.and_then(|sample| names.check(&sample))) {
        errors.push(FieldError::invalid(
            "metadata.generateName",
            &base.into(),
            why,
        ));
    }
    contents(metadata, finalizers, &mut errors);
    managers(metadata, &mut errors);
    errors
}

/// Adds the errors in the names of managers and subresources in `managedFields`.
fn managers(metadata: &Value, errors: &mut Vec<FieldError>) {
    let entries = metadata.get("managedFields").and_then(Value::as_array);
    for (at, entry) in entries.into_iter().flatten().enumerate() {
        let path = |field: &str| format!("metadata.managedFields[{at}].{field}");
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        errors.extend(field_manager(text("manager"), &path("manager")));
        if text("subresource").len() > MAX_SUBRESOURCE {
            errors.push(FieldError::too_long(path("subresource"), MAX_SUBRESOURCE));
        }
    }
}

/// Returns the errors in the name of a field manager.
pub(crate) fn field_manager(name: &str, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if name.len() > MAX_MANAGER {
        errors.push(FieldError::too_long(path, MAX_MANAGER));
    }
    for (at, c) in name.char_indices().filter(|(_, c)| c.is_control()) {
        let code = u32::from(c);
        let why = format!("invalid character U+{code:04X} (at position {at})");
        errors.push(FieldError::invalid(path, &name.into(), why));
    }
    errors
}

/// Returns the errors in the decoded metadata of an object that is embedded in another one, whose
/// kind is not known.
pub(crate) fn validate_embedded(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(metadata) = object.get("metadata") else {
        return errors;
    };
    for (field, rule) in [
        ("generateName", NameRule::PathSegment),
        ("name", NameRule::PathSegment),
        ("namespace", NameRule::Label),
    ] {
        let value = metadata.get(field).and_then(Value::as_str);
        if let Some((value, why)) = value.and_then(|value| Some((value, rule.check(value)?))) {
            let path = format!("metadata.{field}");
            errors.push(FieldError::invalid(path, &value.into(), why));
        }
    }
    contents(metadata, Finalizers::Any, &mut errors);
    errors
}

/// Adds the errors in labels, annotations, owners and finalizers.
fn contents(metadata: &Value, finalizers: Finalizers, errors: &mut Vec<FieldError>) {
    labels(metadata, errors);
    annotations(metadata, errors);
    owners(metadata, errors);
    let path = "metadata.finalizers";
    let names: Vec<_> = strings(metadata.get("finalizers")).collect();
    for name in &names {
        let wrong = syntax::qualified_name(name).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(path, &(*name).into(), why)));
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, &metadata["finalizers"], why));
    }
    if finalizers == Finalizers::Qualified {
        let all = names.iter().enumerate();
        errors.extend(all.filter_map(|(at, name)| unqualified(&format!("{path}[{at}]"), name)));
    }
}

/// Checks the finalizers in the spec of a namespace. As in Kubernetes, the errors have the position
/// of a finalizer only if the namespace exists.
pub(crate) fn validate_namespace_finalizers(namespace: &Value, is_new: bool) -> Vec<FieldError> {
    let finalizers = strings(namespace.pointer("/spec/finalizers")).enumerate();
    let errors = finalizers.flat_map(|(at, finalizer)| {
        let path = if is_new {
            "spec.finalizers".to_owned()
        } else {
            format!("spec.finalizers[{at}]")
        };
        let wrong = syntax::qualified_name(finalizer).into_iter();
        let mut errors: Vec<_> = wrong
            .map(|why| FieldError::invalid(path.as_str(), &finalizer.into(), why))
            .collect();
        errors.extend(unqualified(&path, finalizer));
        errors
    });
    errors.collect()
}

/// Returns the error of a finalizer that has no domain and is not a standard one.
fn unqualified(path: &str, finalizer: &str) -> Option<FieldError> {
    let is_valid = finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer);
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    (!is_valid).then(|| FieldError::invalid(path, &finalizer.into(), why))
}

/// Returns the warnings for a custom resource about finalizers without a domain.
pub(crate) fn unqualified_finalizers(object: &Value) -> Vec<String> {
    strings(super::field(object, "finalizers"))
        .filter(|finalizer| {
            let is_standard = matches!(*finalizer, "orphan" | "foregroundDeletion");
            !finalizer.contains('/') && !is_standard
        })
        .map(|finalizer| {
            format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name to \
                 avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

fn labels(metadata: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in metadata
        .get("labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        for why in syntax::qualified_name(key) {
            let key = Value::from(key.as_str());
            errors.push(FieldError::invalid("metadata.labels", &key, why));
        }
        if let Some(why) = value.as_str().and_then(syntax::label_value) {
            errors.push(FieldError::invalid("metadata.labels", value, why));
        }
    }
}

fn annotations(metadata: &Value, errors: &mut Vec<FieldError>) {
    let mut total = 0;
    for (key, value) in metadata
        .get("annotations")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        for why in syntax::qualified_name(&key.to_lowercase()) {
            let key = Value::from(key.as_str());
            errors.push(FieldError::invalid("metadata.annotations", &key, why));
        }
        total += key.len() + value.as_str().map_or(0, str::len);
    }
    if total > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(
            "metadata.annotations",
            MAX_ANNOTATIONS,
        ));
    }
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Finalizers, NameRule, validate};

    #[test]
    fn metadata_that_kubernetes_rejects_is_rejected() {
        let owner = |name: &str, controller: bool| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "name": name, "uid": "1",
                "controller": controller,
            })
        };
        for (metadata, path) in [
            (json!({}), Some("metadata.name")),
            (json!({ "name": "A" }), Some("metadata.name")),
            (
                json!({ "name": "a", "labels": { "-": "a" } }),
                Some("metadata.labels"),
            ),
            (
                json!({ "name": "a", "labels": { "a": "-" } }),
                Some("metadata.labels"),
            ),
            (
                json!({ "name": "a", "annotations": { "-": "" } }),
                Some("metadata.annotations"),
            ),
            (
                json!({ "name": "a", "annotations": { "a": "x".repeat(256 * 1024) } }),
                Some("metadata.annotations"),
            ),
            (
                json!({ "name": "a", "finalizers": ["no good"] }),
                Some("metadata.finalizers"),
            ),
            (
                json!({ "name": "a", "finalizers": ["plain"] }),
                Some("metadata.finalizers[0]"),
            ),
            (
                json!({ "name": "a", "ownerReferences": [owner("x", true), owner("y", true)] }),
                Some("metadata.ownerReferences"),
            ),
            (
                json!({ "name": "a", "ownerReferences": [{}] }),
                Some("metadata.ownerReferences.apiVersion"),
            ),
            (
                json!({
                    "name": "a",
                    "labels": { "ex.io/a": "b" },
                    "annotations": { "Ex.io/A": "anything goes" },
                    "finalizers": ["ex.io/clean"],
                    "ownerReferences": [owner("x", true), owner("y", false)],
                }),
                None,
            ),
        ] {
            let object: Value = json!({ "metadata": metadata });
            let errors = validate(&object, NameRule::Subdomain, Finalizers::Qualified);
            assert_eq!(
                errors.first().map(|error| error.path.as_str()),
                path,
                "{metadata}"
            );
        }
    }

    #[test]
    fn custom_resources_may_have_finalizers_without_a_domain() {
        let object = json!({ "metadata": { "name": "a", "finalizers": ["plain"] } });
        assert_eq!(validate(&object, NameRule::Subdomain, Finalizers::Any), []);
    }
}
