//! Plays the user of a Website operator, and prints what it sees. Not a part of the operator.

use std::{error::Error, time::Duration};

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::website::{Dns, Website, WebsiteSpec};

/// Installs the kind, as `kubectl apply` does on a cluster.
pub(crate) async fn install_crd(client: &Client) -> Result<(), Box<dyn Error + Send + Sync>> {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    crds.create(&PostParams::default(), &Website::crd()).await?;
    await_condition(crds, Website::crd_name(), is_crd_established()).await?;
    Ok(())
}

/// Plays the user for at most 30 seconds, and then stops the operator.
pub(crate) async fn run(
    client: Client,
    dns: Dns,
    stop: CancellationToken,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let _stopped_at_the_end = stop.drop_guard();
    tokio::time::timeout(Duration::from_secs(30), act(client, dns))
        .await
        .map_err(|_| "timed out after 30s waiting for the operator")?
}

async fn act(client: Client, dns: Dns) -> Result<(), Box<dyn Error + Send + Sync>> {
    let sites = Api::<Website>::default_namespaced(client.clone());
    let deployments = Api::<Deployment>::default_namespaced(client);

    println!("user: create the website blog");
    let spec = WebsiteSpec {
        address: "192.0.2.1".to_owned(),
        replicas: 1,
    };
    let blog = Website::new("blog", spec);
    sites.create(&PostParams::default(), &blog).await?;
    let exists = |it: Option<&Deployment>| it.is_some();
    await_condition(deployments.clone(), "blog", exists).await?;
    records(&dns, |it| it.contains("192.0.2.1")).await;

    println!("user: move it, while the DNS provider does not answer");
    dns.fail_next();
    let change = Patch::Merge(json!({ "spec": { "address": "192.0.2.2" } }));
    sites
        .patch("blog", &PatchParams::default(), &change)
        .await?;
    records(&dns, |it| it.contains("192.0.2.2")).await;

    println!("user: delete it");
    sites.delete("blog", &DeleteParams::default()).await?;
    records(&dns, |it| it == "no record").await;
    await_condition(sites, "blog", |it: Option<&Website>| it.is_none()).await?;
    let is_deleted = |it: Option<&Deployment>| it.is_none();
    await_condition(deployments, "blog", is_deleted).await?;
    println!("user: the website, its deployment and its record are deleted");
    Ok(())
}

/// Waits until the records are as expected, and prints them.
async fn records(dns: &Dns, is: impl Fn(&str) -> bool) {
    loop {
        let records = dns.records().into_iter();
        let records: Vec<_> = records.map(|(host, to)| format!("{host} {to}")).collect();
        let text = match records.join(", ") {
            text if text.is_empty() => "no record".to_owned(),
            text => text,
        };
        if is(&text) {
            println!("dns:  {text}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
