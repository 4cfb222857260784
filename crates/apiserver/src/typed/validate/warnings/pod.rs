//! Warnings about pods and their templates.

use std::collections::HashSet;

use serde_json::Value;

use super::storage::OLD_VOLUMES;
use super::{Warnings, replacement};
use crate::typed::validate::At;

/// The annotations that a field replaces, with the version in which they lost their effect.
const OLD_ANNOTATIONS: [(&str, &str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "v1.16+",
        "priorityClassName",
    ),
    ("security.alpha.kubernetes.io/sysctls", "v1.11+", "sysctls"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "v1.11+",
        "sysctls",
    ),
];

/// The quantities of a container that are bytes.
const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];

/// The lists of containers, in the order in which Kubernetes reads them.
const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

/// A port of a container, with its path.
struct Port<'a> {
    path: String,
    value: &'a Value,
}

impl Warnings {
    /// Warns about the template in a field of `owner`.
    pub(super) fn template(&mut self, owner: At<'_>) {
        owner.inner("template", |at| self.pod(at));
    }

    /// Warns about a pod or its template.
    pub(super) fn pod(&mut self, root: At<'_>) {
        root.inner("spec", |spec| {
            self.nodes(spec);
            for (name, version, field) in OLD_ANNOTATIONS {
                let why = format!("non-functional in {version}; use the {field:?} field instead");
                self.annotation(root, name, &why);
            }
            self.volumes(spec);
            self.repetitions(spec);
            spec.inner("overhead", |at| {
                for name in BYTES {
                    self.fraction(at, name);
                }
            });
            let seccomp = "seccomp.security.alpha.kubernetes.io/pod";
            if !has_profile(spec, "seccompProfile") {
                self.seccomp(root, seccomp);
            }
            for list in CONTAINERS {
                spec.each(list, |at| {
                    let name = at.text("name");
                    if !has_profile(at, "seccompProfile") {
                        let prefix = "container.seccomp.security.alpha.kubernetes.io";
                        self.seccomp(root, &format!("{prefix}/{name}"));
                    }
                    self.app_armor_of(root, at);
                    self.container(at);
                });
            }
            let ports = ports(spec);
            self.overlapping_ports(&ports);
            self.repeated_port_names(&ports);
            if spec
                .number("terminationGracePeriodSeconds")
                .is_some_and(|it| it < 0)
            {
                let why = "must be >= 0; negative values are invalid and will be treated as 1";
                self.add(&spec.path("terminationGracePeriodSeconds"), why);
            }
            spec.inner("affinity", |at| {
                at.inner("podAffinity", |at| self.pod_affinity(at));
                at.inner("podAntiAffinity", |at| self.pod_affinity(at));
            });
        });
    }

    /// Warns about the annotations that set a profile of `AppArmor`.
    pub(super) fn app_armor(&mut self, root: At<'_>) {
        root.inner("spec", |spec| {
            for list in CONTAINERS {
                spec.each(list, |at| self.app_armor_of(root, at));
            }
        });
    }

    fn app_armor_of(&mut self, root: At<'_>, container: At<'_>) {
        if has_profile(container, "appArmorProfile") {
            return;
        }
        let prefix = "container.apparmor.security.beta.kubernetes.io";
        let name = format!("{prefix}/{}", container.text("name"));
        let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
        self.annotation(root, &name, why);
    }

    fn seccomp(&mut self, root: At<'_>, name: &str) {
        let why = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
        self.annotation(root, name, why);
    }

