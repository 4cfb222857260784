//! Pods and their templates.

use super::{At, Faults, container, volume};
use crate::metadata::syntax;
use crate::status::FieldError;

pub(super) fn pod(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| spec(at, faults));
}

pub(super) fn template(at: At<'_>, faults: &mut Faults) {
    at.inner("metadata", |metadata| {
        // The path is that of the real server, which leaves `metadata` out.
        faults.labels(
            At {
                value: metadata.value,
                path: at.path,
            },
            "labels",
        );
    });
    at.inner("spec", |at| spec(at, faults));
}

fn spec(at: At<'_>, faults: &mut Faults) {
    let volumes = volume::all(at, faults);
    container::all(at, &volumes, faults);
    if at.get("hostNetwork") == Some(&true.into()) {
        at.each("containers", |at| {
            at.each("ports", |at| same_port(at, faults));
        });
    }
    at.each("schedulingGates", |at| {
        faults.qualified(at.path.to_owned(), at.text("name"));
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
        faults.follows(at, field, |name| {
            if name.contains('.') {
                Some("must not contain dots".to_owned())
            } else {
                syntax::label(name)
            }
        });
    }
    at.each("tolerations", |at| toleration(at, faults));
    at.each("topologySpreadConstraints", |at| spread(at, faults));
}

/// A pod in the network of its node has no ports of its own.
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
        &["NoExecute", "NoSchedule", "PreferNoSchedule"],
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
}
