//! References between objects: whether the target exists, and whether the reference is permitted. *(pure)*

use k8s_openapi::api::core::v1::Service;
use windlass::ObjectKey;

use crate::{
    api::{BackendRef, GROUP, ReferenceGrant, Target},
    conditions::{RESOLVED_REFS, Verdict},
    snapshot::Snapshot,
};

/// The source of a reference: the kind and the namespace of an object of the Gateway API.
#[derive(Clone, Copy, Debug)]
pub(super) struct Referrer<'r> {
    pub(super) kind: &'r str,
    pub(super) namespace: &'r str,
}

// === impl Referrer ===

impl Referrer<'_> {
    /// Why `backend` cannot be used. None if it can.
    pub(super) fn backend(self, backend: &BackendRef, snapshot: &Snapshot) -> Option<Verdict> {
        let no = |reason, why| Some(Verdict::no(RESOLVED_REFS, reason, why));
        let kind = backend.target.type_name("Service");
        if kind != "Service" {
            let message = format!("this controller does not support backends of the kind {kind}");
            return no("InvalidKind", message);
        }
        let key = backend.target.key(self.namespace);
        if let Some(refusal) = self.not_permitted(&kind, &key, snapshot) {
            return Some(refusal);
        }
        let missing = match (snapshot.services.get(&key), backend.port) {
            (None, _) => format!("the Service {key} does not exist"),
            (Some(service), Some(port)) if !has_port(service, port) => {
                format!("the Service {key} has no port {port}")
            }
            _ => return None,
        };
        no("BackendNotFound", missing)
    }

    /// Why `certificate` cannot be used. None if it can.
    pub(super) fn certificate(self, certificate: &Target, snapshot: &Snapshot) -> Option<Verdict> {
        let invalid = |why| Some(Verdict::no(RESOLVED_REFS, "InvalidCertificateRef", why));
        let kind = certificate.type_name("Secret");
        if kind != "Secret" {
            return invalid(format!("a {kind} is not a certificate"));
        }
        let key = certificate.key(self.namespace);
        if let Some(refusal) = self.not_permitted(&kind, &key, snapshot) {
            return Some(refusal);
        }
        if snapshot.secrets.contains(&key) {
            return None;
        }
        invalid(format!("the Secret {key} does not exist"))
    }

    /// The refusal, unless the target is in the same namespace or a grant permits the reference.
    ///
    /// This is checked first, so that a refused reference does not reveal whether its target exists.
    fn not_permitted(self, kind: &str, key: &ObjectKey, snapshot: &Snapshot) -> Option<Verdict> {
        let permits = |grant: &ReferenceGrant| {
            grant.metadata.namespace.as_deref() == key.namespace()
                && grant.spec.from.iter().any(|from| {
                    from.group == GROUP
                        && from.kind == self.kind
                        && from.namespace == self.namespace
                })
                && grant.spec.to.iter().any(|to| {
                    to.group.is_empty()
                        && to.kind == kind
                        && to.name.as_deref().is_none_or(|name| name == key.name())
                })
        };
        if key.namespace() == Some(self.namespace) || snapshot.grants.iter().any(|it| permits(it)) {
            return None;
        }
        let message = format!("no ReferenceGrant permits the {kind} {key}");
        Some(Verdict::no(RESOLVED_REFS, "RefNotPermitted", message))
    }
}

fn has_port(service: &Service, port: i32) -> bool {
    let ports = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten());
    ports.into_iter().any(|known| known.port == port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::snapshot;

    const SERVICES: &str = "
{kind: Service, apiVersion: v1, metadata: {name: web, namespace: shop}, spec: {ports: [{port: 80}]}}
---
{kind: Service, apiVersion: v1, metadata: {name: web, namespace: bank}, spec: {ports: [{port: 80}]}}
---
";

    #[test]
    fn a_backend_must_be_an_existing_service_with_the_port() {
        check("{name: web, port: 80}", "", None);
        check("{name: web, port: 81}", "", Some("BackendNotFound"));
        check("{name: absent, port: 80}", "", Some("BackendNotFound"));
        check(
            "{name: web, kind: ServiceImport, group: multicluster.x-k8s.io}",
            "",
            Some("InvalidKind"),
        );
    }

    #[test]
    fn a_backend_in_another_namespace_needs_a_grant() {
        let there = "{name: web, namespace: bank, port: 80}";
        for (grant, expected) in [
            ("bank, HTTPRoute, shop, Service", None),
            ("bank, HTTPRoute, shop, Service, web", None),
            (
                "bank, HTTPRoute, shop, Service, vault",
                Some("RefNotPermitted"),
            ),
            ("bank, HTTPRoute, park, Service", Some("RefNotPermitted")),
            ("bank, GRPCRoute, shop, Service", Some("RefNotPermitted")),
            ("bank, HTTPRoute, shop, Secret", Some("RefNotPermitted")),
            ("shop, HTTPRoute, shop, Service", Some("RefNotPermitted")),
            ("", Some("RefNotPermitted")),
        ] {
            check(there, grant, expected);
        }
    }

    #[test]
    fn a_refused_reference_does_not_reveal_whether_its_target_exists() {
        let there = "{name: nothing, namespace: bank, port: 80}";
        check(there, "", Some("RefNotPermitted"));
        check(
            there,
            "bank, HTTPRoute, shop, Service",
            Some("BackendNotFound"),
        );
    }

    /// Checks why an `HTTPRoute` in `shop` may not use `backend`, with a grant such as
    /// `namespace, from kind, from namespace, to kind, to name`.
    #[track_caller]
    fn check(backend: &str, grant: &str, expected: Option<&str>) {
        let backend = serde_yaml_ng::from_str(backend).expect("a backend");
        let grant = match grant.split(", ").collect::<Vec<_>>()[..] {
            [within, kind, from, to, ref name @ ..] => {
                let name = name
                    .first()
                    .map_or(String::new(), |name| format!(", name: {name}"));
                format!(
                    "{{kind: ReferenceGrant, apiVersion: g/v1, metadata: {{name: g, namespace: {within}}}, \
                     spec: {{from: [{{group: {GROUP}, kind: {kind}, namespace: {from}}}], \
                     to: [{{group: '', kind: {to}{name}}}]}}}}"
                )
            }
            _ => String::new(),
        };
        let world = snapshot(&(SERVICES.to_owned() + &grant));
        let route = Referrer {
            kind: "HTTPRoute",
            namespace: "shop",
        };
        let verdict = route.backend(&backend, &world);
        assert_eq!(
            verdict.map(|verdict| verdict.reason),
            expected,
            "{backend:?} by {grant:?}"
        );
    }
}
