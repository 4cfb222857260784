//! The containers of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults, env, probe, resources, security};
use crate::metadata::syntax;
use crate::status::FieldError;

/// The parts of a pod that its containers refer to.
#[derive(Debug)]
pub(super) struct PodContext {
    /// The names of the volumes that containers can mount.
    pub(super) volumes: BTreeSet<String>,
    /// The names of the resource claims.
    pub(super) claims: BTreeSet<String>,
    /// The grace period of the pod, in seconds.
    pub(super) grace: Option<i64>,
    /// Whether this is a pod, and not a template.
    pub(super) is_pod: bool,
}

/// Checks all containers of a pod.
pub(super) fn all(at: At<'_>, pod: &PodContext, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    if at.list("containers").is_empty() {
        faults.required(at.path("containers"), "");
    }
    let mut ports = BTreeSet::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let others = names.clone();
        at.each(list, |at| {
            container(at, pod, faults);
            let has_probes = match list {
                "containers" => true,
                "initContainers" => {
                    // Init containers run one after the other.
                    ports.clear();
                    let is_sidecar = at.text("restartPolicy") == "Always";
                    if !is_sidecar {
                        run_once(at, faults);
                    }
                    is_sidecar
                }
                _ => {
                    ephemeral(at, &others, faults);
                    false
                }
            };
            if list != "ephemeralContainers" {
                faults.must_be_one_of(at, "restartPolicy", &["Always", "Never", "OnFailure"]);
                at.each("ports", |at| host_port(at, &mut ports, faults));
            }
            if has_probes {
                probe::hooks(at, pod.grace, faults);
                probe::probes(at, faults);
            }
            let name = at.text("name");
            if !name.is_empty() && !names.insert(name.to_owned()) {
                faults.add(FieldError::duplicate(at.path("name"), &name.into()));
            }
        });
    }
}

/// Rejects fields that an init container must not have.
fn run_once(at: At<'_>, faults: &mut Faults) {
    for field in ["lifecycle"].into_iter().chain(probe::PROBES) {
        if at.get(field).is_some() {
            let why = "may not be set for init containers without restartPolicy=Always";
            faults.forbidden(at.path(field), why);
        }
    }
}

/// Rejects fields that an ephemeral container must not have. `others` are the containers that it
/// can target.
fn ephemeral(at: At<'_>, others: &BTreeSet<String>, faults: &mut Faults) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let target = at.text("targetContainerName");
    if !target.is_empty() && !others.contains(target) {
        let path = at.path("targetContainerName");
        faults.add(FieldError::not_found(path, &target.into()));
    }
    let fields = [
        "ports",
        "resources",
        "lifecycle",
        "restartPolicy",
        "resizePolicy",
    ];
    for field in fields.into_iter().chain(probe::PROBES) {
        let is_empty = |it: &Value| it.as_object().is_some_and(serde_json::Map::is_empty);
        let is_set = at
            .get(field)
            .is_some_and(|it| field != "resources" || !is_empty(it));
        if is_set {
            faults.forbidden(at.path(field), WHY);
        }
    }
    at.each("volumeMounts", |at| {
        for field in ["subPath", "subPathExpr"] {
            if !at.text(field).is_empty() {
                faults.forbidden(at.path(field), WHY);
            }
        }
    });
}

fn container(at: At<'_>, pod: &PodContext, faults: &mut Faults) {
    faults.needs_valid(at, "name", syntax::label);
    let image = at.text("image");
    if image.is_empty() {
        faults.required(at.path("image"), "");
    } else if pod.is_pod && image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        faults.invalid(at.path("image"), &image.into(), why);
    }
    let mut port_names = BTreeSet::new();
    at.each("ports", |at| port(at, &mut port_names, faults));
    env::variables(at, faults);
    let path = at.path("volumeMounts");
    let is_privileged = at.value.pointer("/securityContext/privileged") == Some(&true.into());
    let mut paths = BTreeSet::new();
    at.each("volumeMounts", |at| {
        let name = at.text("name");
        faults.needs(at, "name");
        if !pod.volumes.contains(name) {
            faults.add(FieldError::not_found(at.path("name"), &name.into()));
        }
        let target = at.text("mountPath");
        faults.needs(at, "mountPath");
        if !paths.insert(target.to_owned()) {
            faults.invalid(at.path("mountPath"), &target.into(), "must be unique");
        }
        // Like on the real server, the error path has no item index.
        mount(At { path: &path, ..at }, is_privileged, faults);
        let part = at.text("subPathExpr");
        if !part.is_empty() && !at.text("subPath").is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            faults.invalid(at.path("subPathExpr"), &part.into(), why);
        }
    });
    faults.one_of(at, "imagePullPolicy", &["Always", "IfNotPresent", "Never"]);
    faults.one_of(
        at,
        "terminationMessagePolicy",
        &["File", "FallbackToLogsOnError"],
    );
    at.inner("resources", |at| {
        resources::requirements(at, &pod.claims, faults);
    });
    at.inner("securityContext", |at| security::container(at, faults));
}

/// A volume mount.
fn mount(at: At<'_>, is_privileged: bool, faults: &mut Faults) {
    for field in ["subPath", "subPathExpr"] {
        faults.follows(at, field, syntax::relative_path);
    }
    let propagation = at.text("mountPropagation");
    let known = ["Bidirectional", "HostToContainer", "None"];
    faults.must_be_one_of(at, "mountPropagation", &known);
    if propagation == "Bidirectional" && !is_privileged {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        faults.forbidden(at.path("mountPropagation"), why);
    }
    let known = ["Disabled", "Enabled", "IfPossible"];
    faults.must_be_one_of(at, "recursiveReadOnly", &known);
    if matches!(at.text("recursiveReadOnly"), "Enabled" | "IfPossible") {
        let is_read_only = at.get("readOnly") == Some(&true.into());
        let rules = [
            (is_read_only, "may only be specified when readOnly is true"),
            (
                matches!(propagation, "" | "None"),
                "may only be specified when mountPropagation is None or not specified",
            ),
        ];
        for (_, why) in rules.into_iter().filter(|(is_right, _)| !is_right) {
            faults.forbidden(at.path("recursiveReadOnly"), why);
        }
    }
}

fn port(at: At<'_>, names: &mut BTreeSet<String>, faults: &mut Faults) {
    let name = at.text("name");
    if !name.is_empty() {
        let wrong = syntax::port_name(name);
        if wrong.is_empty() && !names.insert(name.to_owned()) {
            faults.add(FieldError::duplicate(at.path("name"), &name.into()));
        }
        faults.wrong(at.path("name"), &name.into(), wrong);
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

/// A host port, which must be unique in the pod.
fn host_port(at: At<'_>, ports: &mut BTreeSet<String>, faults: &mut Faults) {
    if let Some(port) = at.number("hostPort").filter(|port| *port != 0) {
        let port = format!("{}/{}/{port}", at.text("protocol"), at.text("hostIP"));
        if !ports.insert(port.clone()) {
            faults.add(FieldError::duplicate(at.path("hostPort"), &port.into()));
        }
    }
}

/// The protocol of a port, with the default `TCP`.
pub(super) fn protocol(at: At<'_>, faults: &mut Faults) {
    faults.one_of(at, "protocol", &["SCTP", "TCP", "UDP"]);
}
