//! A complete operator in one file, to copy: each `Website` owns a `Deployment` that serves it.
//!
//! `cargo run --example quickstart` starts an API server in this process and runs the operator on
//! it. `user.rs` plays the user: it creates, changes and deletes a website.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, CustomResource, Resource as _, ResourceExt as _};
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

/// Builds the operator: two informers, a mapper and a reconciler.
fn operator(client: Client) -> Result<Operator, Error> {
    let controller = InformerController::builder().name("websites").build()?;
    let websites = controller.kind::<Website>("websites")?;
    let deployments = controller.kind::<Deployment>("deployments")?;
    controller.add_informer(&websites, &Informer::new(Api::all(client.clone())))?;
    controller.add_informer(&deployments, &Informer::new(Api::all(client.clone())))?;
    // When a deployment changes, the website that owns it is reconciled. So drift is corrected.
    controller.add_mapper(&deployments, &websites, Owners::of::<Website>(&()))?;

    // The finalizer keeps a deleted website until `reconcile` has returned `Outcome::done()` for
    // `Action::Deleted`.
    let finalizer = FinalizerName::new("windlass.dev/website")?;
    let finalizers = Finalizers::new(client.clone(), finalizer)?;
    let reconcile = move |request| reconcile(client.clone(), request);
    let reconciler = OpinionatedReconciler::new(finalizers, reconcile);
    // Our own status writes do not change the generation, so they cause no further call.
    controller.add_reconciler(&websites, reconciler.filter(GenerationChanged))?;

    // `Operator::builder` adds leader election and an HTTP server for health and metrics.
    let operator = Operator::new();
    operator.add_controller(controller)?;
    Ok(operator)
}

/// Makes the cluster match the spec of a website. A returned error is retried with backoff.
async fn reconcile(client: Client, request: Request<Website>) -> Result<Outcome, Failure> {
    if request.action() == Action::Deleted {
        println!("operator: clean up after {}", request.key());
        // Clean up external resources here. Kubernetes deletes the owned deployment itself.
        return Ok(Outcome::done());
    }
    let site = request.object();
    let WebsiteSpec { image, replicas } = &site.spec;
    println!("operator: apply {} with {replicas} replicas", request.key());
    let (name, namespace) = (site.name_any(), site.namespace().unwrap_or_default());
    let labels = json!({ "website": name });
    // The default pull policy depends on the image tag, and would not change with it.
    let container = json!({ "name": "server", "image": image, "imagePullPolicy": "IfNotPresent" });
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "ownerReferences": [site.controller_owner_ref(&())] },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    });
    let status = json!({
        "apiVersion": "windlass.dev/v1",
        "kind": "Website",
        "status": { "observedGeneration": site.metadata.generation },
    });
    let apply = PatchParams::apply("website-operator").force();
    let deployments = Api::<Deployment>::namespaced(client.clone(), &namespace);
    deployments
        .patch(&name, &apply, &Patch::Apply(deployment))
        .await?;
    let sites = Api::<Website>::namespaced(client, &namespace);
    sites
        .patch_status(&name, &apply, &Patch::Apply(status))
        .await?;
    Ok(Outcome::done())
}
