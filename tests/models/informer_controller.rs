//! A controller of websites: a reconciler of an `InformerController`.

use std::error::Error;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use windlass::{
    Action, Failure, FinalizerName, Finalizers, Informer, InformerController,
    OpinionatedReconciler, Outcome, Owners, Request,
};

use crate::website::{self, Dns, Website};

pub(crate) fn websites(
    client: Client,
    dns: Dns,
) -> Result<InformerController, Box<dyn Error + Send + Sync>> {
    let controller = InformerController::builder().name("websites").build()?;
    let sites = controller.kind::<Website>("websites")?;
    let deployments = controller.kind::<Deployment>("deployments")?;
    controller.add_informer(&sites, &Informer::new(Api::all(client.clone())))?;
    controller.add_informer(&deployments, &Informer::new(Api::all(client.clone())))?;
    controller.add_mapper(&deployments, &sites, Owners::of::<Website>(&()))?;

    let name = FinalizerName::new("models.windlass.dev/website")?;
    let finalizers = Finalizers::new(client.clone(), name)?;
    let publish = move |request: Request<Website>| publish(client.clone(), dns.clone(), request);
    controller.add_reconciler(&sites, OpinionatedReconciler::new(finalizers, publish))?;
    Ok(controller)
}

async fn publish(client: Client, dns: Dns, request: Request<Website>) -> Result<Outcome, Failure> {
    let (host, site) = (website::host(request.key()), request.object());
    if request.action() == Action::Deleted {
        dns.remove(&host).await?;
        return Ok(Outcome::done());
    }
    dns.set(&host, &site.spec.address).await?;
    website::apply_deployment(client, site).await?;
    Ok(Outcome::done())
}
