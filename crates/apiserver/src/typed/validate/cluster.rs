//! Roles, budgets, leases, quotas, classes and events.

use serde_json::{Value, json};

use super::{At, Faults, resources, selector};
use crate::metadata::syntax;
use crate::status::FieldError;

/// The scopes of quotas. The first five accept only the operator `Exists`.
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
    "PriorityClass",
    "VolumeAttributesClass",
];

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn role(at: At<'_>, is_namespaced: bool, faults: &mut Faults) {
    at.each("rules", |at| {
        if at.list("verbs").is_empty() {
            let why = "verbs must contain at least one value";
            faults.required(at.path("verbs"), why);
        }
        let urls = at.list("nonResourceURLs");
        let (groups, resources) = (at.list("apiGroups"), at.list("resources"));
        if !urls.is_empty() {
            let path = at.path("nonResourceURLs");
            let value = Value::from(urls.to_vec());
            if is_namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                faults.invalid(path.as_str(), &value, why);
            }
            if !groups.is_empty() || !resources.is_empty() || !at.list("resourceNames").is_empty() {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                faults.invalid(path, &value, why);
            }
            return;
        }
        if groups.is_empty() {
            let why = "resource rules must supply at least one api group";
            faults.required(at.path("apiGroups"), why);
        }
        if resources.is_empty() {
            let why = "resource rules must supply at least one resource";
            faults.required(at.path("resources"), why);
        }
    });
}

pub(super) fn binding(root: At<'_>, is_namespaced: bool, faults: &mut Faults) {
    root.inner("roleRef", |at| {
        let group = at.text("apiGroup");
        if group != RBAC {
            let path = at.path("apiGroup");
            faults.add(FieldError::not_supported(path, &group.into(), [RBAC]));
        }
        let known: &[&str] = if is_namespaced {
            &["Role", "ClusterRole"]
        } else {
            &["ClusterRole"]
        };
        let kind = at.text("kind");
        if !known.contains(&kind) {
            let path = at.path("kind");
            faults.add(FieldError::not_supported(path, &kind.into(), known));
        }
        faults.needs_valid(at, "name", crate::metadata::syntax::path_segment);
    });
    root.each("subjects", |at| {
        faults.needs(at, "name");
        let group = at.text("apiGroup");
        let expected = match at.text("kind") {
            "ServiceAccount" => {
                faults.follows(at, "name", syntax::subdomain);
                if !is_namespaced && at.text("namespace").is_empty() {
                    faults.required(at.path("namespace"), "");
                }
                ""
            }
            "User" | "Group" => RBAC,
            other => {
                let known = ["ServiceAccount", "User", "Group"];
                let path = at.path("kind");
                faults.add(FieldError::not_supported(path, &other.into(), known));
                return;
            }
        };
        if group != expected {
            let path = at.path("apiGroup");
            faults.add(FieldError::not_supported(path, &group.into(), [expected]));
        }
    });
}

pub(super) fn disruption_budget(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let member = |field: &str| at.get(field).cloned().unwrap_or_default();
        if at.get("minAvailable").is_some() && at.get("maxUnavailable").is_some() {
            let value = json!({
                "MinAvailable": member("minAvailable"),
                "Selector": member("selector"),
                "MaxUnavailable": member("maxUnavailable"),
                "UnhealthyPodEvictionPolicy": member("unhealthyPodEvictionPolicy"),
            });
            let why = "minAvailable and maxUnavailable cannot be both set";
            faults.invalid(at.path, &value, why);
        }
        for field in ["minAvailable", "maxUnavailable"] {
            faults.share(at, field);
            faults.not_above_all(at, field);
        }
        at.inner("selector", |at| _ = selector::check(at, faults));
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        faults.one_of(at, "unhealthyPodEvictionPolicy", &policies);
    });
}

pub(super) fn lease(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let seconds = at.number("leaseDurationSeconds");
        if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
            let path = at.path("leaseDurationSeconds");
            faults.invalid(path, &seconds.into(), "must be greater than 0");
        }
        faults.not_negative(at, &["leaseTransitions"]);
    });
}

