//! The containers of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults, port_name, quantity};
use crate::metadata::syntax;
use crate::status::FieldError;

/// Resources of containers that are known by a short name.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Checks all containers of a pod; `volumes` are those that it has.
pub(super) fn all(at: At<'_>, volumes: &BTreeSet<String>, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    if at.list("containers").is_empty() {
        faults.required(at.path("containers"), "");
    }
    for list in ["containers", "initContainers"] {
        at.each(list, |at| {
            container(at, volumes, faults);
            if list == "containers" {
                probes(at, faults);
            }
            let name = at.text("name");
            if !name.is_empty() && !names.insert(name.to_owned()) {
                faults.add(FieldError::duplicate(at.path("name"), &name.into()));
            }
        });
    }
}

fn container(at: At<'_>, volumes: &BTreeSet<String>, faults: &mut Faults) {
    if faults.needs(at, "name") {
        faults.follows(at, "name", syntax::label);
    }
    let image = at.text("image");
    if image.is_empty() {
        faults.required(at.path("image"), "");
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        faults.invalid(at.path("image"), &image.into(), why);
    }
    let mut port_names = BTreeSet::new();
    at.each("ports", |at| port(at, &mut port_names, faults));
    at.each("env", |at| variable(at, faults));
    let mut paths = BTreeSet::new();
    at.each("volumeMounts", |at| {
        let name = at.text("name");
        if name.is_empty() {
            faults.required(at.path("name"), "");
        } else if !volumes.contains(name) {
            faults.add(FieldError::not_found(at.path("name"), &name.into()));
        }
        if faults.needs(at, "mountPath") {
            let path = at.text("mountPath");
            if !paths.insert(path.to_owned()) {
                faults.invalid(at.path("mountPath"), &path.into(), "must be unique");
            }
        }
    });
    faults.one_of(at, "imagePullPolicy", &["Always", "IfNotPresent", "Never"]);
    faults.one_of(
        at,
        "terminationMessagePolicy",
        &["File", "FallbackToLogsOnError"],
    );
    at.inner("resources", |at| resources(at, faults));
    at.inner("lifecycle", |at| {
        for hook in ["postStart", "preStop"] {
            at.inner(hook, |at| {
                handler(at, &["exec", "httpGet", "tcpSocket", "sleep"], faults);
            });
        }
    });
}

fn port(at: At<'_>, names: &mut BTreeSet<String>, faults: &mut Faults) {
    let name = at.text("name");
    if !name.is_empty() {
        if let Some(why) = port_name(name) {
            faults.invalid(at.path("name"), &name.into(), why);
        } else if !names.insert(name.to_owned()) {
            faults.add(FieldError::duplicate(at.path("name"), &name.into()));
        }
    }
    match at.get("containerPort") {
        Some(number) if number.as_i64() != Some(0) => {
            faults.port(at.path("containerPort"), number);
        }
        _ => faults.required(at.path("containerPort"), ""),
    }
    if let Some(number) = at.get("hostPort") {
        faults.port(at.path("hostPort"), number);
    }
    protocol(at, faults);
}

/// The protocol of a port, which has a default.
pub(super) fn protocol(at: At<'_>, faults: &mut Faults) {
    faults.one_of(at, "protocol", &["SCTP", "TCP", "UDP"]);
}

fn variable(at: At<'_>, faults: &mut Faults) {
    faults.needs(at, "name");
    at.inner("valueFrom", |from| {
        const SOURCES: [&str; 5] = [
            "fieldRef",
            "resourceFieldRef",
            "configMapKeyRef",
            "secretKeyRef",
            "fileKeyRef",
        ];
        let sources = SOURCES.iter().filter(|it| from.get(it).is_some()).count();
        for (reference, key) in [("configMapKeyRef", "key"), ("secretKeyRef", "key")] {
            from.inner(reference, |at| {
                faults.needs(at, key);
            });
        }
        from.inner("fieldRef", |at| field(at, faults));
        let empty = Value::from("");
        if sources == 0 {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                       `secretKeyRef` or `fileKeyRef`";
            faults.invalid(from.path, &empty, why);
        }
        if !at.text("value").is_empty() {
            let why = "may not be specified when `value` is not empty";
            faults.invalid(from.path, &empty, why);
        }
        if sources > 1 {
            let why = "may not have more than one field specified at a time";
            faults.invalid(from.path, &empty, why);
        }
    });
}

