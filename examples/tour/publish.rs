//! The reconciler: makes the cluster and the name service match the spec of a website.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde_json::{Value, json};
use windlass::{
    Context, ControllerBuilder, Desired, Failure, ObjectReconciler, Outcome, Owned, Watch,
    level::Watchable,
};

use crate::{
    names::NameService,
    printer::{Actor, Printer},
    website::{Website, WebsiteStatus},
};

/// Publishes a website: the page in a `ConfigMap`, the servers in a `Deployment`, the address in
/// a `Service`, and the host name in an external name service.
pub(crate) struct Publish<N> {
    pub(crate) children: Children,
    pub(crate) names: N,
    pub(crate) printer: Arc<Printer>,
}

/// The kinds that a website owns.
pub(crate) struct Children {
    pages: Owned<Website, ConfigMap>,
    servers: Owned<Website, Deployment>,
    addresses: Owned<Website, Service>,
}

// === impl Children ===

impl Children {
    /// Watches the owned objects: a change of one reconciles the website that owns it.
    pub(crate) fn watched_by(controller: &mut ControllerBuilder<Website>) -> Self {
        Self {
            pages: controller.owns(Watch::all()),
            servers: controller.owns(Watch::all()),
            addresses: controller.owns(Watch::all()),
        }
    }
}

// === impl Publish ===

impl<N: NameService> ObjectReconciler<Website> for Publish<N> {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Website>) -> Result<Outcome, Failure> {
        let (site, children) = (cx.object(), &self.children);
        self.apply(&cx, &children.pages, page(site)).await?;
        self.apply(&cx, &children.servers, servers(site)).await?;
        self.apply(&cx, &children.addresses, address(site)).await?;
        self.names.publish(uid(site), &site.spec.host).await?;

        let url = format!("http://{}", site.spec.host);
        let status = WebsiteStatus {
            phase: "Published".to_owned(),
            url: url.clone(),
            observed_generation: site.metadata.generation,
        };
        // Before the status is written: who waits for the status finds the line printed.
        if site.status.as_ref() != Some(&status) {
            self.print(site, format!("is published at {url}"));
        }
        cx.write_status(status).await?;
        Ok(Outcome::done())
    }

    /// The finalizer keeps the website until this call has succeeded. The garbage collector of
    /// Kubernetes deletes the owned objects.
    async fn cleanup(&self, cx: Context<Website>) -> Result<Outcome, Failure> {
        let site = cx.object();
        if self.names.withdraw(uid(site)).await? {
            self.print(site, format!("withdraws the host name {}", site.spec.host));
        }
        Ok(Outcome::done())
    }
}

impl<N: NameService> Publish<N> {
    /// Applies one owned object, and prints whether that has changed it. Its name, namespace, owner
    /// and kind are added.
    async fn apply<C>(
        &self,
        cx: &Context<Website>,
        children: &Owned<Website, C>,
        desired: Value,
    ) -> Result<(), Failure>
    where
        C: Watchable + Resource<DynamicType = ()> + Serialize,
    {
        let before = children.get(cx, cx.key().name());
        let after = children.apply(cx, Desired::json(desired)).await?;
        let kind = C::kind(&());
        match before {
            None => self.print(cx.object(), format!("creates its {kind}")),
            Some(before) if before.resource_version() != after.resource_version() => {
                self.print(cx.object(), format!("changes its {kind}"));
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn print(&self, site: &Website, what: impl AsRef<str>) {
        let line = format!("{:<5} {}", site.name_any(), what.as_ref());
        self.printer.print(Actor::Reconciler, line);
    }
}

fn page(site: &Website) -> Value {
    json!({ "data": { "index.html": site.spec.page } })
}

fn servers(site: &Website) -> Value {
    let labels = labels(site);
    // The default pull policy depends on the image tag, and would not change with it.
    let server = json!({
        "name": "server",
        "image": "nginx:1.29-alpine",
        "imagePullPolicy": "IfNotPresent",
        "volumeMounts": [{ "name": "page", "mountPath": "/usr/share/nginx/html" }],
    });
    let page = json!({ "name": "page", "configMap": { "name": site.name_any() } });
    json!({ "spec": {
        "replicas": site.spec.replicas,
        "selector": { "matchLabels": labels },
        "template": {
            "metadata": { "labels": labels },
            "spec": { "containers": [server], "volumes": [page] },
        },
    }})
}

fn address(site: &Website) -> Value {
    json!({ "spec": { "selector": labels(site), "ports": [{ "port": 80 }] } })
}

fn labels(site: &Website) -> Value {
    json!({ "website": site.name_any() })
}

fn uid(site: &Website) -> &str {
    site.metadata.uid.as_deref().unwrap_or_default()
}