    /// Warns about old labels of nodes, and about constraints that select no pod.
    fn nodes(&mut self, spec: At<'_>) {
        for key in spec
            .map("nodeSelector")
            .into_iter()
            .flatten()
            .map(|it| it.0)
        {
            self.old_label(&format!("{}[{key}]", spec.path("nodeSelector")), key);
        }
        spec.inner("affinity", |at| {
            at.inner("nodeAffinity", |at| {
                at.inner("requiredDuringSchedulingIgnoredDuringExecution", |at| {
                    at.each("nodeSelectorTerms", |at| self.expressions(at));
                });
                at.each("preferredDuringSchedulingIgnoredDuringExecution", |at| {
                    at.inner("preference", |at| self.expressions(at));
                });
            });
        });
        spec.each("topologySpreadConstraints", |at| {
            let key = at.text("topologyKey");
            if let Some(why) = replacement(key) {
                self.add(&at.path("topologyKey"), &format!("{key} is {why}"));
            }
            self.needs_selector(at);
        });
    }

    /// Warns if a constraint has no label selector.
    fn needs_selector(&mut self, at: At<'_>) {
        if at.get("labelSelector").is_none() {
            let why = "a null labelSelector results in matching no pod";
            self.add(&at.path("labelSelector"), why);
        }
    }

    fn pod_affinity(&mut self, at: At<'_>) {
        at.each("requiredDuringSchedulingIgnoredDuringExecution", |at| {
            self.needs_selector(at);
        });
        at.each("preferredDuringSchedulingIgnoredDuringExecution", |at| {
            at.inner("podAffinityTerm", |at| self.needs_selector(at));
        });
    }

    fn volumes(&mut self, spec: At<'_>) {
        spec.each("volumes", |at| {
            if at.get("gitRepo").is_some() {
                let why = "deprecated in v1.11, and disabled by default in v1.33+";
                self.add(&at.path("gitRepo"), why);
            }
            for (field, name, why) in OLD_VOLUMES {
                if at.get(field).is_some() {
                    self.add(&at.path(name), why);
                }
            }
            at.inner("ephemeral", |at| {
                at.inner("volumeClaimTemplate", |at| {
                    at.inner("spec", |at| self.claim(at));
                });
            });
        });
        spec.each("volumes", |at| {
            let volume = at.text("name");
            at.inner("configMap", |at| {
                self.overlapping_paths(at, volume, &format!("ConfigMap {:?}", at.text("name")));
            });
            at.inner("secret", |at| {
                self.overlapping_paths(at, volume, &format!("Secret {:?}", at.text("secretName")));
            });
            at.inner("downwardAPI", |at| {
                self.overlapping_paths(at, volume, "DownwardAPI");
            });
            let fields = ["secret", "downwardAPI", "configMap", "serviceAccountToken"];
            let other = ["clusterTrustBundle", "podCertificate"];
            at.inner("projected", |at| {
                at.each("sources", |at| {
                    let mut fields = fields.iter().chain(&other);
                    if !fields.any(|field| at.get(field).is_some()) {
                        let why = format!("volume {volume:?} (Projected) has no sources provided");
                        self.0.push(why);
                    }
                });
            });
        });
    }

