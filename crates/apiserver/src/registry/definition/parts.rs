//! Validates a definition except its schemas: names, columns, scale, selectable fields, deprecation,
//! and the approval of groups that belong to Kubernetes.
//!
//! Source: measured on kube-apiserver v1.36.3.

use serde_json::Value;

use super::Definition;
use crate::metadata::NameRule;
use crate::status::FieldError;

/// The annotation that a definition in a group of Kubernetes must have.
const APPROVAL: &str = "api-approved.kubernetes.io";

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// The maximum length of a deprecation warning, in bytes.
const MAX_WARNING: usize = 256;

// === impl Definition ===

impl Definition<'_> {
    /// Returns the errors outside of the schemas.
    pub(super) fn validate_parts(&self, errors: &mut Vec<FieldError>) {
        self.validate_group(errors);
        self.validate_names(errors);
        let versions = self.versions();
        // As in Kubernetes, values that all versions share have one error, without the version.
        let shared = |part: &str| {
            let first = versions.first().and_then(|version| version.get(part));
            versions.iter().all(|version| version.get(part) == first)
        };
        for (at, version) in versions.iter().enumerate() {
            let path = |part: &str| match (shared(part), at) {
                (true, 0) => Some(format!("spec.{part}")),
                (true, _) => None,
                (false, at) => Some(format!("spec.versions[{at}].{part}")),
            };
            if let Some(path) = path("additionalPrinterColumns") {
                columns(version.get("additionalPrinterColumns"), &path, errors);
            }
            if let Some(path) = path("subresources") {
                scale(version.pointer("/subresources/scale"), &path, errors);
            }
            let fields = version.get("selectableFields");
            match path("selectableFields") {
                // As in Kubernetes, fields that all versions share need a schema that they share.
                Some(path)
                    if shared("selectableFields")
                        && !shared("schema")
                        && !items(fields).is_empty() =>
                {
                    let why = "may only be set when validations.schema is included";
                    errors.push(FieldError::invalid(path, &"".into(), why));
                }
                Some(path) => selectable_fields(version, &path, errors),
                None => {}
            }
            deprecation(version, &format!("spec.versions[{at}]"), errors);
        }
    }

    fn validate_group(&self, errors: &mut Vec<FieldError>) {
        let group = self.group();
        if group.is_empty() {
            return;
        }
        if let Some(why) = NameRule::Subdomain.check(group) {
            errors.push(FieldError::invalid("spec.group", &group.into(), why));
        } else if !group.contains('.') {
            let why = "should be a domain with at least one dot";
            errors.push(FieldError::invalid("spec.group", &group.into(), why));
        }
        let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
            let rest = group.strip_suffix(domain);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        if !is_protected {
            return;
        }
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        let path = format!("metadata.annotations[{APPROVAL}]");
        let annotations = crate::metadata::field(self.object, "annotations");
        let approval = annotations.and_then(|annotations| annotations.get(APPROVAL)?.as_str());
        match approval.unwrap_or_default() {
            "" => {
                let why =
                    format!("protected groups must have approval annotation {APPROVAL:?}, {see}");
                errors.push(FieldError::required(path, why));
            }
            text if text.starts_with("unapproved") || text.contains("://") => {}
            text => {
                let why = format!(
                    "protected groups must have approval annotation {APPROVAL:?} with either a URL \
                     or a reason starting with \"unapproved\", {see}"
                );
                errors.push(FieldError::invalid(path, &text.into(), why));
            }
        }
    }

    fn validate_names(&self, errors: &mut Vec<FieldError>) {
        let mut check = |path: String, name: &str, mixed: bool| {
            let lower = name.to_lowercase();
            let wrong = NameRule::Label1035.check(if mixed { &lower } else { name });
            if let Some(why) = wrong.filter(|_| !name.is_empty()) {
                let why = if mixed {
                    format!("may have mixed case, but should otherwise match: {why}")
                } else {
                    why
                };
                errors.push(FieldError::invalid(path, &name.into(), why));
            }
        };
        for (field, mixed) in [("singular", false), ("kind", true), ("listKind", true)] {
            let name = self.text(&format!("names/{field}"));
            check(format!("spec.names.{field}"), name, mixed);
        }
        for field in ["shortNames", "categories"] {
            for (at, name) in self.texts(&format!("names/{field}")).iter().enumerate() {
                check(format!("spec.names.{field}[{at}]"), name, false);
            }
        }
        let (kind, list) = (self.text("names/kind"), self.text("names/listKind"));
        if !kind.is_empty() && kind == list {
            let why = "kind and listKind may not be the same";
            errors.push(FieldError::invalid(
                "spec.names.listKind",
                &list.into(),
                why,
            ));
        }
    }
}

