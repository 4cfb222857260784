//! The resources that containers request, and that quotas limit.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults, quantity};
use crate::metadata::syntax;
use crate::status::{FieldError, FieldErrorKind};
use crate::typed::Quantity;

/// Resources whose amounts are counts.
const COUNTED: [&str; 9] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources whose amounts are quantities.
const MEASURED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

const HUGE_PAGES: &str = "hugepages-";

/// The requests and limits of a container. `claims` are the resource claims of its pod.
pub(super) fn requirements(at: At<'_>, claims: &BTreeSet<String>, faults: &mut Faults) {
    let (mut has_compute, mut has_huge) = (false, false);
    for field in ["limits", "requests"] {
        for (name, amount) in at.map(field).into_iter().flatten() {
            let path = format!("{}[{name}]", at.path(field));
            container_name(&path, name, faults);
            value(&path, name, amount, faults);
            if field == "requests" {
                request(at, name, amount, faults);
            }
            if let Some(size) = name.strip_prefix(HUGE_PAGES) {
                has_huge = true;
                if !is_multiple(amount, size) {
                    let found = amount.as_str().unwrap_or_default();
                    let why = format!("{found} is not positive integer multiple of {name}");
                    faults.invalid(path, amount, why);
                }
            }
            has_compute |= matches!(name.as_str(), "cpu" | "memory");
        }
    }
    if has_huge && !has_compute {
        faults.forbidden(at.path, "HugePages require cpu or memory");
    }
    let mut names = BTreeSet::new();
    for (number, claim) in at.list("claims").iter().enumerate() {
        let path = format!("{}[{number}]", at.path("claims"));
        let name = claim["name"].as_str().unwrap_or_default();
        let request = claim["request"].as_str().unwrap_or_default();
        if name.is_empty() {
            faults.required(path, "");
            continue;
        }
        if !names.insert((name, request)) {
            faults.add(FieldError::duplicate(path.as_str(), &name.into()));
        }
        if !claims.contains(name) {
            let known: Vec<_> = claims.iter().map(String::as_str).collect();
            let rest = match known.as_slice() {
                [] => " which is empty".to_owned(),
                known => format!(": {}", known.join(", ")),
            };
            faults.add(FieldError {
                path,
                kind: FieldErrorKind::NotFound {
                    value: Value::from(name).to_string(),
                },
                detail: format!("must be one of the names in pod.spec.resourceClaims{rest}"),
            });
        }
    }
}

/// Checks a request against the limit of the same resource.
fn request(at: At<'_>, name: &str, requested: &Value, faults: &mut Faults) {
    let is_shared = is_shared(name);
    let Some(limit) = at.map("limits").and_then(|limits| limits.get(name)) else {
        if !is_shared {
            let why = "Limit must be set for non overcommitable resources";
            faults.required(at.path("limits"), why);
        }
        return;
    };
    let (Some(amount), Some(most)) = (quantity(requested), quantity(limit)) else {
        return;
    };
    let order = amount.compare(most);
    let limit = limit.as_str().unwrap_or_default();
    if order != Ordering::Equal && !is_shared {
        let why = format!("must be equal to {name} limit of {limit}");
        faults.invalid(at.path("requests"), requested, why);
    } else if order == Ordering::Greater {
        let why = format!("must be less than or equal to {name} limit of {limit}");
        faults.invalid(at.path("requests"), requested, why);
    }
}

/// Whether the request of a resource can be lower than its limit.
pub(super) fn is_shared(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// The name of a resource of a container.
pub(super) fn container_name(path: &str, name: &str, faults: &mut Faults) {
    resource_name(path, name, faults);
    let value = Value::from(name);
    if !name.contains('/') {
        if !MEASURED.contains(&name) && !name.starts_with(HUGE_PAGES) {
            faults.invalid(path, &value, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        faults.invalid(
            path,
            &value,
            "doesn't follow extended resource name standard",
        );
    }
}

/// The name of a resource in a quota.
pub(super) fn quota_name(path: &str, name: &str, faults: &mut Faults) {
    resource_name(path, name, faults);
    if !name.contains('/') && !is_of_quota(name) {
        faults.invalid(path, &name.into(), "must be a standard resource for quota");
    }
}

/// Whether Kubernetes knows this name, without a domain, as a resource of quotas.
pub(super) fn is_of_quota(name: &str) -> bool {
    name != "storage" && is_standard(name)
}

/// The name of any resource.
pub(super) fn resource_name(path: &str, name: &str, faults: &mut Faults) {
    let value = Value::from(name);
    let wrong = syntax::qualified_name(name);
    if wrong.is_empty() && !name.contains('/') && !is_standard(name) {
        let why = "must be a standard resource type or fully qualified";
        faults.invalid(path, &value, why);
    }
    faults.wrong(path, &value, wrong);
}

/// The amount of a resource.
pub(super) fn value(path: &str, name: &str, amount: &Value, faults: &mut Faults) {
    let Some(parsed) = quantity(amount) else {
        return;
    };
    if parsed.is_negative() {
        faults.invalid(path, amount, "must be greater than or equal to 0");
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !parsed.is_whole() {
        faults.invalid(path, amount, "must be an integer");
    }
}

/// Whether a name without a domain is a standard resource of Kubernetes.
fn is_standard(name: &str) -> bool {
    let measured = name
        .strip_prefix("requests.")
        .or(name.strip_prefix("limits."));
    let measured = measured.unwrap_or(name);
    COUNTED.contains(&name)
        || MEASURED.contains(&measured)
        || matches!(name, "storage" | "requests.storage")
        || name.starts_with(HUGE_PAGES)
        || name.starts_with("requests.hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is extended: its name has a domain, and its amounts are counts.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && syntax::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether an amount is a multiple of the page size.
fn is_multiple(amount: &Value, size: &str) -> bool {
    let whole = |quantity: Option<Quantity>| quantity.and_then(Quantity::whole);
    match (whole(quantity(amount)), whole(Quantity::parse(size).ok())) {
        (Some(amount), Some(size)) => size > 0 && amount % size == 0,
        _ => false,
    }
}
