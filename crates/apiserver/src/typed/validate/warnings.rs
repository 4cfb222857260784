//! Warnings about valid objects of built-in kinds: deprecated fields, and values that have no effect.
//!
//! Source: the `WarningsOnCreate` and `WarningsOnUpdate` of Kubernetes, measured on kube-apiserver
//! v1.36.3.

use serde_json::Value;

use super::At;
use crate::metadata::{self, syntax};

mod pod;
mod storage;

/// The labels of nodes that have new names, with the version and the new name.
const OLD_LABELS: [(&str, &str, &str); 5] = [
    (
        "failure-domain.beta.kubernetes.io/region",
        "v1.17",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "v1.17",
        "topology.kubernetes.io/zone",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "v1.17",
        "node.kubernetes.io/instance-type",
    ),
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
];

/// Warnings, in the order in which Kubernetes sends them.
#[derive(Debug, Default)]
struct Warnings(Vec<String>);

/// Returns the warnings about a valid object of type `name` that is new, or that had the state
/// `before`.
#[expect(clippy::too_many_lines, reason = "one arm for each kind")]
pub(crate) fn warnings(name: &str, object: &Value, before: Option<&Value>) -> Vec<String> {
    let mut warnings = Warnings::default();
    let root = At {
        value: object,
        path: "",
    };
    let is_new = before.is_none();
    let is_changed = |field: &str| before.is_none_or(|before| before.get(field) != root.get(field));
    match name {
        "core.v1.Pod" if is_new => {
            warnings.app_armor(root);
            let of_pod = "this is used in the Pod's hostname";
            warnings.pod_name(object, of_pod);
            warnings.pod(root);
        }
        "apps.v1.DaemonSet" => {
            let template = |object: &Value| object.pointer("/spec/template").cloned();
            if before.is_none_or(|before| template(before) != template(object)) {
                root.inner("spec", |at| warnings.template(at));
            }
        }
        "apps.v1.StatefulSet" => {
            if is_changed("spec") {
                root.inner("spec", |at| warnings.template(at));
            }
            root.inner("spec", |at| warnings.stateful_set(at, is_new));
        }
        "apps.v1.Deployment" | "apps.v1.ReplicaSet" | "core.v1.ReplicationController" => {
            if is_new {
                warnings.pod_name(object, "this is used in Pod names and hostnames");
            }
            if is_changed("spec") {
                root.inner("spec", |at| warnings.template(at));
            }
        }
        "batch.v1.Job" => {
            if is_new {
                warnings.pod_name(object, "this is used in Pod names and hostnames");
            }
            if is_changed("spec") {
                warnings.job(root);
            }
        }
        "batch.v1.CronJob" => {
            if is_new {
                warnings.pod_name(object, "this is used in Pod names and hostnames");
            }
            if is_changed("spec") {
                root.inner("spec", |at| at.inner("jobTemplate", |at| warnings.job(at)));
            }
        }
        "core.v1.PodTemplate" if is_changed("template") => warnings.template(root),
        "core.v1.Node" => root.inner("spec", |at| warnings.node(at)),
        "core.v1.PersistentVolume" => warnings.volume(root),
        "core.v1.PersistentVolumeClaim" => {
            warnings.storage_class(root);
            root.inner("spec", |at| warnings.claim(at));
        }
        "core.v1.Secret" => warnings.secret(root),
        "core.v1.Service" => warnings.service(root),
        "core.v1.ServiceAccount" if is_new => {
            let why = "deprecated in v1.32+; prefer separate namespaces to isolate access to \
                mounted secrets";
            warnings.annotation(root, "kubernetes.io/enforce-mountable-secrets", why);
        }
        "discovery.v1.EndpointSlice" if is_new && root.text("addressType") == "FQDN" => {
            warnings.add("spec.addressType", "FQDN endpoints are deprecated");
        }
        "networking.v1.Ingress"
            if is_new && annotation(root, "kubernetes.io/ingress.class").is_some() =>
        {
            let why = "annotation \"kubernetes.io/ingress.class\" is deprecated, please use \
                'spec.ingressClassName' instead";
            warnings.0.push(why.to_owned());
        }
        "node.v1.RuntimeClass" => root.inner("scheduling", |at| {
            for key in at.map("nodeSelector").into_iter().flatten().map(|it| it.0) {
                warnings.old_label(&at.path("nodeSelector"), key);
            }
        }),
        "storage.v1.CSIStorageCapacity" => root.inner("nodeTopology", |at| {
            warnings.expressions(at);
            for key in at.map("matchLabels").into_iter().flatten().map(|it| it.0) {
                warnings.old_label(&format!("{}.{key}", at.path("matchLabels")), key);
            }
        }),
        "storage.v1.StorageClass" => root.each("allowedTopologies", |at| {
            at.each("matchLabelExpressions", |at| {
                warnings.old_label(&at.path("key"), at.text("key"));
            });
        }),
        _ => {}
    }
    warnings.0
}

/// Returns the value of an annotation.
fn annotation<'a>(root: At<'a>, name: &str) -> Option<&'a str> {
    root.value
        .get("metadata")?
        .get("annotations")?
        .get(name)?
        .as_str()
}

/// Returns what replaces an old label of nodes.
fn replacement(label: &str) -> Option<String> {
    let (_, version, new) = OLD_LABELS.iter().find(|(old, ..)| *old == label)?;
    Some(format!("deprecated since {version}; use {new:?} instead"))
}

