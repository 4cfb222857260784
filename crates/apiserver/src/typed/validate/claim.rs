//! Resource claims of devices.

use serde_json::Value;

use super::{At, Faults};
use crate::metadata::syntax;
use crate::status::FieldError;

/// The most requests, constraints and configurations of a claim, and allocated devices.
pub(super) const MAX_ITEMS: usize = 32;

/// The most alternatives of a request.
const MAX_ALTERNATIVES: usize = 8;

/// The most selectors of a request.
const MAX_SELECTORS: usize = 32;

/// The most tolerations of a request.
const MAX_TOLERATIONS: usize = 16;

/// The most bytes of the name of a driver.
const MAX_DRIVER: usize = 63;

/// The most bytes of the name of a pool.
const MAX_POOL: usize = 253;

/// The most bytes of the domain, and of the identifier after it, of a qualified name.
const MAX_DOMAIN: usize = 63;
const MAX_IDENTIFIER: usize = 32;

/// The effects of a taint of a device.
pub(super) const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// The spec of a claim or of a claim template.
pub(super) fn resource_claim(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        at.inner("devices", |at| {
            let names = names(at.value);
            set(at, "requests", MAX_ITEMS, "name", faults);
            at.each("requests", |at| request(at, faults));
            at_most(at, "constraints", MAX_ITEMS, faults);
            at.each("constraints", |at| constraint(at, &names, faults));
            at_most(at, "config", MAX_ITEMS, faults);
            at.each("config", |at| configuration(at, &names, faults));
        });
    });
}

/// The names by which other parts of a claim refer to the requests of `devices`.
pub(super) fn names(devices: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut names = Vec::new();
    for request in list(&devices["requests"]) {
        let inner = list(&request["firstAvailable"]);
        let inner = inner
            .iter()
            .map(|it| format!("{}/{}", name(&request), name(it)));
        names.extend(inner);
        names.push(name(&request));
    }
    names
}

/// A request for a device, or for the first available one of several.
fn request(at: At<'_>, faults: &mut Faults) {
    faults.must_follow(at, "name", syntax::label);
    let has_several = !at.list("firstAvailable").is_empty();
    match (has_several, at.get("exactly").is_some()) {
        (false, false) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required";
            faults.required(at.path, why);
        }
        (true, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple \
                       fields are set";
            faults.invalid(at.path, &Value::Null, why);
        }
        (true, false) => {
            set(at, "firstAvailable", MAX_ALTERNATIVES, "name", faults);
            at.each("firstAvailable", |at| {
                faults.must_follow(at, "name", syntax::label);
                devices(at, faults);
            });
        }
        (false, true) => at.inner("exactly", |at| devices(at, faults)),
    }
}

/// The class, the number and the properties of the requested devices.
fn devices(at: At<'_>, faults: &mut Faults) {
    faults.needs_valid(at, "deviceClassName", syntax::subdomain);
    at_most(at, "selectors", MAX_SELECTORS, faults);
    at.each("selectors", |at| {
        if at.get("cel").is_none() {
            faults.required(at.path("cel"), "");
        }
    });
    let count = at.number("count").unwrap_or_default();
    let why = match at.text("allocationMode") {
        "ExactCount" if count <= 0 => Some("must be greater than zero"),
        "All" if count != 0 => Some("must not be specified when allocationMode is 'All'"),
        _ => None,
    };
    if let Some(why) = why {
        faults.invalid(at.path("count"), &count.into(), why);
    }
    faults.one_of(at, "allocationMode", &["All", "ExactCount"]);
    at_most(at, "tolerations", MAX_TOLERATIONS, faults);
    at.each("tolerations", |at| toleration(at, faults));
}

fn toleration(at: At<'_>, faults: &mut Faults) {
    faults.follows(at, "key", syntax::qualified_name);
    match at.text("operator") {
        "Exists" => {
            let value = at.text("value");
            if !value.is_empty() {
                let why = "must be empty for operator `Exists`";
                faults.invalid(at.path("value"), &value.into(), why);
            }
        }
        "Equal" => faults.must_follow(at, "value", syntax::label_value),
        _ => faults.one_of(at, "operator", &["Equal", "Exists"]),
    }
    faults.one_of(at, "effect", &EFFECTS);
}

/// A constraint of the attributes of all devices of some requests.
fn constraint(at: At<'_>, names: &[String], faults: &mut Faults) {
    requests(at, names, faults);
    if at.get("matchAttribute").is_none() && at.get("distinctAttribute").is_none() {
        let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but \
                   multiple fields are set";
        faults.required(at.path, why);
    }
    for field in ["matchAttribute", "distinctAttribute"] {
        let name = at.text(field);
        if name.contains('/') {
            qualified(&at.path(field), name, faults);
        } else if at.get(field).is_some() {
            let why = "a fully qualified name must be a domain and a name separated by a slash";
            faults.invalid(at.path(field), &name.into(), why);
        }
    }
}

