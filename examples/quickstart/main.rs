//! A complete operator in one file, to copy: each `Website` owns a `Deployment` that serves it.
//!
//! `cargo run --example quickstart` starts an API server in this process and runs the operator on
//! it. `user.rs` plays the user: it creates, changes and deletes a website.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::prelude::*;

#[cfg(test)]
mod simulation;
mod user;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The spec of the kind. The CRD and the Rust type `Website` are derived from it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(group = "windlass.dev", version = "v1", kind = "Website", namespaced)]
#[kube(status = "WebsiteStatus")]
struct WebsiteSpec {
    image: String,
    replicas: i32,
}

/// The status, which the operator writes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WebsiteStatus {
    observed_generation: i64,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // On a cluster: `Client::try_default().await?`.
    let client = windlass_apiserver::ApiServer::new().client();
    user::install_crd(&client).await?;

    let operator = operator(client.clone())?;
    let registry = prometheus::Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector)?;
    }
    // On a cluster: `operator.run().await?`, which returns after SIGTERM or SIGINT.
    let stop = CancellationToken::new();
    let user = tokio::spawn(user::run(client, stop.clone()));
    operator.run_until(stop).await?;
    user.await??;
    user::print_metrics(&registry)
}

/// Builds the operator: one controller, for websites and the deployments that they own.
fn operator(client: Client) -> Result<Operator, Error> {
    let mut websites = Controller::<Website>::builder(client, Watch::all());
    // When a deployment changes, the website that owns it is reconciled. So drift is corrected.
    let deployments = websites.owns(Watch::all());
    // The finalizer keeps a deleted website until `cleanup` has returned `Outcome::done()`.
    let websites = websites.name("websites").finalizer("windlass.dev/website");
    let operator = Operator::new();
    operator.add_controller(websites.build(Websites { deployments })?)?;
    // `Operator::builder` adds leader election and an HTTP server for health and metrics.
    Ok(operator)
}

/// Reconciles websites. A returned error is retried with backoff.
struct Websites {
    deployments: Owned<Website, Deployment>,
}

impl ObjectReconciler<Website> for Websites {
    type Error = Failure;

    /// Makes the cluster match the spec of a website.
    async fn reconcile(&self, cx: Context<Website>) -> Result<Outcome, Failure> {
        let WebsiteSpec { image, replicas } = &cx.object().spec;
        println!("operator: apply {} with {replicas} replicas", cx.key());
        let labels = json!({ "website": cx.key().name() });
        // The default pull policy depends on the image tag, and would not change with it.
        let container =
            json!({ "name": "server", "image": image, "imagePullPolicy": "IfNotPresent" });
        // Name, namespace, owner and kind are added.
        let deployment = Desired::json(json!({ "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        }}));
        self.deployments.apply(&cx, deployment).await?;
        let observed_generation = cx.generation();
        cx.write_status(WebsiteStatus {
            observed_generation,
        })
        .await?;
        Ok(Outcome::done())
    }

    /// Cleans up external resources. Kubernetes deletes the owned deployment itself.
    async fn cleanup(&self, cx: Context<Website>) -> Result<Outcome, Failure> {
        println!("operator: clean up after {}", cx.key());
        Ok(Outcome::done())
    }
}
