//! Plays the user of the operator and the Deployment controller, and prints what it sees. Not a part
//! of the operator.

use std::{error::Error, time::Duration};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Website, WebsiteSpec};

type Done = Result<(), Box<dyn Error + Send + Sync>>;

/// Plays the user for at most 30 seconds, and then stops the operator.
pub(crate) async fn run(client: Client, stop: CancellationToken) -> Done {
    let _stopped_at_the_end = stop.drop_guard();
    tokio::time::timeout(Duration::from_secs(30), act(client))
        .await
        .map_err(|_| "timed out after 30s waiting for the operator")?
}

async fn act(client: Client) -> Done {
    let sites = Api::<Website>::default_namespaced(client.clone());
    let deployments = Api::<Deployment>::default_namespaced(client);

    println!("user:       create the website blog with 2 servers");
    let spec = WebsiteSpec {
        image: "nginx:1".to_owned(),
        replicas: 2,
    };
    let blog = Website::new("blog", spec);
    sites.create(&PostParams::default(), &blog).await?;
    await_condition(sites.clone(), "blog", is_ready(false)).await?;
    println!("status:     blog is not ready");
    run_servers(&deployments).await?;
    await_condition(sites.clone(), "blog", is_ready(true)).await?;
    println!("status:     blog is ready");

    println!("user:       delete the website");
    sites.delete("blog", &DeleteParams::default()).await?;
    await_condition(sites, "blog", |it: Option<&Website>| it.is_none()).await?;
    let is_deleted = |it: Option<&Deployment>| it.is_none();
    await_condition(deployments, "blog", is_deleted).await?;
    println!("user:       the website and its deployment are deleted");
    Ok(())
}

/// Does the work of the Deployment controller, which runs on a cluster and not here.
async fn run_servers(deployments: &Api<Deployment>) -> Done {
    let exists = |it: Option<&Deployment>| it.is_some();
    let found = await_condition(deployments.clone(), "blog", exists).await?;
    let spec = found.and_then(|it| it.spec);
    let replicas = spec.and_then(|it| it.replicas).unwrap_or_default();
    println!("deployment: start {replicas} servers of blog");
    let status = Patch::Merge(json!({
        "status": { "replicas": replicas, "readyReplicas": replicas },
    }));
    deployments
        .patch_status("blog", &PatchParams::default(), &status)
        .await?;
    Ok(())
}

fn is_ready(ready: bool) -> impl Fn(Option<&Website>) -> bool {
    move |it| {
        let status = it.and_then(|it| it.status.as_ref());
        status.is_some_and(|status| status.ready == ready)
    }
}