// === impl Warnings ===

impl Warnings {
    fn add(&mut self, path: &str, why: &str) {
        self.0.push(format!("{path}: {why}"));
    }

    /// Warns if an object, or the template of a pod, has an annotation.
    fn annotation(&mut self, at: At<'_>, name: &str, why: &str) {
        if annotation(at, name).is_some() {
            self.add(&format!("{}[{name}]", at.path("metadata.annotations")), why);
        }
    }

    /// Warns if the label at `path` has a new name.
    fn old_label(&mut self, path: &str, label: &str) {
        if let Some(why) = replacement(label) {
            self.add(path, &why);
        }
    }

    /// Warns about old labels in the requirements of a selector.
    fn expressions(&mut self, selector: At<'_>) {
        selector.each("matchExpressions", |at| {
            let key = at.text("key");
            if let Some(why) = replacement(key) {
                self.add(&at.path("key"), &format!("{key} is {why}"));
            }
        });
    }

    /// Warns if the name of an object is no DNS label, although pods have it in their names.
    fn pod_name(&mut self, object: &Value, used: &str) {
        let name = metadata::text(object, "name");
        let mut wrong = Vec::new();
        if name.len() > 63 {
            wrong.push("must be no more than 63 characters".to_owned());
        }
        if name.contains('.') {
            wrong.push("must not contain dots".to_owned());
        }
        if wrong.is_empty() {
            wrong.extend(syntax::label(name));
        }
        if !wrong.is_empty() {
            let why = format!(
                "{used}, which can result in surprising behavior; a DNS label is recommended: [{}]",
                wrong.join(" ")
            );
            self.add("metadata.name", &why);
        }
    }

    /// Warns about a job or its template.
    fn job(&mut self, job: At<'_>) {
        job.inner("spec", |at| self.job_spec(at));
    }

    fn job_spec(&mut self, at: At<'_>) {
        const MAX_COMPLETIONS: i64 = 100_000;
        const MAX_PARALLELISM: i64 = 10_000;

        let number = |field| at.number(field).unwrap_or_default();
        if at.text("completionMode") == "Indexed"
            && number("completions") > MAX_COMPLETIONS
            && number("parallelism") > MAX_PARALLELISM
        {
            let why = "In Indexed Jobs with a number of completions higher than 10^5 and a \
                parallelism higher than 10^4, Kubernetes might not be able to track \
                completedIndexes when a big number of indexes fail";
            self.add(at.path, why);
        }
        self.template(at);
    }

    fn stateful_set(&mut self, at: At<'_>, is_new: bool) {
        at.each("volumeClaimTemplates", |at| {
            // The path of a new object lacks a part, and that of an update has it as in Go.
            let path = if is_new {
                at.path.to_owned()
            } else {
                at.path("Spec")
            };
            if let Some(value) = at.get("spec") {
                self.claim(At { value, path: &path });
            }
        });
        if at
            .number("revisionHistoryLimit")
            .is_some_and(|limit| limit < 0)
        {
            let why = "a negative value retains all historical revisions; a value >= 0 is \
                recommended";
            self.add(&at.path("revisionHistoryLimit"), why);
        }
    }

    fn node(&mut self, spec: At<'_>) {
        if !spec.text("externalID").is_empty() {
            let why = "this field is deprecated, and is unused by Kubernetes";
            self.add(&spec.path("externalID"), why);
        }
    }

    /// Warns about a certificate that is no PEM text.
    fn secret(&mut self, root: At<'_>) {
        use base64::Engine as _;

        if root.text("type") != "kubernetes.io/tls" {
            return;
        }
        root.inner("data", |at| {
            let text = at.text("tls.crt");
            let certificate = base64::prelude::BASE64_STANDARD
                .decode(text)
                .unwrap_or_default();
            let begin = b"-----BEGIN ";
            if !certificate.windows(begin.len()).any(|part| part == begin) {
                let why = "failed to find any PEM data in certificate input";
                self.add("tls", why);
            }
        });
    }

    fn service(&mut self, root: At<'_>) {
        if annotation(root, "service.kubernetes.io/topology-aware-hints").is_some() {
            let why = "annotation service.kubernetes.io/topology-aware-hints is deprecated, please \
                use service.kubernetes.io/topology-mode instead";
            self.0.push(why.to_owned());
        }
        root.inner("spec", |at| {
            if at.text("clusterIP") == "None" {
                let affinity = at.text("sessionAffinity");
                for (name, is_set) in [
                    ("loadBalancerIP", !at.text("loadBalancerIP").is_empty()),
                    ("externalIPs", !at.list("externalIPs").is_empty()),
                    ("SessionAffinity", !["", "None"].contains(&affinity)),
                ] {
                    if is_set {
                        let why = format!("spec.{name} is ignored for headless services");
                        self.0.push(why);
                    }
                }
            } else if !at.list("externalIPs").is_empty() {
                let why = "spec.externalIPs is deprecated and may no longer be implemented in some \
                    clusters";
                self.0.push(why.to_owned());
            }
            if at.text("trafficDistribution") == "PreferClose" {
                let why = "\"PreferClose\" is deprecated; use \"PreferSameZone\"";
                self.add(&at.path("trafficDistribution"), why);
            }
        });
    }
}
