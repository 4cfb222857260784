//! Roles, autoscalers, budgets, leases, quotas, classes and events.

use serde_json::{Value, json};

use super::{At, Faults, quantity, selector};
use crate::metadata::syntax;
use crate::status::FieldError;

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
        if faults.needs(at, "name") {
            faults.follows(at, "name", crate::metadata::syntax::path_segment);
        }
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

pub(super) fn autoscaler(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let least = at.number("minReplicas");
        if let Some(least) = least.filter(|least| *least < 1) {
            let why = "must be greater than or equal to 1";
            faults.invalid(at.path("minReplicas"), &least.into(), why);
        }
        let most = at.number("maxReplicas").unwrap_or_default();
        if most < 1 {
            let why = "must be set and greater than 0";
            faults.required(at.path("maxReplicas"), why);
        }
        if least.is_some_and(|least| most < least) {
            let why = "must be greater than or equal to `minReplicas`";
            faults.invalid(at.path("maxReplicas"), &most.into(), why);
        }
        at.inner("scaleTargetRef", |at| {
            faults.needs(at, "kind");
            faults.needs(at, "name");
            let version = at.text("apiVersion");
            let is_core = version == "v1" && at.text("kind") == "ReplicationController";
            if !version.contains('/') && !is_core {
                let why = "apiVersion must specify API group";
                faults.invalid(at.path("apiVersion"), &version.into(), why);
            }
        });
        at.each("metrics", |at| metric(at, faults));
        at.inner("behavior", |at| {
            for direction in ["scaleUp", "scaleDown"] {
                at.inner(direction, |at| {
                    let known = ["Disabled", "Max", "Min"];
                    if let Some(policy) = at.get("selectPolicy")
                        && !policy.as_str().is_some_and(|it| known.contains(&it))
                    {
                        let path = at.path("selectPolicy");
                        faults.add(FieldError::not_supported(path, policy, known));
                    }
                });
            }
        });
        let is_external =
            |metric: &Value| matches!(metric["type"].as_str(), Some("Object" | "External"));
        if least == Some(0) && !at.list("metrics").iter().any(is_external) {
            let why = "must specify at least one Object or External metric to support scaling to \
                       zero replicas";
            faults.forbidden(at.path("metrics"), why);
        }
    });
}

fn metric(at: At<'_>, faults: &mut Faults) {
    const KINDS: [&str; 5] = [
        "ContainerResource",
        "External",
        "Object",
        "Pods",
        "Resource",
    ];
    let kind = at.text("type");
    let field = match kind {
        "" => {
            faults.required(at.path("type"), "must specify a metric source type");
            return;
        }
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        _ => {
            // The real server says it twice.
            faults.one_of(at, "type", &KINDS);
            faults.one_of(at, "type", &KINDS);
            return;
        }
    };
    if at.get(field).is_none() {
        let why = "must populate information for the given metric source";
        faults.required(at.path(field), why);
    }
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
    const SCOPES: [&str; 7] = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass",
    ];
    const COUNTED: [&str; 8] = [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
    ];
    root.inner("spec", |at| {
        for (name, amount) in at.map("hard").into_iter().flatten() {
            let Some(parsed) = quantity(amount) else {
                continue;
            };
            let path = format!("{}[{name}]", at.path("hard"));
            if parsed.is_negative() {
                let why = "must be greater than or equal to 0";
                faults.invalid(path.as_str(), amount, why);
            }
            if COUNTED.contains(&name.as_str()) && parsed.nanos() % 1_000_000_000 != 0 {
                faults.invalid(path, amount, "must be an integer");
            }
        }
        let scopes = at.list("scopes");
        let is_known = |scope: &Value| scope.as_str().is_some_and(|it| SCOPES.contains(&it));
        if !scopes.iter().all(is_known) {
            let value = Value::from(scopes.to_vec());
            faults.invalid(at.path("scopes"), &value, "unsupported scope");
        }
    });
}

pub(super) fn priority_class(at: At<'_>, faults: &mut Faults) {
    const MOST: i64 = 1_000_000_000;
    let is_system = at.value["metadata"]["name"]
        .as_str()
        .is_some_and(|name| name.starts_with("system-"));
    if at.number("value").is_some_and(|value| value > MOST) && !is_system {
        let why = format!("maximum allowed value of a user defined priority is {MOST}");
        faults.forbidden(at.path("value"), &why);
    }
    faults.one_of(at, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
}

pub(super) fn limit_range(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        at.each("limits", |at| {
            let kind = at.text("type");
            faults.qualified(at.path("type"), kind);
            let known = ["Container", "PersistentVolumeClaim", "Pod"];
            if !kind.is_empty() && !kind.contains('/') && !known.contains(&kind) {
                let why = "must be a standard limit type or fully qualified";
                faults.invalid(at.path("type"), &kind.into(), why);
            }
        });
    });
}

/// A claim, or the claim in a template.
pub(super) fn resource_claim(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        at.inner("devices", |at| {
            at.each("requests", |at| {
                let name = at.text("name");
                if let Some(why) = syntax::label(name) {
                    faults.invalid(at.path("name"), &name.into(), why);
                }
                at.inner("exactly", |at| {
                    if faults.needs(at, "deviceClassName") {
                        faults.follows(at, "deviceClassName", syntax::subdomain);
                    }
                });
            });
        });
    });
}

/// What an event of the group `events.k8s.io` must say besides, in the form of the core group.
pub(super) fn reported_event(root: At<'_>, faults: &mut Faults) {
    if root.text("eventTime").is_empty() {
        faults.required("eventTime", "");
    } else {
        let reporter = root.text("reportingComponent");
        if reporter.is_empty() {
            faults.required("reportingController", "");
        }
        faults.qualified("reportingController".to_owned(), reporter);
        for field in ["reportingInstance", "action", "reason"] {
            faults.needs(root, field);
        }
    }
    let kind = root.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        let why = format!("has invalid value: {kind}");
        faults.invalid("type", &"".into(), why);
    }
}

/// The namespace of an event, and that of the object which it is about. The real server does not
/// look at another one in an update of an event of `events.k8s.io`.
pub(super) fn event(root: At<'_>, is_updated: bool, faults: &mut Faults) {
    let own = root.value["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default();
    root.inner("involvedObject", |at| {
        let namespace = at.text("namespace");
        // An event about what lives in no namespace is in the default one.
        let is_right = if namespace.is_empty() {
            own == "default"
        } else {
            namespace == own || is_updated
        };
        if !is_right {
            let why = "does not match event.namespace";
            faults.invalid(at.path("namespace"), &namespace.into(), why);
        }
    });
}
