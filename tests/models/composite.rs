//! A controller of websites: an `AsyncCompositeHandler`.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use serde_json::json;
use windlass::{
    Failure, Watch,
    composite::{
        AsyncCompositeHandler, ChildConfig, CompositeBuildError, CompositeController,
        FinalizeResponse, SyncRequest, SyncResponse,
    },
};

use crate::website::{self, Dns, Website};

struct Websites {
    dns: Dns,
}

impl AsyncCompositeHandler<Website> for Websites {
    async fn sync(&self, request: SyncRequest<Website>) -> Result<SyncResponse, Failure> {
        let site = request.parent();
        let host = website::host(request.key());
        self.dns.set(&host, &site.spec.address).await?;
        let mut deployment = website::deployment(site);
        deployment["apiVersion"] = json!("apps/v1");
        deployment["kind"] = json!("Deployment");
        deployment["metadata"] = json!({ "name": request.name() });
        let mut response = SyncResponse::without_status();
        response.add_child(deployment)?;
        Ok(response)
    }

    async fn finalize(&self, request: SyncRequest<Website>) -> Result<FinalizeResponse, Failure> {
        self.dns.remove(&website::host(request.key())).await?;
        Ok(FinalizeResponse::finished())
    }
}

pub(crate) fn websites(
    client: Client,
    dns: Dns,
) -> Result<CompositeController<Website>, CompositeBuildError> {
    CompositeController::builder(client, "websites", Watch::all())
        .finalizer("models.windlass.dev/website")
        .child::<Deployment>(ChildConfig::apply())
        .build_async(Websites { dns })
}
