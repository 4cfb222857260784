//! A controller of websites: a `Controller<K>`.

use std::error::Error;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use windlass::{Context, Controller, Desired, Failure, ObjectReconciler, Outcome, Owned, Watch};

use crate::website::{self, Dns, Website};

pub(crate) struct Websites {
    deployments: Owned<Website, Deployment>,
    dns: Dns,
}

impl ObjectReconciler<Website> for Websites {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Website>) -> Result<Outcome, Failure> {
        let site = cx.object();
        self.dns
            .set(&website::host(cx.key()), &site.spec.address)
            .await?;
        let deployment = Desired::json(website::deployment(site));
        self.deployments.apply(&cx, deployment).await?;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Website>) -> Result<Outcome, Failure> {
        self.dns.remove(&website::host(cx.key())).await?;
        Ok(Outcome::done())
    }
}

pub(crate) fn websites(
    client: Client,
    dns: Dns,
) -> Result<Controller<Website>, Box<dyn Error + Send + Sync>> {
    let mut websites = Controller::<Website>::builder(client, Watch::all());
    let deployments = websites.owns(Watch::all());
    let websites = websites
        .name("websites")
        .finalizer("models.windlass.dev/website");
    Ok(websites.build(Websites { deployments, dns })?)
}
