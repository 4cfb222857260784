//! A composite controller: each `Website` has a `Deployment`, and its status says whether it is ready.
//!
//! `cargo run --example composite` runs it and its API server in one process.
//! `cargo test --example composite` tests it in virtual time.

mod user;

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    Failure, Operator, Watch,
    composite::{
        ChildConfig, CompositeBuildError, CompositeController, CompositeHandler, SyncRequest,
        SyncResponse,
    },
    crds::install_crds,
};

/// A website that runs as a number of servers.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "composite.windlass.dev",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus"
)]
struct WebsiteSpec {
    image: String,
    replicas: i32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WebsiteStatus {
    ready: bool,
    observed_generation: Option<i64>,
}

/// Computes the Deployment and the status of a website. It sends no request.
struct Websites;

impl CompositeHandler<Website> for Websites {
    fn sync(&self, request: &SyncRequest<Website>) -> Result<SyncResponse, Failure> {
        let spec = &request.parent().spec;
        let deployment = request.children().of::<Deployment>().get(request.name());
        let deployment = deployment.transpose()?;
        let ready = deployment.and_then(|it| it.status?.ready_replicas);
        let ready = ready.unwrap_or_default() >= spec.replicas;
        // The controller adds `observedGeneration`.
        let mut response = SyncResponse::new(json!({ "ready": ready }));
        let labels = json!({ "website": request.name() });
        response.add_child(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": request.name() },
            "spec": {
                "replicas": spec.replicas,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "server", "image": spec.image }] },
                },
            },
        }))?;
        Ok(response)
    }
}

fn controller(client: Client) -> Result<CompositeController<Website>, CompositeBuildError> {
    CompositeController::builder(client, "websites", Watch::all())
        .finalizer("composite.windlass.dev/websites")
        .child::<Deployment>(ChildConfig::apply())
        .build(Websites)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // On a cluster: `Client::try_default().await?`, no user, and `operator.run()`, which ends at SIGTERM.
    let client = windlass_apiserver::ApiServer::new().client();
    install_crds(&client, [Website::crd()], Duration::from_secs(30)).await?;
    let stop = CancellationToken::new();
    let user = tokio::spawn(user::run(client.clone(), stop.clone()));
    let operator = Operator::new();
    operator.add_controller(controller(client)?)?;
    operator.run_until(stop).await?;
    user.await?
}

#[cfg(test)]
mod tests {
    use windlass::{
        controller::RunError,
        kit::{self, Kit},
    };

    use super::*;

    async fn run(client: Client, stop: CancellationToken) -> Result<(), RunError> {
        let controller = controller(client).expect("good settings");
        controller.run(stop).await
    }

    #[test]
    fn a_website_has_a_deployment_and_is_ready_when_that_is() {
        kit::run(async |kit: Kit| {
            kit.install(&Website::crd()).await;
            let operator = kit.start(run);
            let image = "nginx:1".to_owned();
            let replicas = 2;
            kit.create(&Website::new("blog", WebsiteSpec { image, replicas }))
                .await;
            kit.expect::<Website>("blog")
                .matches(json!({ "status": { "ready": false, "observedGeneration": 1 } }))
                .await;
            kit.expect::<Deployment>("blog")
                .matches(json!({ "spec": { "replicas": 2 } }))
                .await;
            kit.set_status::<Deployment>("blog", json!({ "replicas": 2, "readyReplicas": 2 }))
                .await;
            kit.expect::<Website>("blog")
                .matches(json!({ "status": { "ready": true } }))
                .await;

            // Drift is reverted, and without a change nothing is written.
            kit.edit::<Deployment>("blog", |it| {
                it.spec.as_mut().expect("a spec").replicas = Some(0);
            })
            .await;
            kit.expect::<Deployment>("blog")
                .matches(json!({ "spec": { "replicas": 2 } }))
                .await;
            kit.quiet().await;
            let since = kit.mark();
            kit.advance(Duration::from_secs(3600)).await;
            assert_eq!(kit.writes(since), []);

            operator.crash();
            kit.delete::<Website>("blog").await;
            operator.restart();
            kit.expect_gone::<Website>("blog").await;
            kit.expect_gone::<Deployment>("blog").await;
        });
    }
}
