//! Pods and their templates.

use std::collections::BTreeSet;

use serde_json::Value;

use super::container::PodContext;
use super::{At, Faults, affinity, container, env, security, selector, volume};
use crate::metadata::syntax;
use crate::status::FieldError;

pub(super) fn pod(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let name = root.value.pointer("/metadata/name");
        spec(
            at,
            Some(name.and_then(Value::as_str).unwrap_or_default()),
            faults,
        );
        if at.text("serviceAccountName").is_empty() {
            at.each("volumes", |at| {
                at.inner("projected", |at| at.each("sources", |at| token(at, faults)));
            });
        }
    });
}

/// Fields that a new pod must not have.
pub(super) fn new(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if !at.list("ephemeralContainers").is_empty() {
            faults.forbidden(at.path("ephemeralContainers"), "cannot be set on create");
        }
        if !at.text("nodeName").is_empty() && !at.list("schedulingGates").is_empty() {
            let why = "cannot be set until all schedulingGates have been cleared";
            faults.forbidden(at.path("nodeName"), why);
        }
    });
}

/// A volume source for a token, in a pod without a service account.
fn token(at: At<'_>, faults: &mut Faults) {
    if at.get("serviceAccountToken").is_some() {
        let why = "must not be specified when serviceAccountName is not set";
        faults.forbidden(at.path("serviceAccountToken"), why);
    }
}

pub(super) fn template(at: At<'_>, faults: &mut Faults) {
    at.inner("metadata", |metadata| {
        // The real server's error path also omits `metadata`.
        faults.labels(
            At {
                value: metadata.value,
                path: at.path,
            },
            "labels",
        );
    });
    at.inner("spec", |at| spec(at, None, faults));
}

/// Checks the spec of the pod called `pod_name`, or of a template if that is `None`.
fn spec(at: At<'_>, pod_name: Option<&str>, faults: &mut Faults) {
    let claims = at.list("resourceClaims").iter();
    let claims = claims.filter_map(|claim| claim["name"].as_str());
    let pod = PodContext {
        volumes: volume::all(at, pod_name, faults),
        claims: claims.map(str::to_owned).collect(),
        grace: at.number("terminationGracePeriodSeconds"),
        is_pod: pod_name.is_some(),
    };
    container::all(at, &pod, faults);
    if at.get("hostNetwork") == Some(&true.into()) {
        at.each("containers", |at| {
            at.each("ports", |at| same_port(at, faults));
        });
    }
    let mut gates = BTreeSet::new();
    at.each("schedulingGates", |at| {
        let name = at.text("name");
        faults.qualified(at.path.to_owned(), name);
        if !gates.insert(name.to_owned()) {
            faults.add(FieldError::duplicate(at.path, &name.into()));
        }
    });
    at.each("readinessGates", |at| {
        faults.qualified(at.path("conditionType"), at.text("conditionType"));
    });
    faults.one_of(at, "restartPolicy", &["Always", "OnFailure", "Never"]);
    faults.one_of(
        at,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    faults.labels(at, "nodeSelector");
    faults.follows(at, "serviceAccountName", syntax::subdomain);
    faults.follows(at, "nodeName", syntax::subdomain);
    if let Some(seconds) = at.number("activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        faults.invalid(at.path("activeDeadlineSeconds"), &seconds.into(), why);
    }
    for field in ["hostname", "subdomain"] {
        faults.follows(at, field, syntax::label);
    }
    for field in ["priorityClassName", "runtimeClassName"] {
        faults.follows(at, field, syntax::subdomain);
    }
    faults.one_of(at, "preemptionPolicy", &["Never", "PreemptLowerPriority"]);
    let has = |field: &str| at.get(field) == Some(&true.into());
    let is_pid_shared = has("hostPID") && has("shareProcessNamespace");
    at.inner("securityContext", |at| {
        security::pod(at, is_pid_shared, faults);
    });
    at.inner("affinity", |at| affinity::affinity(at, faults));
    names(at, faults);
    at.inner("os", |os| {
        let name = os.text("name");
        if faults.needs(os, "name") && !matches!(name, "linux" | "windows") {
            let known = ["linux", "windows"];
            faults.add(FieldError::not_supported(os.path, &name.into(), known));
        }
    });
    at.each("tolerations", |at| toleration(at, faults));
    at.each("topologySpreadConstraints", |at| spread(at, faults));
    env::file_volumes(at, faults);
}

/// The host aliases and the DNS settings of a pod.
fn names(at: At<'_>, faults: &mut Faults) {
    at.each("hostAliases", |at| {
        faults.address(at.path("ip"), &at.text("ip").into());
        faults.items(at, "hostnames", syntax::subdomain);
    });
    let (config, servers) = (
        at.get("dnsConfig"),
        at.value.pointer("/dnsConfig/nameservers"),
    );
    if at.text("dnsPolicy") == "None" {
        if config.is_none() {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            faults.required(at.path("dnsConfig"), why);
        } else if servers.and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            faults.required(at.path("dnsConfig.nameservers"), why);
        }
    }
    at.inner("dnsConfig", |at| {
        // The limits of the resolvers of Linux.
        let servers = at.list("nameservers");
        if servers.len() > 3 {
            let why = "must not have more than 3 nameservers";
            faults.invalid(at.path("nameservers"), &servers.into(), why);
        }
        for (number, server) in servers.iter().enumerate() {
            faults.address(format!("{}[{number}]", at.path("nameservers")), server);
        }
        let searches = at.list("searches");
        if searches.len() > 32 {
            let why = "must not have more than 32 search paths";
            faults.invalid(at.path("searches"), &searches.into(), why);
        }
        faults.items(at, "searches", |search| {
            let search = search.strip_suffix('.').unwrap_or(search);
            if search.is_empty() {
                None
            } else {
                syntax::search_domain(search)
            }
        });
        at.each("options", |at| {
            if at.text("name").is_empty() {
                faults.required(at.path, "must not be empty");
            }
        });
    });
}

