//! Changes of other kinds: a service, a grant and a label are removed and restored, and the statuses change.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::ObjectKey;

use crate::{
    BoxError, Setup,
    api::RouteKind,
    conditions::{ACCEPTED, RESOLVED_REFS, find},
    guides::Manifest,
    snapshot::Snapshot,
};

/// The object whose condition is read.
enum Subject {
    /// An `HTTPRoute` and its first parent.
    Route(ObjectKey),
    /// A listener of a gateway.
    Listener(ObjectKey, &'static str),
}

// === impl Setup ===

impl Setup {
    /// Deletes and restores the backend of a route, the grant for the certificate of a listener,
    /// and the label by which a listener selects a namespace.
    pub(crate) async fn change(&self) -> Result<(), BoxError> {
        let within = |namespace: &str, name: &str| ObjectKey::new(name).within(namespace);
        let route = Subject::Route(within("http-routing", "foo-route"));
        let service = self.manifest("Service", &within("http-routing", "foo-svc"))?;
        self.delete(service, &route, "BackendNotFound").await?;

        let gateway = within("gateway-api-example-ns1", "cross-namespace-tls-gateway");
        let listener = Subject::Listener(gateway, "https");
        let grant = within(
            "gateway-api-example-ns2",
            "allow-ns1-gateways-to-ref-secrets",
        );
        let grant = self.manifest("ReferenceGrant", &grant)?;
        self.delete(grant, &listener, "RefNotPermitted").await?;

        let route = Subject::Route(within("store-ns", "store"));
        let namespace = self.manifest("Namespace", &ObjectKey::new("store-ns"))?;
        let mut unlabelled = namespace.clone();
        unlabelled.object.metadata.labels = None;
        println!("  the Namespace store-ns loses its label");
        self.loader.apply(&unlabelled).await?;
        self.wait_for(&route, ACCEPTED, "NotAllowedByListeners")
            .await?;
        println!("  ... and gets it back");
        self.loader.apply(namespace).await?;
        self.wait_for(&route, ACCEPTED, ACCEPTED).await
    }

    /// Deletes and restores the object to which `subject` refers. Meanwhile the reference is
    /// unresolved for `reason`.
    async fn delete(
        &self,
        object: &Manifest,
        subject: &Subject,
        reason: &str,
    ) -> Result<(), BoxError> {
        let (kind, key) = (object.kind(), ObjectKey::of(&object.object));
        println!("  the {kind} {key} is deleted");
        self.loader.delete(object).await?;
        self.wait_for(subject, RESOLVED_REFS, reason).await?;
        println!("  ... and is created again");
        self.loader.apply(object).await?;
        self.wait_for(subject, RESOLVED_REFS, RESOLVED_REFS).await
    }

    /// Waits until the condition `about` of `subject` has `reason`, and prints it.
    async fn wait_for(&self, subject: &Subject, about: &str, reason: &str) -> Result<(), BoxError> {
        let name = subject.to_string();
        let what = format!("{name} has {about} with the reason {reason}");
        let has_reason = |snapshot: &Snapshot| {
            let condition = subject.condition(snapshot, about);
            condition.is_some_and(|it| it.reason == reason)
        };
        self.writer.until(&what, has_reason).await?;
        if let Some(condition) = subject.condition(&self.writer.snapshot(), about) {
            let Condition {
                status, message, ..
            } = condition;
            println!("      {name}\n          {about} is {status}, {reason}: {message}");
        }
        Ok(())
    }

    fn manifest(&self, kind: &str, key: &ObjectKey) -> Result<&Manifest, BoxError> {
        let mut manifests = self.manifests.iter();
        let found = manifests.find(|it| it.kind() == kind && ObjectKey::of(&it.object) == *key);
        found.ok_or_else(|| format!("the manifests contain no {kind} {key}").into())
    }
}

// === impl Subject ===

impl Subject {
    fn condition(&self, snapshot: &Snapshot, about: &str) -> Option<Condition> {
        let conditions = match self {
            Self::Route(key) => {
                let route = snapshot.routes.get(&(RouteKind::Http, key.clone()))?;
                &route.status.as_ref()?.parents.first()?.conditions
            }
            Self::Listener(key, name) => {
                let gateway = snapshot.gateways.get(key)?;
                let mut listeners = gateway.status.as_ref()?.listeners.iter();
                &listeners
                    .find(|listener| listener.name == *name)?
                    .conditions
            }
        };
        find(conditions, about).cloned()
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Route(key) => write!(f, "HTTPRoute {key}"),
            Self::Listener(key, name) => write!(f, "Gateway {key}, listener {name}"),
        }
    }
}
