//! Objects that the upstream examples assume: namespaces, classes, services, certificates. *(pure)*
//!
//! The upstream manifests refer to these objects but do not contain them. The API server of this
//! example is empty, so this module generates them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass::ObjectKey;

use crate::{
    api::{GROUP, Gateway, Listener, Route},
    guides::{Manifest, Origin},
};

/// Generates the objects that `manifests` refer to and do not contain. All classes belong to
/// `controller`.
pub(crate) fn assumed(manifests: &[Manifest], controller: &str) -> Vec<Manifest> {
    let mut wanted = Wanted::default();
    for manifest in manifests {
        wanted.read(manifest);
    }
    for manifest in manifests {
        wanted.found(manifest);
    }
    wanted.objects(controller)
}

/// The referenced objects that were not found yet.
#[derive(Default)]
struct Wanted {
    namespaces: BTreeSet<String>,
    classes: BTreeSet<String>,
    secrets: BTreeSet<ObjectKey>,
    /// With their ports.
    services: BTreeMap<ObjectKey, BTreeSet<i32>>,
}

// === impl Wanted ===

impl Wanted {
    fn read(&mut self, manifest: &Manifest) {
        self.namespaces
            .extend(manifest.namespace().map(str::to_owned));
        let namespace = manifest.namespace().unwrap_or_default();
        if let Some(gateway) = parse::<Gateway>(manifest, "Gateway") {
            let certificates = gateway.spec.listeners.iter();
            let certificates = certificates.flat_map(Listener::certificates);
            self.secrets
                .extend(certificates.map(|it| it.key(namespace)));
            self.classes.insert(gateway.spec.gateway_class_name);
        }
        if let Some(route) = parse::<Route>(manifest, "Route") {
            let backends = route.spec.backends();
            for backend in backends.filter(|it| it.target.type_name("Service") == "Service") {
                let key = backend.target.key(namespace);
                self.services.entry(key).or_default().extend(backend.port);
            }
        }
    }

    fn found(&mut self, manifest: &Manifest) {
        let key = || ObjectKey::of(&manifest.object);
        match manifest.kind() {
            "Namespace" => _ = self.namespaces.remove(manifest.name()),
            "GatewayClass" => _ = self.classes.remove(manifest.name()),
            "Service" => _ = self.services.remove(&key()),
            "Secret" => _ = self.secrets.remove(&key()),
            _ => {}
        }
    }

    fn objects(self, controller: &str) -> Vec<Manifest> {
        let namespaces = self.namespaces.into_iter().map(|name| {
            // The label identifies these namespaces on a cluster with others.
            json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": { "name": name, "labels": { "windlass.rs/example": "gateway" } },
            })
        });
        let classes = self.classes.into_iter().map(|name| {
            json!({
                "apiVersion": format!("{GROUP}/v1"),
                "kind": "GatewayClass",
                "metadata": { "name": name },
                "spec": { "controllerName": controller },
            })
        });
        let services = self.services.into_iter().map(|(key, ports)| {
            let port = |port| json!({ "name": format!("p{port}"), "port": port });
            let ports: Vec<_> = ports.into_iter().map(port).collect();
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": { "name": key.name(), "namespace": key.namespace() },
                "spec": { "ports": ports },
            })
        });
        let secrets = self.secrets.into_iter().map(|key| {
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "name": key.name(), "namespace": key.namespace() },
                "type": "kubernetes.io/tls",
                "data": { "tls.crt": "bm9uZQ==", "tls.key": "bm9uZQ==" },
            })
        });
        let objects = namespaces.chain(classes).chain(services).chain(secrets);
        objects.filter_map(manifest).collect()
    }
}

fn manifest(object: Value) -> Option<Manifest> {
    Some(Manifest {
        origin: Origin::Assumed,
        object: serde_json::from_value(object).ok()?,
    })
}

/// The object as a `K`, if its kind ends with `kind`. An invalid object is ignored: the API server
/// will reject it.
fn parse<K: serde::de::DeserializeOwned>(manifest: &Manifest, kind: &str) -> Option<K> {
    let object = manifest
        .kind()
        .ends_with(kind)
        .then_some(&manifest.object)?;
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn referenced_and_missing_objects_are_generated() {
        let manifests = "
{kind: Gateway, apiVersion: g/v1, metadata: {name: web, namespace: a}, spec: {gatewayClassName: c, listeners: [
  {name: s, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: mine}, {name: yours, namespace: b}]}}]}}
---
{kind: HTTPRoute, apiVersion: g/v1, metadata: {name: r, namespace: a}, spec: {rules: [{backendRefs: [
  {name: app, port: 80}, {name: app, port: 81}, {name: app, port: 80, namespace: b},
  {name: far, kind: ServiceImport, group: x.io}, {name: known, port: 80}]}]}}
---
{kind: Service, apiVersion: v1, metadata: {name: known, namespace: a}}
";
        let manifests = Manifest::read("a.yaml", manifests).expect("manifests");
        let assumed = assumed(&manifests, "example.io/ours");
        let shown: Vec<_> = assumed.iter().map(Manifest::to_string).collect();
        let expected = [
            "Namespace a",
            "GatewayClass c",
            "Service a/app",
            "Service b/app",
            "Secret a/mine",
            "Secret b/yours",
        ];
        assert_eq!(shown, expected);
        assert_eq!(assumed[2].object.data["spec"]["ports"][1]["port"], 81);
    }
}