/// The ports of a pod in the network of its node: host ports equal container ports.
fn same_port(at: At<'_>, faults: &mut Faults) {
    if let Some(port) = at
        .get("hostPort")
        .filter(|port| Some(*port) != at.get("containerPort"))
    {
        let why = "must match `containerPort` when `hostNetwork` is true";
        faults.invalid(at.path("hostPort"), port, why);
    }
}

fn toleration(at: At<'_>, faults: &mut Faults) {
    faults.follows(at, "key", syntax::qualified_name);
    let (operator, value) = (at.text("operator"), at.text("value"));
    if at.text("key").is_empty() && operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values \
                   and all keys\"";
        faults.invalid(at.path("operator"), &operator.into(), why);
    }
    let effect = at.text("effect");
    if at.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        faults.invalid(at.path("effect"), &effect.into(), why);
    }
    match operator {
        "" | "Equal" => {
            if let Some(why) = syntax::label_value(value) {
                faults.invalid(at.path("operator"), &value.into(), why);
            }
        }
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            faults.invalid(at.path("operator"), &value.into(), why);
        }
        "Exists" => {}
        other => faults.add(FieldError::not_supported(
            at.path("operator"),
            &other.into(),
            ["Equal", "Exists"],
        )),
    }
    faults.one_of(
        at,
        "effect",
        &["NoSchedule", "PreferNoSchedule", "NoExecute"],
    );
}

fn spread(at: At<'_>, faults: &mut Faults) {
    if let Some(skew) = at.number("maxSkew").filter(|skew| *skew <= 0) {
        faults.invalid(
            at.path("maxSkew"),
            &skew.into(),
            "must be greater than zero",
        );
    }
    if at.text("topologyKey").is_empty() {
        faults.required(at.path("topologyKey"), "can not be empty");
    }
    let policy = at.text("whenUnsatisfiable");
    let known = ["DoNotSchedule", "ScheduleAnyway"];
    if !known.contains(&policy) {
        let path = at.path("whenUnsatisfiable");
        faults.add(FieldError::not_supported(path, &policy.into(), known));
    }
    at.inner("labelSelector", |at| _ = selector::check(at, faults));
}