/// The configuration of a driver for the devices of some requests.
pub(super) fn configuration(at: At<'_>, names: &[String], faults: &mut Faults) {
    requests(at, names, faults);
    if at.get("opaque").is_none() {
        faults.required(at.path("opaque"), "");
    }
    at.inner("opaque", |at| {
        driver(at, faults);
        match at.get("parameters") {
            None => faults.required(at.path("parameters"), ""),
            Some(Value::Object(_)) => {}
            Some(_) => {
                let why = "must be a valid JSON object";
                faults.invalid(at.path("parameters"), &"<value omitted>".into(), why);
            }
        }
    });
}

/// References to requests.
fn requests(at: At<'_>, names: &[String], faults: &mut Faults) {
    at_most(at, "requests", MAX_ITEMS, faults);
    let requests = at.list("requests");
    for (number, name) in requests.iter().enumerate() {
        let path = format!("{}[{number}]", at.path("requests"));
        if requests[..number].contains(name) {
            faults.add(FieldError::duplicate(path, name));
        } else {
            reference(&path, name.as_str().unwrap_or_default(), names, faults);
        }
    }
}

/// A reference to a request.
pub(super) fn reference(path: &str, name: &str, names: &[String], faults: &mut Faults) {
    for part in name.split('/') {
        faults.wrong(path, &part.into(), syntax::label(part));
    }
    if !names.iter().any(|known| known == name) {
        let why = "must be the name of a request in the claim or the name of a request and a \
                   subrequest separated by '/'";
        faults.invalid(path, &name.into(), why);
    }
}

/// The name of a driver.
pub(super) fn driver(at: At<'_>, faults: &mut Faults) {
    if faults.needs(at, "driver") {
        if at.text("driver").len() > MAX_DRIVER {
            faults.add(FieldError::too_long(at.path("driver"), MAX_DRIVER));
        }
        faults.must_follow(at, "driver", |name| syntax::subdomain(&name.to_lowercase()));
    }
}

/// The name of a pool: subdomains, with a `/` between them.
pub(super) fn pool(at: At<'_>, field: &str, faults: &mut Faults) {
    if faults.needs(at, field) {
        let name = at.text(field);
        if name.len() > MAX_POOL {
            faults.add(FieldError::too_long(at.path(field), MAX_POOL));
        }
        for part in name.split('/') {
            faults.wrong(at.path(field), &part.into(), syntax::subdomain(part));
        }
    }
}

/// The name of an attribute or of a capacity: an identifier, which can follow a domain and a `/`.
pub(super) fn qualified(path: &str, name: &str, faults: &mut Faults) {
    if name.matches('/').count() > 1 {
        // The real server accepts any such name.
        return;
    }
    let identifier = match name.split_once('/') {
        None => name,
        Some((domain, identifier)) => {
            if domain.is_empty() {
                faults.invalid(path, &"".into(), "the domain must not be empty");
            } else {
                if domain.len() > MAX_DOMAIN {
                    faults.add(FieldError::too_long(path, MAX_DOMAIN));
                }
                let wrong = syntax::subdomain(&domain.to_lowercase());
                faults.wrong(path, &domain.into(), wrong);
            }
            if identifier.is_empty() {
                faults.invalid(path, &"".into(), "the name must not be empty");
                return;
            }
            identifier
        }
    };
    if identifier.len() > MAX_IDENTIFIER {
        faults.add(FieldError::too_long(path, MAX_IDENTIFIER));
    }
    faults.wrong(path, &identifier.into(), syntax::identifier(identifier));
}

/// Checks that a list has at most `most` items, and that no two of them have the same `key`.
pub(super) fn set(at: At<'_>, field: &str, most: usize, key: &str, faults: &mut Faults) {
    at_most(at, field, most, faults);
    let items = at.list(field);
    for (number, item) in items.iter().enumerate() {
        if items[..number].iter().any(|it| it[key] == item[key]) {
            let path = format!("{}[{number}]", at.path(field));
            faults.add(FieldError::duplicate(path, &item[key]));
        }
    }
}

/// Checks that a list has at most `most` items.
pub(super) fn at_most(at: At<'_>, field: &str, most: usize, faults: &mut Faults) {
    let count = at.list(field).len();
    if count > most {
        faults.add(FieldError::too_many(at.path(field), count, most));
    }
}
