//! The probes and hooks of containers.

use super::{At, Faults};
use crate::metadata::syntax;

pub(super) const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

pub(super) fn probes(at: At<'_>, faults: &mut Faults) {
    for name in PROBES {
        at.inner(name, |at| {
            handler(at, &["exec", "httpGet", "tcpSocket", "grpc"], None, faults);
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
            let grace = at.get("terminationGracePeriodSeconds");
            let path = || at.path("terminationGracePeriodSeconds");
            if let Some(seconds) = grace.filter(|it| it.as_i64().is_some_and(|it| it <= 0)) {
                faults.invalid(path(), seconds, "must be greater than 0");
            }
            if let Some(seconds) = grace.filter(|_| name == "readinessProbe") {
                faults.invalid(path(), seconds, "must not be set for readinessProbes");
            }
            if name != "readinessProbe"
                && let Some(times) = at.number("successThreshold").filter(|times| *times != 1)
            {
                faults.invalid(at.path("successThreshold"), &times.into(), "must be 1");
            }
        });
    }
}

/// The lifecycle hooks of a container. `grace` is the grace period of its pod, in seconds.
pub(super) fn hooks(at: At<'_>, grace: Option<i64>, faults: &mut Faults) {
    at.inner("lifecycle", |at| {
        for hook in ["postStart", "preStop"] {
            let known = ["exec", "httpGet", "tcpSocket", "sleep"];
            at.inner(hook, |at| handler(at, &known, grace, faults));
        }
    });
}

/// The action of a probe or a hook.
fn handler(at: At<'_>, known: &[&str], grace: Option<i64>, faults: &mut Faults) {
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
                for header in at.list("httpHeaders") {
                    let name = &header["name"];
                    let wrong = syntax::header(name.as_str().unwrap_or_default());
                    faults.wrong(at.path("httpHeaders"), name, wrong);
                }
            }
            "tcpSocket" => faults.port_or_name(&at.path("port"), &at.value["port"]),
            "grpc" => faults.port(at.path("port"), &at.value["port"]),
            "sleep" => {
                let seconds = at.number("seconds").unwrap_or_default();
                if let Some(most) = grace.filter(|most| !(0..=*most).contains(&seconds)) {
                    let why = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({most})"
                    );
                    faults.invalid(at.path, &seconds.into(), why);
                }
            }
            _ => {}
        });
    }
    if !has_one {
        faults.required(at.path, "must specify a handler type");
    }
}
