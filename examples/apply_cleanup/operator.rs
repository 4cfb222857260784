//! A controller of websites: an `ApplyCleanup`.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use windlass::{
    ObjectKey, Outcome,
    apply_cleanup::{ApplyCleanup, ApplyCleanupController},
};

use crate::website::{self, Dns, Website};

pub(crate) struct Websites {
    dns: Dns,
}

impl ApplyCleanup for Websites {
    type Resource = Website;
    type Error = website::Error;
    const FINALIZER_NAME: &'static str = "models.windlass.dev/website";

    async fn apply(
        &self,
        client: Client,
        site: &Website,
    ) -> Result<Option<Outcome>, website::Error> {
        let host = website::host(&ObjectKey::of(site));
        self.dns.set(&host, &site.spec.address).await?;
        website::apply_deployment(client, site).await?;
        Ok(None)
    }

    async fn cleanup(&self, _: Client, site: &Website) -> Result<Option<Outcome>, website::Error> {
        let host = website::host(&ObjectKey::of(site));
        self.dns.remove(&host).await?;
        Ok(None)
    }
}

pub(crate) fn websites(client: Client, dns: Dns) -> ApplyCleanupController<Websites> {
    let sites = Api::<Website>::all(client.clone());
    let deployments = Api::<Deployment>::all(client.clone());
    ApplyCleanupController::new(client, Websites { dns }, sites)
        .with_name("websites")
        .owns(deployments)
}
