//! A complete operator in one file, to copy: each `Website` owns a `Deployment` that serves it.
//!
//! `cargo run --example quickstart` starts an API server in this process, runs the operator on
//! it, and then creates, changes and deletes a website as a user would. To run the operator on a
//! cluster, take the client from `Client::try_default().await?`.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    Action, Failure, FinalizerName, Finalizers, GenerationChanged, Informer, InformerController,
    Operator, OpinionatedReconciler, Outcome, Owners, Request,
};

/// The spec of the kind. The CRD and the Rust type `Website` are derived from it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(group = "windlass.dev", version = "v1", kind = "Website", namespaced)]
#[kube(status = "WebsiteStatus")]
struct WebsiteSpec {
    image: String,
    replicas: i32,
}

/// The status, which the operator writes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WebsiteStatus {
    observed_generation: i64,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Builds the operator: two informers, a mapper and a reconciler.
fn operator(client: Client) -> Result<Operator, Error> {
    let controller = InformerController::builder().name("websites").build()?;
    let websites = Informer::new(Api::<Website>::all(client.clone()));
    let deployments = Informer::new(Api::<Deployment>::all(client.clone()));
    controller.add_informer("websites", &websites)?;
    controller.add_informer("deployments", &deployments)?;
    // When a deployment changes, the website that owns it is reconciled. So drift is corrected.
    controller.add_mapper::<Deployment>("deployments", "websites", Owners::of::<Website>(&()))?;

    // The finalizer keeps a deleted website until `reconcile` has returned `Outcome::done()` for
    // `Action::Deleted`.
    let finalizer = FinalizerName::new("windlass.dev/website")?;
    let finalizers = Finalizers::new(client.clone(), finalizer)?;
    let reconcile = move |request| reconcile(client.clone(), request);
    let reconciler = OpinionatedReconciler::new(finalizers, reconcile);
    // Our own status writes do not change the generation, so they cause no further call.
    controller.add_reconciler("websites", reconciler.filter(GenerationChanged))?;

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
    let replicas = site.spec.replicas;
    println!("operator: apply {} with {replicas} replicas", request.key());
    let (name, namespace) = (site.name_any(), site.namespace().unwrap_or_default());
    let labels = json!({ "website": name });
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "ownerReferences": [site.controller_owner_ref(&())] },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                // The default pull policy depends on the image tag, and would not change with it.
                "spec": { "containers": [{
                    "name": "server",
                    "image": site.spec.image,
                    "imagePullPolicy": "IfNotPresent",
                }] },
            },
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

// --- The operator ends here. The rest runs it, and plays the part of a user. ---

#[tokio::main]
async fn main() -> Result<(), Error> {
    let server = windlass_apiserver::ApiServer::new();
    let client = server.client();
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    crds.create(&PostParams::default(), &Website::crd()).await?;
    await_condition(crds, Website::crd_name(), is_crd_established()).await?;

    let operator = operator(client.clone())?;
    let registry = prometheus::Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector)?;
    }
    // On a cluster: `operator.run().await?`, which returns after SIGTERM or SIGINT.
    let stop = CancellationToken::new();
    let user = async {
        let done = tokio::time::timeout(Duration::from_secs(30), user(client)).await;
        stop.cancel();
        done.map_err(|_| "timed out after 30s waiting for the operator")?
    };
    let (ran, done) = tokio::join!(operator.run_until(stop.clone()), user);
    ran?;
    done?;
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

/// Creates a website, changes its deployment by hand, changes the website and deletes it. After
/// each step it waits until the operator has reacted.
async fn user(client: Client) -> Result<(), Error> {
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

#[cfg(test)]
#[path = "quickstart/simulation.rs"]
mod simulation;