pub(super) fn quota(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        for (name, amount) in at.map("hard").into_iter().flatten() {
            let path = format!("{}[{name}]", at.path("hard"));
            resources::quota_name(&path, name, faults);
            resources::value(&path, name, amount, faults);
        }
        let scopes = at.list("scopes");
        let value = Value::from(scopes.to_vec());
        let has = |scope: &str| scopes.iter().any(|it| it == scope);
        for scope in scopes.iter().map(|it| it.as_str().unwrap_or_default()) {
            if !SCOPES.contains(&scope) {
                faults.invalid(at.path("scopes"), &value, "unsupported scope");
            }
            let limited = at.map("hard").into_iter().flatten();
            for _ in limited.filter(|(name, _)| !is_in_scope(scope, name)) {
                let why = "unsupported scope applied to resource";
                faults.invalid(at.path("scopes"), &value, why);
            }
        }
        for pair in [
            ["BestEffort", "NotBestEffort"],
            ["Terminating", "NotTerminating"],
        ] {
            if pair.into_iter().all(has) {
                faults.invalid(at.path("scopes"), &value, "conflicting scopes");
            }
        }
        at.inner("scopeSelector", |selector| {
            // Like on the real server, the error path has no item index.
            let path = selector.path("matchExpressions");
            selector.each("matchExpressions", |item| {
                let item = At {
                    path: &path,
                    ..item
                };
                scope(item, at, faults);
            });
        });
    });
}

/// Whether a quota with this scope can limit a resource.
fn is_in_scope(scope: &str, resource: &str) -> bool {
    const OF_PODS: [&str; 7] = [
        "pods",
        "cpu",
        "memory",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
    ];
    !resources::is_of_quota(resource)
        || match scope {
            "BestEffort" => resource == "pods",
            "VolumeAttributesClass" => {
                matches!(resource, "persistentvolumeclaims" | "requests.storage")
            }
            scope if SCOPES.contains(&scope) => OF_PODS.contains(&resource),
            _ => true,
        }
}

/// A scope selector requirement.
fn scope(at: At<'_>, spec: At<'_>, faults: &mut Faults) {
    let (name, operator) = (at.text("scopeName"), at.text("operator"));
    let (has_values, path) = (!at.list("values").is_empty(), at.path("operator"));
    if !SCOPES.contains(&name) {
        faults.invalid(at.path("scopeName"), &name.into(), "unsupported scope");
    }
    let limited = spec.map("hard").into_iter().flatten();
    for _ in limited.filter(|(resource, _)| !is_in_scope(name, resource)) {
        let why = "unsupported scope applied to resource";
        faults.invalid(at.path, &spec.value["scopeSelector"], why);
    }
    if SCOPES[..5].contains(&name) && operator != "Exists" {
        let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                   ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                   ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        faults.invalid(path.as_str(), &operator.into(), why);
    }
    match operator {
        "In" | "NotIn" if !has_values => {
            let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope \
                       selector";
            faults.required(at.path("values"), why);
        }
        "Exists" | "DoesNotExist" if has_values => {
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope \
                       selector";
            faults.invalid(at.path("values"), &at.value["values"], why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => faults.invalid(path, &operator.into(), "not a valid selector operator"),
    }
}

pub(super) fn priority_class(at: At<'_>, faults: &mut Faults) {
    const MOST: i64 = 1_000_000_000;
    let name = at.value["metadata"]["name"].as_str().unwrap_or_default();
    let is_system = name.starts_with("system-");
    if is_system && !matches!(name, "system-cluster-critical" | "system-node-critical") {
        let why = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: \
             {name} is not a known system priority class"
        );
        faults.forbidden("metadata.name", &why);
    }
    if at.number("value").is_some_and(|value| value > MOST) && !is_system {
        let why = format!("maximum allowed value of a user defined priority is {MOST}");
        faults.forbidden(at.path("value"), &why);
    }
    faults.one_of(at, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
}

/// Additional rules for new events of `events.k8s.io`.
pub(super) fn new_reported_event(root: At<'_>, faults: &mut Faults) {
    if root.text("eventTime").is_empty() {
        faults.required("eventTime", "");
    }
    let kind = root.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        let why = format!("has invalid value: {kind}");
        faults.invalid("type", &"".into(), why);
    }
}

/// Additional rules for events of `events.k8s.io`, on the fields of the core group.
pub(super) fn reported_event(root: At<'_>, faults: &mut Faults) {
    if !root.text("eventTime").is_empty() {
        let reporter = root.text("reportingComponent");
        if reporter.is_empty() {
            faults.required("reportingController", "");
        }
        faults.qualified("reportingController".to_owned(), reporter);
        for field in ["reportingInstance", "action", "reason"] {
            faults.needs(root, field);
        }
    }
}

/// The namespace of an event must be that of its object. The real server also accepts another
/// namespace, but not an empty one, in an event of `events.k8s.io`.
pub(super) fn event(root: At<'_>, takes_others: bool, faults: &mut Faults) {
    let own = root.value["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default();
    root.inner("involvedObject", |at| {
        let namespace = at.text("namespace");
        // An event about a cluster-scoped object is in the namespace `default`.
        let is_right = if namespace.is_empty() {
            own == "default"
        } else {
            namespace == own || takes_others
        };
        if !is_right {
            let why = "does not match event.namespace";
            faults.invalid(at.path("namespace"), &namespace.into(), why);
        }
    });
}