/// A field of the pod that a variable shows.
fn field(at: At<'_>, faults: &mut Faults) {
    const FIELDS: [&str; 11] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.annotations",
        "metadata.labels",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if !faults.needs(at, "fieldPath") {
        return;
    }
    let path = at.text("fieldPath");
    let plain = path.split('[').next().unwrap_or(path);
    if !FIELDS.contains(&plain) && plain != "spec.host" {
        let why = format!("error converting fieldPath: field label not supported: {path}");
        faults.invalid(at.path("fieldPath"), &path.into(), why);
    }
}

fn probes(at: At<'_>, faults: &mut Faults) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        at.inner(name, |at| {
            handler(at, &["exec", "httpGet", "tcpSocket", "grpc"], faults);
            faults.not_negative(
                at,
                &[
                    "initialDelaySeconds",
                    "timeoutSeconds",
                    "periodSeconds",
                    "successThreshold",
                    "failureThreshold",
                ],
            );
            if name != "readinessProbe"
                && let Some(times) = at.number("successThreshold").filter(|times| *times != 1)
            {
                faults.invalid(at.path("successThreshold"), &times.into(), "must be 1");
            }
        });
    }
}

/// What a probe or a hook does.
fn handler(at: At<'_>, known: &[&str], faults: &mut Faults) {
    let mut has_one = false;
    for name in known {
        if at.get(name).is_none() {
            continue;
        }
        if std::mem::replace(&mut has_one, true) {
            faults.forbidden(at.path(name), "may not specify more than 1 handler type");
            continue;
        }
        at.inner(name, |at| match *name {
            "exec" if at.list("command").is_empty() => faults.required(at.path("command"), ""),
            "httpGet" => {
                faults.needs(at, "path");
                faults.port_or_name(&at.path("port"), &at.value["port"]);
                faults.one_of(at, "scheme", &["HTTP", "HTTPS"]);
            }
            "tcpSocket" => faults.port_or_name(&at.path("port"), &at.value["port"]),
            "grpc" => faults.port(at.path("port"), &at.value["port"]),
            _ => {}
        });
    }
    if !has_one {
        faults.required(at.path, "must specify a handler type");
    }
}

fn resources(at: At<'_>, faults: &mut Faults) {
    for field in ["limits", "requests"] {
        for (name, amount) in at.map(field).into_iter().flatten() {
            let path = format!("{}[{name}]", at.path(field));
            let is_standard = RESOURCES.contains(&name.as_str()) || name.starts_with("hugepages-");
            if !is_standard && !name.contains('/') {
                let name = Value::from(name.as_str());
                for why in [
                    "must be a standard resource type or fully qualified",
                    "must be a standard resource for containers",
                ] {
                    faults.invalid(path.as_str(), &name, why);
                }
            } else if let Some(why) = syntax::qualified_name(name) {
                faults.invalid(path.as_str(), &name.as_str().into(), why);
            }
            if quantity(amount).is_some_and(super::Quantity::is_negative) {
                faults.invalid(path, amount, "must be greater than or equal to 0");
            }
        }
    }
    let limits = at.map("limits");
    for (name, requested) in at.map("requests").into_iter().flatten() {
        let Some(limit) = limits.and_then(|limits| limits.get(name)) else {
            continue;
        };
        let (Some(amount), Some(most)) = (quantity(requested), quantity(limit)) else {
            continue;
        };
        if amount.nanos() > most.nanos() {
            let limit = limit.as_str().unwrap_or_default();
            let why = format!("must be less than or equal to {name} limit of {limit}");
            faults.invalid(at.path("requests"), requested, why);
        }
    }
}
