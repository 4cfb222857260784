//! Webhooks, admission policies and their bindings, and flow control.

use serde_json::Value;

use super::{At, Faults};
use crate::metadata::syntax;
use crate::status::FieldError;

pub(super) fn webhooks(root: At<'_>, faults: &mut Faults) {
    root.each("webhooks", |at| {
        let name = at.text("name");
        if name.is_empty() {
            faults.required(at.path("name"), "");
        } else if let Some(why) = syntax::subdomain(name) {
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
            let path = format!("{}[{number}]", at.path("admissionReviewVersions"));
            if let Some(why) = version.as_str().and_then(syntax::label_1035) {
                faults.invalid(path.as_str(), version, why);
            }
            if versions[..number].contains(version) {
                faults.invalid(path, version, "duplicate version");
            }
        }
        at.each("rules", |at| {
            rule(at, faults);
        });
        match at.text("sideEffects") {
            "None" | "NoneOnDryRun" => {}
            "" if at.get("sideEffects").is_none() => {
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
        let client = at.get("clientConfig");
        if client.is_none_or(|it| it.get("url").is_none() == it.get("service").is_none()) {
            let why = "exactly one of url or service is required";
            faults.required(at.path("clientConfig"), why);
        }
        at.inner("clientConfig", |at| {
            if at.get("url").is_some() {
                url(at, faults);
            }
        });
    });
}

/// A rule about requests.
fn rule(at: At<'_>, faults: &mut Faults) {
    for field in ["apiGroups", "apiVersions", "resources", "operations"] {
        let items = at.list(field);
        if items.is_empty() {
            faults.required(at.path(field), "");
        }
        for (number, item) in items.iter().enumerate() {
            if item == "" && matches!(field, "apiVersions" | "resources") {
                faults.required(format!("{}[{number}]", at.path(field)), "");
            }
        }
    }
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    known_items(at, "operations", &known, faults);
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
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (_, query) = rest.split_once('?').unwrap_or_default();
    let (user, host) = host.split_once('@').unwrap_or(("", host));
    for (part, what) in [
        (user, "user information is"),
        (fragment, "fragments are"),
        (query, "query parameters are"),
    ] {
        if !part.is_empty() {
            let why = format!("{what} not permitted in the URL");
            faults.invalid(at.path("url"), &part.into(), why);
        }
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
                    rule(at, faults);
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
        if !faults.needs(at, "type") {
            return;
        }
        let kind = Value::from(at.text("type"));
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
