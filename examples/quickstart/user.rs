//! Plays the user of the operator, and prints what it does. Not a part of the operator.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, Client, CustomResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Deployment, Error, Website, WebsiteSpec};

/// Installs the kind, as `kubectl apply` does on a cluster.
pub(super) async fn install_crd(client: &Client) -> Result<(), Error> {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    crds.create(&PostParams::default(), &Website::crd()).await?;
    await_condition(crds, Website::crd_name(), is_crd_established()).await?;
    Ok(())
}

/// Plays the user for at most 30 seconds, and then stops the operator.
pub(super) async fn run(client: Client, stop: CancellationToken) -> Result<(), Error> {
    let _stopped_at_the_end = stop.drop_guard();
    tokio::time::timeout(Duration::from_secs(30), act(client))
        .await
        .map_err(|_| "timed out after 30s waiting for the operator")?
}

/// Creates a website, changes its deployment by hand, changes the website and deletes it. After
/// each step it waits until the operator has reacted.
async fn act(client: Client) -> Result<(), Error> {
    let sites = Api::<Website>::default_namespaced(client.clone());
    let deployments = Api::<Deployment>::default_namespaced(client);
    let replicas = |wanted: i32| {
        move |deployment: Option<&Deployment>| {
            deployment.and_then(|it| it.spec.as_ref()?.replicas) == Some(wanted)
        }
    };
    let params = PatchParams::default();

    println!("user:     create the website blog, with 1 server");
    let spec = WebsiteSpec {
        image: "nginx:1.29-alpine".into(),
        replicas: 1,
    };
    sites
        .create(&PostParams::default(), &Website::new("blog", spec))
        .await?;
    let observed = |site: Option<&Website>| site.is_some_and(|site| site.status.is_some());
    await_condition(sites.clone(), "blog", observed).await?;

    println!("user:     scale its deployment to 0 by hand");
    let patch = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    deployments.patch("blog", &params, &patch).await?;
    await_condition(deployments.clone(), "blog", replicas(1)).await?;

    println!("user:     ask for 3 servers");
    let patch = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    sites.patch("blog", &params, &patch).await?;
    await_condition(deployments.clone(), "blog", replicas(3)).await?;

    println!("user:     delete the website");
    sites.delete("blog", &DeleteParams::default()).await?;
    await_condition(sites, "blog", |site: Option<&Website>| site.is_none()).await?;
    let is_deleted = |deployment: Option<&Deployment>| deployment.is_none();
    await_condition(deployments, "blog", is_deleted).await?;
    println!("user:     the website and its deployment are deleted");
    Ok(())
}

/// Prints how often the operator has reconciled a website, as Prometheus reads it.
pub(super) fn print_metrics(registry: &prometheus::Registry) -> Result<(), Error> {
    let metrics = prometheus::TextEncoder::new().encode_to_string(&registry.gather())?;
    let calls = metrics
        .lines()
        .filter(|line| line.starts_with("controller_runtime_reconcile_total"));
    calls
        .filter(|line| !line.ends_with(" 0"))
        .for_each(|line| println!("metrics:  {line}"));
    println!("success");
    Ok(())
}
