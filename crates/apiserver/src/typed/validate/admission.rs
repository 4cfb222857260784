//! Webhooks, admission policies and their bindings.

use serde_json::Value;

use super::{At, Faults, selector};
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
        faults.must_be_one_of(at, "failurePolicy", &["Fail", "Ignore"]);
        faults.must_be_one_of(at, "matchPolicy", &["Equivalent", "Exact"]);
        let client = at.get("clientConfig");
        if client.is_none_or(|it| it.get("url").is_none() == it.get("service").is_none()) {
            let why = "exactly one of url or service is required";
            faults.required(at.path("clientConfig"), why);
        }
        at.inner("clientConfig", |at| {
            if at.get("url").is_some() {
                url(at, faults);
            } else {
                at.inner("service", |at| service(at, faults));
            }
        });
    });
}

/// Returns the errors in the configuration at `path` of the client of a conversion webhook.
pub(crate) fn conversion_client(config: &Value, path: &str) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let at = At {
        value: config,
        path,
    };
    match (at.get("url"), at.get("service")) {
        (Some(_), None) => url(at, &mut faults),
        (None, Some(_)) => at.inner("service", |at| service(at, &mut faults)),
        _ => faults.required(path, "exactly one of url or service is required"),
    }
    faults.0
}

/// The service of a webhook.
fn service(at: At<'_>, faults: &mut Faults) {
    // The real server's error names the other field.
    for (field, named) in [("namespace", "name"), ("name", "namespace")] {
        if at.text(field).is_empty() {
            faults.required(at.path(named), "");
        }
    }
    let port = at.number("port").unwrap_or_default();
    if !(1..=65_535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        faults.invalid(at.path("port"), &port.into(), why);
    }
    faults.follows(at, "path", |path| match path {
        "/" => Vec::new(),
        "//" => vec!["segment[0] may not be empty".to_owned()],
        path => service_path(path),
    });
}

/// The errors of the path of a service.
fn service_path(path: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if !path.starts_with('/') {
        wrong.push("must start with a '/'".to_owned());
    }
    // The real server skips the first character without a check.
    let rest: String = path.chars().skip(1).collect();
    let rest = rest.strip_suffix('/').unwrap_or(&rest);
    for (number, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            wrong.push(format!("segment[{number}] may not be empty"));
        } else if let Some(why) = syntax::subdomain(segment) {
            wrong.push(format!("segment[{number}]: {why}"));
        }
    }
    wrong
}

/// A rule that selects requests.
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
    for (field, all, others) in [
        ("apiGroups", "*", "API groups"),
        ("apiVersions", "*", "API versions"),
        ("resources", "*/*", "resources"),
        ("operations", "*", "operations"),
    ] {
        let items = at.list(field);
        if items.len() > 1 && items.iter().any(|item| item == all) {
            let why = format!("if '{all}' is present, must not specify other {others}");
            faults.invalid(at.path(field), &items.into(), why);
        }
    }
    resources(at, faults);
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    known_items(at, "operations", &known, faults);
}

/// Resources that a wildcard before them includes.
fn resources(at: At<'_>, faults: &mut Faults) {
    let resources = at.list("resources");
    let texts: Vec<_> = resources.iter().filter_map(Value::as_str).collect();
    for (number, text) in texts.iter().enumerate() {
        let Some((resource, subresource)) = text.split_once('/') else {
            continue;
        };
        for wildcard in [format!("{resource}/*"), format!("*/{subresource}")] {
            if texts[..number].contains(&wildcard.as_str()) {
                let path = format!("{}[{number}]", at.path("resources"));
                let why = format!("if '{wildcard}' is present, must not specify {text}");
                faults.invalid(path, &(*text).into(), why);
            }
        }
    }
    let is_named = |text: &&str| !text.contains('/') && !text.is_empty() && *text != "*";
    if texts.contains(&"*") && texts.iter().any(is_named) {
        let why = "if '*' is present, must not specify other resources without subresources";
        faults.invalid(at.path("resources"), &resources.into(), why);
    }
}

/// The URL of a webhook. The error messages show its parts.
fn url(at: At<'_>, faults: &mut Faults) {
    const FORM: &str = "desired format: https://host[/path]";
    if let Some(why) = syntax_error(at.text("url")) {
        let text = Value::from(at.text("url"));
        let why = format!("url must be a valid URL: parse {text}: {why}; {FORM}");
        faults.required(at.path("url"), &why);
        return;
    }
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

/// Go's parse error for a URL with an invalid scheme.
fn syntax_error(url: &str) -> Option<&'static str> {
    let first = url.split(['/', '?', '#']).next().unwrap_or_default();
    let (scheme, _) = first.split_once(':')?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if scheme.is_empty() {
        Some("missing protocol scheme")
    } else if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(is_part) {
        None
    } else {
        Some("first path segment in URL cannot contain colon")
    }
}

