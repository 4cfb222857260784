//! Changes of other kinds: three objects go and come back, and statuses follow.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::ObjectKey;

use crate::{
    api::RouteKind,
    conditions::{ACCEPTED, RESOLVED_REFS, find},
    guides::Manifest,
    load::{LoadError, Loader},
    settle::{InVain, Settle},
    snapshot::Snapshot,
};

/// Changes things, and waits for what follows.
pub(crate) struct Life<'l> {
    pub(crate) loader: &'l Loader,
    pub(crate) settle: &'l Settle,
    /// What was loaded, to be loaded again.
    pub(crate) manifests: &'l [Manifest],
}

/// Why the life did not go as it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LifeError {
    #[error("there is no {0} among the manifests")]
    NoManifest(String),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    InVain(#[from] InVain),
}

/// The kind of object whose condition is read.
enum Subject {
    /// An `HTTPRoute`, at its first parent.
    Route(ObjectKey),
    /// A listener of a gateway.
    Listener(ObjectKey, &'static str),
}

// === impl Life ===

impl Life<'_> {
    pub(crate) async fn show(&self) -> Result<(), LifeError> {
        self.service().await?;
        self.grant().await?;
        self.label().await
    }

    /// A route loses its backend.
    async fn service(&self) -> Result<(), LifeError> {
        let route = Subject::Route(ObjectKey::new("foo-route").within("http-routing"));
        let service = self.manifest("Service", Some("http-routing"), "foo-svc")?;

        println!("  the Service http-routing/foo-svc is deleted");
        self.loader.delete(service).await?;
        self.follows(&route, RESOLVED_REFS, "BackendNotFound")
            .await?;
        println!("  ... and is back");
        self.loader.apply(service).await?;
        self.follows(&route, RESOLVED_REFS, RESOLVED_REFS).await
    }

    /// A listener loses the permission for its certificate, which is in another namespace.
    async fn grant(&self) -> Result<(), LifeError> {
        let gateway = "cross-namespace-tls-gateway";
        let gateway = ObjectKey::new(gateway).within("gateway-api-example-ns1");
        let listener = Subject::Listener(gateway, "https");
        let namespace = "gateway-api-example-ns2";
        let name = "allow-ns1-gateways-to-ref-secrets";
        let grant = self.manifest("ReferenceGrant", Some(namespace), name)?;

        println!("  the ReferenceGrant {namespace}/{name} is deleted");
        self.loader.delete(grant).await?;
        self.follows(&listener, RESOLVED_REFS, "RefNotPermitted")
            .await?;
        println!("  ... and is back");
        self.loader.apply(grant).await?;
        self.follows(&listener, RESOLVED_REFS, RESOLVED_REFS).await
    }

    /// A namespace loses the label by which a listener selects it.
    async fn label(&self) -> Result<(), LifeError> {
        let route = Subject::Route(ObjectKey::new("store").within("store-ns"));
        let namespace = self.manifest("Namespace", None, "store-ns")?;
        let mut unlabelled = namespace.clone();
        unlabelled.object.metadata.labels = None;

        println!("  the Namespace store-ns loses its label");
        self.loader.apply(&unlabelled).await?;
        self.follows(&route, ACCEPTED, "NotAllowedByListeners")
            .await?;
        println!("  ... and has it again");
        self.loader.apply(namespace).await?;
        self.follows(&route, ACCEPTED, ACCEPTED).await
    }

    /// Waits until the condition `about` of `subject` has `reason`, and prints it.
    async fn follows(&self, subject: &Subject, about: &str, reason: &str) -> Result<(), LifeError> {
        let name = subject.to_string();
        let so = |condition: &Condition| condition.reason == reason;
        let what = format!("{name} has {about} with the reason {reason}");
        let follows =
            |snapshot: &Snapshot| subject.condition(snapshot, about).is_some_and(|it| so(&it));
        self.settle.until(&what, follows).await?;
        if let Some(condition) = subject.condition(&self.settle.snapshot(), about) {
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
    ) -> Result<&Manifest, LifeError> {
        let mut manifests = self.manifests.iter();
        let found = manifests.find(|manifest| {
            manifest.kind() == kind && manifest.namespace() == namespace && manifest.name() == name
        });
        found.ok_or_else(|| LifeError::NoManifest(format!("{kind} {name}")))
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
