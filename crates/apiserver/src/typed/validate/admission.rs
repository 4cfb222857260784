//! Webhooks, admission policies and their bindings, and flow control.

use serde_json::Value;

use super::{At, Faults};
use crate::metadata::syntax;
use crate::status::FieldError;

pub(super) fn webhooks(root: At<'_>, faults: &mut Faults) {
    root.each("webhooks", |at| {
        let name = at.text("name");
        if let Some(why) = syntax::subdomain(name) {
            faults.invalid(at.path("name"), &name.into(), why);
        } else if name.split('.').count() < 3 {
            let why = "should be a domain with at least three segments separated by dots";
            faults.invalid(at.path("name"), &name.into(), why);
        }
        let versions = at.list("admissionReviewVersions");
        if versions.is_empty() {
            let why = "must specify one of v1, v1beta1";
            faults.required(at.path("admissionReviewVersions"), why);
        } else if !versions.iter().any(|it| it == "v1" || it == "v1beta1") {
            let why = "must include at least one of v1, v1beta1";
            let value = Value::from(versions.to_vec());
            faults.invalid(at.path("admissionReviewVersions"), &value, why);
        }
        for (number, version) in versions.iter().enumerate() {
            if let Some(why) = version.as_str().and_then(syntax::label_1035) {
                let path = format!("{}[{number}]", at.path("admissionReviewVersions"));
                faults.invalid(path, version, why);
            }
        }
        at.each("rules", |at| {
            for field in ["apiGroups", "apiVersions", "resources"] {
                if at.list(field).is_empty() {
                    faults.required(at.path(field), "");
                }
            }
            let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
            known_items(at, "operations", &known, faults);
        });
        match at.text("sideEffects") {
            "None" | "NoneOnDryRun" => {}
            "" => {
                let why = "must specify one of None, NoneOnDryRun";
                faults.required(at.path("sideEffects"), why);
            }
            other => {
                let path = at.path("sideEffects");
                let known = ["None", "NoneOnDryRun"];
                faults.add(FieldError::not_supported(path, &other.into(), known));
            }
        }
        faults.one_of(at, "failurePolicy", &["Fail", "Ignore"]);
        faults.one_of(at, "matchPolicy", &["Equivalent", "Exact"]);
        at.inner("clientConfig", |at| {
            if at.get("url").is_some() {
                url(at, faults);
            }
        });
    });
}

/// The URL of a webhook. The faults show its parts.
fn url(at: At<'_>, faults: &mut Faults) {
    const FORM: &str = "desired format: https://host[/path]";
    let (scheme, rest) = at.text("url").split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme; {FORM}");
        faults.invalid(at.path("url"), &scheme.into(), why);
    }
    if host.is_empty() {
        let why = format!("host must be specified; {FORM}");
        faults.invalid(at.path("url"), &"".into(), why);
    }
}

pub(super) fn policy(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        at.inner("matchConstraints", |at| {
            for rules in ["resourceRules", "excludeResourceRules"] {
                at.each(rules, |at| {
                    for field in ["apiGroups", "apiVersions", "resources"] {
                        if at.list(field).is_empty() {
                            faults.required(at.path(field), "");
                        }
                    }
                });
            }
        });
        at.each("validations", |at| {
            if at.text("expression").trim().is_empty() {
                faults.required(at.path("expression"), "expression is not specified");
            }
        });
    });
}

pub(super) fn binding(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if faults.needs(at, "policyName") {
            faults.follows(at, "policyName", syntax::subdomain);
        }
        if at.list("validationActions").is_empty() {
            let why = "at least one validation action is required";
            faults.required(at.path("validationActions"), why);
        }
        known_items(at, "validationActions", &["Audit", "Deny", "Warn"], faults);
    });
}

/// Refuses the items of a list that are none of `known`.
fn known_items(at: At<'_>, field: &str, known: &[&str], faults: &mut Faults) {
    for (number, item) in at.list(field).iter().enumerate() {
        if !item.as_str().is_some_and(|item| known.contains(&item)) {
            let path = format!("{}[{number}]", at.path(field));
            faults.add(FieldError::not_supported(path, item, known));
        }
    }
}

pub(super) fn flow_schema(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        at.inner("priorityLevelConfiguration", |at| {
            if at.text("name").is_empty() {
                faults.required(at.path("name"), "must reference a priority level");
            }
            faults.follows(at, "name", syntax::subdomain);
        });
    });
}

pub(super) fn priority_level(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let kind = at.get("type").cloned().unwrap_or_else(|| "".into());
        if kind != "Exempt" && kind != "Limited" {
            let known = ["Exempt", "Limited"];
            faults.add(FieldError::not_supported(at.path("type"), &kind, known));
            return;
        }
        if kind == "Limited" && at.get("limited").is_none() {
            let why = "must not be empty when type is Limited";
            faults.required(at.path("limited"), why);
        }
        at.inner("limited", |at| {
            at.inner("limitResponse", |at| {
                if faults.needs(at, "type") {
                    faults.one_of(at, "type", &["Queue", "Reject"]);
                }
            });
        });
    });
}