/// The fields that both kinds of policies have.
fn constraints(at: At<'_>, faults: &mut Faults) {
    faults.must_be_one_of(at, "failurePolicy", &["Fail", "Ignore"]);
    if at.get("matchConstraints").is_none() {
        faults.required(at.path("matchConstraints"), "");
    }
    at.inner("matchConstraints", |at| {
        faults.must_be_one_of(at, "matchPolicy", &["Equivalent", "Exact"]);
        for field in ["namespaceSelector", "objectSelector"] {
            at.inner(field, |at| _ = selector::check(at, faults));
        }
        if at.list("resourceRules").is_empty() {
            faults.required(at.path("resourceRules"), "");
        }
        for rules in ["resourceRules", "excludeResourceRules"] {
            at.each(rules, |at| {
                rule(at, faults);
            });
        }
    });
}

pub(super) fn mutating_policy(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        constraints(at, faults);
        at.inner("matchConstraints", |at| {
            // The path in the error of the real server has no number.
            let path = at.path("resourceRules.operations");
            let rules = at.list("resourceRules").iter();
            let operations = rules
                .filter_map(|rule| rule["operations"].as_array())
                .flatten();
            let known = ["*", "CONNECT", "CREATE", "UPDATE"];
            for operation in
                operations.filter(|it| !it.as_str().is_some_and(|it| known.contains(&it)))
            {
                faults.add(FieldError::not_supported(path.as_str(), operation, known));
            }
        });
        if at.list("mutations").is_empty() {
            let why = "mutations must contain at least one item";
            faults.required(at.path("mutations"), why);
        }
        at.each("mutations", |at| {
            let patch = match at.text("patchType") {
                "JSONPatch" => "jsonPatch",
                "ApplyConfiguration" => "applyConfiguration",
                _ => {
                    if faults.needs(at, "patchType") {
                        let known = ["ApplyConfiguration", "JSONPatch"];
                        faults.one_of(at, "patchType", &known);
                    }
                    return;
                }
            };
            if at.get(patch).is_none() {
                let why = format!(
                    "must be specified when patchType is {}",
                    at.text("patchType")
                );
                faults.required(at.path(patch), &why);
            }
            at.inner(patch, |at| _ = faults.needs(at, "expression"));
        });
        if faults.needs(at, "reinvocationPolicy") {
            faults.one_of(at, "reinvocationPolicy", &["IfNeeded", "Never"]);
        }
    });
}

pub(super) fn policy(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        constraints(at, faults);
        let lists = ["validations", "auditAnnotations"];
        if lists.iter().all(|list| at.list(list).is_empty()) {
            for list in lists {
                let why = "validations or auditAnnotations must contain at least one item";
                faults.required(at.path(list), why);
            }
        }
        at.each("validations", |at| {
            if at.text("expression").trim().is_empty() {
                faults.required(at.path("expression"), "expression is not specified");
            }
        });
    });
}

pub(super) fn binding(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        faults.needs_valid(at, "policyName", syntax::subdomain);
        if at.list("validationActions").is_empty() {
            let why = "at least one validation action is required";
            faults.required(at.path("validationActions"), why);
        }
        known_items(at, "validationActions", &["Audit", "Deny", "Warn"], faults);
        at.inner("paramRef", |at| parameters(at, faults));
    });
}

pub(super) fn mutating_binding(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        faults.needs_valid(at, "policyName", syntax::subdomain);
        at.inner("paramRef", |at| parameters(at, faults));
    });
}

/// The objects with the parameters of a policy: one of a name and a selector.
fn parameters(at: At<'_>, faults: &mut Faults) {
    let has_name = !at.text("name").is_empty();
    let both = "name and selector are mutually exclusive";
    faults.follows(at, "name", syntax::path_segment);
    if at.get("selector").is_some() {
        at.inner("selector", |at| _ = selector::check(at, faults));
        if has_name {
            faults.forbidden(at.path("name"), both);
            faults.forbidden(at.path("selector"), both);
        }
    } else if !has_name {
        faults.required(at.path, "one of name or selector must be specified");
    }
    if faults.needs(at, "parameterNotFoundAction") {
        faults.one_of(at, "parameterNotFoundAction", &["Deny", "Allow"]);
    }
}

/// Rejects the items of a list that are not in `known`.
fn known_items(at: At<'_>, field: &str, known: &[&str], faults: &mut Faults) {
    for (number, item) in at.list(field).iter().enumerate() {
        if !item.as_str().is_some_and(|item| known.contains(&item)) {
            let path = format!("{}[{number}]", at.path(field));
            faults.add(FieldError::not_supported(path, item, known));
        }
    }
}
