//! Validation of custom resource definitions.

use serde_json::Value;

use super::Definition;
use crate::metadata::{self, NameRule};
use crate::schema::{Limits, PatternMemory, Schema};
use crate::status::FieldError;
use crate::typed;

// === impl Definition ===

impl<'a> Definition<'a> {
    /// Returns the validation errors of a definition.
    pub(crate) fn validate(object: &'a Value, memory: &PatternMemory) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let definition = Self { object };
        let expected = format!("{}.{}", definition.plural(), definition.group());
        let name = metadata::text(object, "name");
        if name != expected {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            errors.push(FieldError::invalid("metadata.name", &name.into(), detail));
        }
        for pointer in [
            "group",
            "scope",
            "names/plural",
            "names/singular",
            "names/kind",
            "names/listKind",
        ] {
            let value = object.pointer(&format!("/spec/{pointer}"));
            let path = format!("spec.{}", pointer.replace('/', "."));
            match value {
                Some(Value::String(text)) if !text.is_empty() => {}
                None | Some(Value::Null | Value::String(_)) => {
                    errors.push(FieldError::required(path, ""));
                }
                Some(other) => {
                    errors.push(FieldError::type_invalid(path, other, "must be a string"));
                }
            }
        }
        let scope = definition.text("scope");
        if !matches!(scope, "" | "Cluster" | "Namespaced") {
            let supported = ["Cluster", "Namespaced"];
            errors.push(FieldError::not_supported(
                "spec.scope",
                &scope.into(),
                supported,
            ));
        }
        if object.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
            errors.push(FieldError::invalid(
                "spec.preserveUnknownFields",
                &true.into(),
                "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                 spec.versions[*].schema instead",
            ));
        }
        definition.validate_conversion(&mut errors);
        definition.validate_versions(memory, &mut errors);
        definition.validate_parts(&mut errors);
        errors
    }

    /// The server stores a conversion webhook and does not call it: it converts like `None`.
    fn validate_conversion(&self, errors: &mut Vec<FieldError>) {
        const CLIENT: &str = "spec.conversion.webhookClientConfig";
        const REVIEWS: &str = "spec.conversion.conversionReviewVersions";
        let Some(conversion) = self.object.pointer("/spec/conversion") else {
            return;
        };
        let webhook = conversion.get("webhook");
        let part = |field: &str| webhook?.get(field).filter(|value| !value.is_null());
        let (client, reviews) = (part("clientConfig"), part("conversionReviewVersions"));
        let reviews = reviews
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let strategy = conversion.get("strategy").and_then(Value::as_str);
        match strategy.unwrap_or_default() {
            "Webhook" => {
                match client {
                    Some(client) => errors.extend(typed::conversion_client(client, CLIENT)),
                    None => errors.push(FieldError::required(
                        CLIENT,
                        "required when strategy is set to Webhook",
                    )),
                }
                review_versions(reviews, REVIEWS, errors);
                return;
            }
            "None" => {}
            "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
            other => errors.push(FieldError::not_supported(
                "spec.conversion.strategy",
                &other.into(),
                ["None", "Webhook"],
            )),
        }
        for (path, is_set) in [(CLIENT, client.is_some()), (REVIEWS, !reviews.is_empty())] {
            if is_set {
                let why = "should not be set when strategy is not set to Webhook";
                errors.push(FieldError::forbidden(path, why));
            }
        }
    }

    fn validate_versions(&self, memory: &PatternMemory, errors: &mut Vec<FieldError>) {
        let versions = self.versions();
        let stored = versions
            .iter()
            .filter(|version| version["storage"] == true)
            .count();
        if stored != 1 {
            let names: Vec<_> = versions
                .iter()
                .map(|version| version["name"].clone())
                .collect();
            errors.push(FieldError::invalid(
                "spec.versions",
                &names.into(),
                "must have exactly one version marked as storage version",
            ));
        }
        let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
        let is_shared = versions
            .first()
            .is_some_and(|first| versions.iter().all(|v| schema(v) == schema(first)));
        let mut names = Vec::new();
        let mut limits = Limits::new(memory.clone()).with_expressions();
        for (at, version) in versions.iter().enumerate() {
            let path = format!("spec.versions[{at}]");
            let name = version["name"].as_str().unwrap_or_default();
            if let Some(why) = NameRule::Label1035.check(name) {
                errors.push(FieldError::invalid(
                    format!("{path}.name"),
                    &name.into(),
                    why,
                ));
            }
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
            }
            names.push(name);
            match version.pointer("/schema/openAPIV3Schema") {
                None | Some(Value::Null) => errors.push(FieldError::required(
                    format!("{path}.schema.openAPIV3Schema"),
                    "",
                )),
                Some(schema) => {
                    let place = if is_shared {
                        "spec.validation.openAPIV3Schema".to_owned()
                    } else {
                        format!("{path}.schema.openAPIV3Schema")
                    };
                    // An error of all versions is reported once.
                    if is_shared && at > 0 {
                        continue;
                    }
                    if let Err(found) = Schema::compile_within(schema, &mut limits) {
                        errors.extend(found.into_iter().map(|error| {
                            let rest = match error.path.as_str() {
                                "" => String::new(),
                                rest if rest.starts_with('[') => rest.to_owned(),
                                rest => format!(".{rest}"),
                            };
                            FieldError {
                                path: format!("{place}{rest}"),
                                ..error
                            }
                        }));
                    }
                }
            }
        }
    }

    /// Returns an error for each version in `status.storedVersions` that the definition does not
    /// have: stored objects may still be in this version.
    pub(crate) fn dropped_versions(&self) -> Vec<FieldError> {
        let stored = self.object.pointer("/status/storedVersions");
        let stored = stored.and_then(Value::as_array).into_iter().flatten();
        let has = |name: &Value| self.versions().iter().any(|it| it["name"] == *name);
        stored
            .enumerate()
            .filter(|(_, name)| !has(name))
            .map(|(at, name)| {
                let version = name.as_str().unwrap_or_default();
                let detail = format!(
                    "missing from spec.versions; {version} was previously a storage version, and \
                     must remain in spec.versions until a storage migration ensures no data remains \
                     persisted in {version} and removes {version} from status.storedVersions"
                );
                FieldError::invalid(format!("status.storedVersions[{at}]"), name, detail)
            })
            .collect()
    }

    /// Returns errors for the immutable fields of an established definition that `object` changes.
    pub(crate) fn frozen(&self, object: &Value) -> Vec<FieldError> {
        let fields = ["group", "scope", "names/plural", "names/kind"];
        let changed = fields.iter().filter(|field| {
            let pointer = format!("/spec/{field}");
            self.is_established() && self.object.pointer(&pointer) != object.pointer(&pointer)
        });
        changed
            .map(|field| {
                let value = object
                    .pointer(&format!("/spec/{field}"))
                    .unwrap_or(&Value::Null);
                let path = format!("spec.{}", field.replace('/', "."));
                FieldError::invalid(path, value, "field is immutable")
            })
            .collect()
    }
}

/// Checks the versions of `ConversionReview` that a webhook accepts.
fn review_versions(versions: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    if versions.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    for (at, version) in versions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        if versions[..at].contains(version) {
            errors.push(FieldError::invalid(path, version, "duplicate version"));
        } else if let Some(why) = NameRule::Label1035.check(version.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(path, version, why));
        }
    }
    if !versions.iter().any(|it| it == "v1" || it == "v1beta1") {
        let why = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(path, &versions.to_vec().into(), why));
    }
}
