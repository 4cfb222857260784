//! A composite handler: a config map, a service and a host name outside of the cluster for each site.

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::{Value, json};
use windlass_composite::{
    AsyncCompositeHandler, ChildConfig, CompositeController, FinalizeResponse, SyncRequest,
    SyncResponse,
};
use windlass_controller::{Failure, Watch};
use windlass_simulate::{External, Process};

use super::Ended;
use crate::site::Site;

/// Publishes sites. A deleted site loses its service first, then its page, and then its host name.
struct Sites(External);

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

impl AsyncCompositeHandler<Site> for Sites {
    async fn sync(&self, request: SyncRequest<Site>) -> Result<SyncResponse, Failure> {
        let site = request.parent();
        self.0.put(&host(site), request.uid()).await?;
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
        let (name, children) = (request.name(), request.children());
        if children.of::<Service>().exists(name) {
            return Ok(FinalizeResponse::unfinished().children(vec![page(&request)]));
        }
        if children.of::<ConfigMap>().exists(name) {
            return Ok(FinalizeResponse::unfinished().children(Vec::new()));
        }
        // A site that was recreated can have published the same host name.
        let host = host(request.parent());
        if self.0.get(&host).await.as_deref() == Some(request.uid()) {
            self.0.remove(&host).await?;
        }
        Ok(FinalizeResponse::finished())
    }
}

/// Publishes sites.
pub(crate) async fn composite_handler(process: Process) -> Ended {
    let sites = process.handler("sites", Sites(process.external()));
    let controller = CompositeController::builder(process.client(), "sites", Watch::<Site>::all())
        .finalizer("simulate.windlass.dev/composite")
        .child::<ConfigMap>(ChildConfig::apply())
        .child::<Service>(ChildConfig::apply())
        .build_async(sites)?;
    Ok(controller.run(process.stop()).await?)
}