    /// Warns about items of a volume with the same path, or one below the other.
    fn overlapping_paths(&mut self, source: At<'_>, volume: &str, about: &str) {
        let below = |path: &str, other: &str| {
            let rest = path.strip_prefix(other);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let items = source.list("items").iter();
        let paths: Vec<_> = items
            .map(|item| item["path"].as_str().unwrap_or_default())
            .collect();
        for (at, path) in paths.iter().enumerate() {
            for other in &paths[..at] {
                if below(path, other) || below(other, path) {
                    self.0.push(format!(
                        "volume {volume:?} ({about}): overlapping paths: {path:?} with {other:?}"
                    ));
                }
            }
        }
    }

    /// Warns about addresses and secrets that are repeated.
    fn repetitions(&mut self, spec: At<'_>) {
        let mut seen = HashSet::new();
        for (at, alias) in spec.list("hostAliases").iter().enumerate() {
            let address = alias["ip"].as_str().unwrap_or_default();
            if !seen.insert(address) {
                let path = format!("{}[{at}].ip", spec.path("hostAliases"));
                self.add(&path, &format!("duplicate ip {address:?}"));
            }
        }
        let secrets = spec.list("imagePullSecrets").iter().enumerate();
        let secrets = secrets.map(|(at, secret)| {
            let path = format!("{}[{at}].name", spec.path("imagePullSecrets"));
            (path, secret["name"].as_str().unwrap_or_default())
        });
        let secrets: Vec<_> = secrets.collect();
        let mut seen = HashSet::new();
        for (path, name) in &secrets {
            if !seen.insert(name) {
                self.add(path, &format!("duplicate name {name:?}"));
            }
        }
        for (path, _) in secrets.iter().filter(|(_, name)| name.is_empty()) {
            self.add(path, "invalid empty name \"\"");
        }
    }

    fn container(&mut self, at: At<'_>) {
        at.inner("resources", |at| {
            for name in BYTES {
                for list in ["limits", "requests"] {
                    at.inner(list, |at| self.fraction(at, name));
                }
            }
        });
        let mut seen = HashSet::new();
        for (index, variable) in at.list("env").iter().enumerate() {
            let name = variable["name"].as_str().unwrap_or_default();
            let value = variable["value"].as_str().unwrap_or_default();
            if !seen.insert(name) && !value.contains(&format!("$({name})")) {
                let why = format!(
                    "hides previous definition of {name:?}, which may be dropped when using apply"
                );
                self.add(&format!("{}[{index}]", at.path("env")), &why);
            }
        }
    }

    fn overlapping_ports(&mut self, ports: &[Port<'_>]) {
        for (at, port) in ports.iter().enumerate() {
            for other in &ports[..at] {
                if let Some(what) = port.overlap(other) {
                    let why = format!("{what} port definition with {}", other.path);
                    self.add(&port.path, &why);
                }
            }
        }
    }

    fn repeated_port_names(&mut self, ports: &[Port<'_>]) {
        for (at, port) in ports.iter().enumerate() {
            let name = port.text("name");
            let mut before = ports[..at].iter();
            if !name.is_empty()
                && let Some(first) = before.find(|other| other.text("name") == name)
            {
                let first = &first.path;
                let why = format!(
                    "duplicate port name {name:?} with {first}, services and probes that select \
                     ports by name will use {first}"
                );
                self.add(&port.path, &why);
            }
        }
    }
}

/// Returns whether the security context of a pod or container has a field.
fn has_profile(at: At<'_>, field: &str) -> bool {
    let context = at.get("securityContext");
    context.is_some_and(|context| context.get(field).is_some())
}

/// Returns the ports of all containers.
fn ports(spec: At<'_>) -> Vec<Port<'_>> {
    let mut ports = Vec::new();
    for list in CONTAINERS {
        for (at, container) in spec.list(list).iter().enumerate() {
            let path = format!("{}[{at}].ports", spec.path(list));
            let values = container["ports"].as_array().into_iter().flatten();
            ports.extend(values.enumerate().map(|(at, value)| Port {
                path: format!("{path}[{at}]"),
                value,
            }));
        }
    }
    ports
}

// === impl Port ===

impl<'a> Port<'a> {
    fn text(&self, field: &str) -> &'a str {
        self.value[field].as_str().unwrap_or_default()
    }

    /// Returns how the port overlaps with another.
    fn overlap(&self, other: &Self) -> Option<&'static str> {
        let number = |port: &Self, field: &str| port.value[field].as_i64().unwrap_or_default();
        let same = |field: &str| self.value[field] == other.value[field];
        if !same("containerPort") || !same("protocol") {
            return None;
        }
        let (host, other_host) = (number(self, "hostPort"), number(other, "hostPort"));
        let (address, other_address) = (self.text("hostIP"), other.text("hostIP"));
        match (host, other_host) {
            (0, 0) => Some("duplicate"),
            (0, _) | (_, 0) => Some("overlapping"),
            _ if host != other_host => None,
            _ if address == other_address => Some("duplicate"),
            _ if address.is_empty() || other_address.is_empty() => Some("dangerously ambiguous"),
            _ => None,
        }
    }
}
