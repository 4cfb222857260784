//! A composite handler: a config map, a service and a host name outside of the cluster for each site.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_composite::{
    AsyncCompositeHandler, ChildConfig, CompositeBuilder, CompositeController, FinalizeResponse,
    SyncRequest, SyncResponse,
};
use windlass_controller::{Failure, Watch};
use windlass_operator::Operator;
use windlass_simulate::{External, Process, SimulatedHandler};

use super::{Ended, OTHER_NAMESPACE};
use crate::site::{NAMESPACE, Site};

/// The finalizer, in exactly this form.
const FINALIZER: &str = "simulate.windlass.dev/composite";

/// Publishes sites. A deleted site loses its service first, then its page, and then its host name.
struct Sites {
    external: External,
    /// How long each call of `finalize` takes.
    clean_up: Duration,
}

// === impl Sites ===

fn host(site: &Site) -> String {
    format!("dns {}", site.spec.host)
}

fn page(request: &SyncRequest<Site>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": request.name() },
        "data": { "page": request.parent().spec.page },
    })
}

fn address(request: &SyncRequest<Site>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": request.name() },
        "spec": { "selector": { "site": request.name() }, "ports": [{ "port": 80 }] },
    })
}

/// The host name and the kinds of the existing children, for the status.
pub(crate) fn published(host: &str, children: &[&str]) -> String {
    format!("{host} with {}", children.join(" and "))
}

impl Sites {
    /// Reports a call of `sync` that must not be made as an external resource, which an oracle finds.
    async fn check(&self, site: &Site) {
        let ours = site.finalizers().iter();
        let ours: Vec<_> = ours.filter(|it| it.contains("/composite")).collect();
        let is_marked = site.metadata.deletion_timestamp.is_some();
        if ours != [FINALIZER] || is_marked {
            let name = format!("violation: sync of {} with {ours:?}", site.name_any());
            _ = self.external.put(&name, is_marked.to_string()).await;
        }
    }
}

impl AsyncCompositeHandler<Site> for Sites {
    async fn sync(&self, request: SyncRequest<Site>) -> Result<SyncResponse, Failure> {
        let site = request.parent();
        self.check(site).await;
        self.external.put(&host(site), request.uid()).await?;
        let (name, children) = (request.name(), request.children());
        let existing = [
            children.of::<ConfigMap>().exists(name).then_some("a page"),
            children
                .of::<Service>()
                .exists(name)
                .then_some("an address"),
        ];
        let existing: Vec<_> = existing.into_iter().flatten().collect();
        let mut response = SyncResponse::new(json!({
            // The controller replaces it when all children were applied.
            "observedGeneration": 0,
            "published": published(&site.spec.host, &existing),
        }));
        response.add_child(page(&request))?;
        response.add_child(address(&request))?;
        Ok(response)
    }

    async fn finalize(&self, request: SyncRequest<Site>) -> Result<FinalizeResponse, Failure> {
        sleep(self.clean_up).await;
        let (name, children) = (request.name(), request.children());
        if children.of::<Service>().exists(name) {
            return Ok(FinalizeResponse::unfinished().children(vec![page(&request)]));
        }
        if children.of::<ConfigMap>().exists(name) {
            return Ok(FinalizeResponse::unfinished().children(Vec::new()));
        }
        // A site that was recreated can have published the same host name.
        let host = host(request.parent());
        if self.external.get(&host).await.as_deref() == Some(request.uid()) {
            self.external.remove(&host).await?;
        }
        Ok(FinalizeResponse::finished())
    }
}

/// Publishes sites.
pub(crate) async fn composite_handler(process: Process) -> Ended {
    publish(process, Duration::ZERO).await
}

/// Publishes sites, and removes them slowly: a site that disappears without its finalizer has a
/// successor before `finalize` returns.
pub(crate) async fn slow_composite_handler(process: Process) -> Ended {
    publish(process, Duration::from_secs(2)).await
}

async fn publish(process: Process, clean_up: Duration) -> Ended {
    let controller = controller(&process, "sites", Watch::<Site>::all());
    let controller = controller.build_async(handler(&process, "sites", clean_up))?;
    Ok(controller.run(process.stop()).await?)
}

/// Two controllers with one finalizer, each for one namespace.
pub(crate) async fn composites_of_two_namespaces(process: Process) -> Ended {
    let operator = Operator::new();
    for namespace in [NAMESPACE, OTHER_NAMESPACE] {
        let sites = Api::<Site>::namespaced(process.client(), namespace);
        let controller = controller(&process, namespace, Watch::from(sites));
        let controller = controller.children_in(namespace);
        let handler = handler(&process, namespace, Duration::ZERO);
        operator.add_controller(controller.build_async(handler)?)?;
    }
    Ok(operator.run_until(process.stop()).await?)
}

fn handler(process: &Process, name: &str, clean_up: Duration) -> SimulatedHandler<Sites> {
    let external = process.external();
    process.handler(name, Sites { external, clean_up })
}

fn controller(process: &Process, name: &str, sites: Watch<Site>) -> CompositeBuilder<Site> {
    CompositeController::builder(process.client(), name, sites)
        .finalizer(FINALIZER)
        .child::<ConfigMap>(ChildConfig::apply())
        .child::<Service>(ChildConfig::apply())
}