fn columns(columns: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    for (at, column) in items(columns).iter().enumerate() {
        let path = |field: &str| format!("{path}[{at}].{field}");
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(path("name"), ""));
        }
        let mut one_of = |field: &str, allowed: &[&str]| {
            let value = text(column, field);
            if !value.is_empty() && !allowed.contains(&value) {
                let why = format!("must be one of {}", allowed.join(","));
                errors.push(FieldError::invalid(path(field), &value.into(), why));
            }
        };
        one_of("type", &COLUMN_TYPES);
        one_of("format", &COLUMN_FORMATS);
        if text(column, "type").is_empty() {
            errors.push(FieldError::required(path("type"), ""));
        }
        simple_path(column, "jsonPath", path("JSONPath"), errors);
    }
}

fn scale(scale: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = scale.filter(|scale| scale.is_object()) else {
        return;
    };
    let under = |field: &str, roots: &[&str], words: &str, errors: &mut Vec<FieldError>| {
        let value = text(scale, field);
        let is_under = roots
            .iter()
            .any(|root| value.starts_with(&format!("{root}.")));
        if value.starts_with('.') && !is_under {
            let why = format!("should be a json path under {words}");
            let path = format!("{path}.scale.{field}");
            errors.push(FieldError::invalid(path, &value.into(), why));
        }
    };
    for (field, root) in [
        ("specReplicasPath", ".spec"),
        ("statusReplicasPath", ".status"),
    ] {
        simple_path(scale, field, format!("{path}.scale.{field}"), errors);
        under(field, &[root], root, errors);
    }
    let selector = "labelSelectorPath";
    if !text(scale, selector).is_empty() {
        simple_path(scale, selector, format!("{path}.scale.{selector}"), errors);
        under(
            selector,
            &[".spec", ".status"],
            "either .spec or .status",
            errors,
        );
    }
}

/// Checks a path to a field, which must not be empty and must begin with a dot.
fn simple_path(of: &Value, field: &str, path: String, errors: &mut Vec<FieldError>) {
    match text(of, field) {
        "" => errors.push(FieldError::required(path, "")),
        value if !value.starts_with('.') => {
            let why = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(path, &value.into(), why));
        }
        _ => {}
    }
}

fn selectable_fields(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let schema = version.pointer("/schema/openAPIV3Schema");
    let mut seen = Vec::new();
    for (at, field) in items(version.get("selectableFields")).iter().enumerate() {
        let path = format!("{path}[{at}].jsonPath");
        let value = text(field, "jsonPath");
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let Some(names) = value.strip_prefix('.') else {
            let first = value.split(['.', '[']).next().unwrap_or_default();
            let why = format!("is an invalid path: expected [ or . but got: {first}");
            errors.push(FieldError::invalid(path, &value.into(), why));
            continue;
        };
        let found = names.split('.').try_fold(schema, |schema, name| {
            let below = schema?.get("properties")?.get(name);
            below.map(Some)
        });
        let is_metadata = names == "metadata" || names.starts_with("metadata.");
        match found.flatten().filter(|_| !is_metadata) {
            None => {
                let why = "is an invalid path: does not refer to a valid field";
                errors.push(FieldError::invalid(path.clone(), &value.into(), why));
            }
            Some(schema) if !matches!(text(schema, "type"), "string" | "boolean" | "integer") => {
                let why = "must point to a field of type string, boolean or integer. Enum string \
                           fields and strings with formats are allowed.";
                errors.push(FieldError::invalid(path.clone(), &value.into(), why));
            }
            Some(_) => {}
        }
        if seen.contains(&value) {
            errors.push(FieldError::duplicate(path, &value.into()));
        }
        seen.push(value);
    }
}

fn deprecation(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let path = format!("{path}.deprecationWarning");
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        let why = "can only be set for deprecated versions";
        errors.push(FieldError::invalid(path, &warning.into(), why));
    } else if warning.len() > MAX_WARNING {
        let why = format!("must be <= {MAX_WARNING} characters long");
        errors.push(FieldError::invalid(path, &warning.into(), why));
    }
}

fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}
