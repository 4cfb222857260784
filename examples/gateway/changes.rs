//! Changes of other kinds: a service, a grant and a label are removed and restored, and the statuses change.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::ObjectKey;

use crate::{
    api::RouteKind,
    conditions::{ACCEPTED, RESOLVED_REFS, find},
    guides::Manifest,
    load::{LoadError, Loader},
    snapshot::Snapshot,
    status_writer::{StatusWriter, TimedOut},
};

/// Changes objects, and waits for the statuses.
pub(crate) struct Changes<'l> {
    pub(crate) loader: &'l Loader,
    pub(crate) writer: &'l StatusWriter,
    /// The loaded manifests, to restore objects.
    pub(crate) manifests: &'l [Manifest],
}

/// Why a change failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("the manifests contain no {0}")]
    NoManifest(String),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
}

/// The object whose condition is read.
enum Subject {
    /// An `HTTPRoute` and its first parent.
    Route(ObjectKey),
    /// A listener of a gateway.
    Listener(ObjectKey, &'static str),
}

// === impl Changes ===

impl Changes<'_> {
    pub(crate) async fn show(&self) -> Result<(), ChangeError> {
        self.service().await?;
        self.grant().await?;
        self.label().await
    }

    /// Deletes and restores the backend of a route.
    async fn service(&self) -> Result<(), ChangeError> {
        let route = Subject::Route(ObjectKey::new("foo-route").within("http-routing"));
        let service = self.manifest("Service", Some("http-routing"), "foo-svc")?;

        println!("  the Service http-routing/foo-svc is deleted");
        self.loader.delete(service).await?;
        self.wait_for(&route, RESOLVED_REFS, "BackendNotFound")
            .await?;
        println!("  ... and is created again");
        self.loader.apply(service).await?;
        self.wait_for(&route, RESOLVED_REFS, RESOLVED_REFS).await
    }

    /// Deletes and restores the grant for the certificate of a listener in another namespace.
    async fn grant(&self) -> Result<(), ChangeError> {
        let gateway = "cross-namespace-tls-gateway";
        let gateway = ObjectKey::new(gateway).within("gateway-api-example-ns1");
        let listener = Subject::Listener(gateway, "https");
        let namespace = "gateway-api-example-ns2";
        let name = "allow-ns1-gateways-to-ref-secrets";
        let grant = self.manifest("ReferenceGrant", Some(namespace), name)?;

        println!("  the ReferenceGrant {namespace}/{name} is deleted");
        self.loader.delete(grant).await?;
        self.wait_for(&listener, RESOLVED_REFS, "RefNotPermitted")
            .await?;
        println!("  ... and is created again");
        self.loader.apply(grant).await?;
        self.wait_for(&listener, RESOLVED_REFS, RESOLVED_REFS).await
    }

    /// Removes and restores the label by which a listener selects a namespace.
    async fn label(&self) -> Result<(), ChangeError> {
        let route = Subject::Route(ObjectKey::new("store").within("store-ns"));
        let namespace = self.manifest("Namespace", None, "store-ns")?;
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

    /// Waits until the condition `about` of `subject` has `reason`, and prints it.
    async fn wait_for(
        &self,
        subject: &Subject,
        about: &str,
        reason: &str,
    ) -> Result<(), ChangeError> {
        let name = subject.to_string();
        let matches = |condition: &Condition| condition.reason == reason;
        let what = format!("{name} has {about} with the reason {reason}");
        let has_reason = |snapshot: &Snapshot| {
            subject
                .condition(snapshot, about)
                .is_some_and(|it| matches(&it))
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

    fn manifest(
        &self,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<&Manifest, ChangeError> {
        let mut manifests = self.manifests.iter();
        let found = manifests.find(|manifest| {
            manifest.kind() == kind && manifest.namespace() == namespace && manifest.name() == name
        });
        found.ok_or_else(|| ChangeError::NoManifest(format!("{kind} {name}")))
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
