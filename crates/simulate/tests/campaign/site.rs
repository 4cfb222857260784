//! The custom resource `Site` of the simulated operators, and the steps of their users.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_simulate::{Simulation, Step};

/// A web site with a host name.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "simulate.windlass.dev",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteSpec {
    /// The host name.
    pub(crate) host: String,
    /// The page that it shows.
    pub(crate) page: String,
}

/// The result of the operator's work.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteStatus {
    /// The generation to which the status belongs.
    pub(crate) observed_generation: i64,
    /// The host name that it published.
    pub(crate) published: String,
}

/// The namespace of all objects.
pub(crate) const NAMESPACE: &str = "default";

pub(crate) fn definition() -> CustomResourceDefinition {
    Site::crd()
}

pub(crate) fn site(name: &str, page: &str) -> Site {
    let spec = SiteSpec {
        host: format!("{name}.example"),
        page: page.to_owned(),
    };
    let mut site = Site::new(name, spec);
    site.metadata.namespace = Some(NAMESPACE.to_owned());
    site.metadata.labels = Some([("team".to_owned(), "web".to_owned())].into());
    site
}

/// Adds fewer steps, for slow simulations: one site changes twice, another one is deleted.
pub(crate) fn with_few_steps(simulation: Simulation) -> Simulation {
    let page = |page: &str| json!({ "spec": { "page": page } });
    simulation
        .object(&definition())
        .step(Step::create(&site("blog", "hello")))
        .step(Step::create(&site("short-lived", "short")))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page("hello again")))
        .step(Step::delete::<Site>(NAMESPACE, "short-lived"))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page("goodbye")))
}

/// Adds the steps of the users: they create three sites, change one twice, delete and recreate the
/// second, and delete the third.
pub(crate) fn with_steps(simulation: Simulation) -> Simulation {
    let page = |page: &str| json!({ "spec": { "page": page } });
    simulation
        .object(&definition())
        .step(Step::create(&site("blog", "hello")))
        .step(Step::create(&site("shop", "buy")))
        .step(Step::create(&site("short-lived", "short")))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page("hello again")))
        .step(Step::delete::<Site>(NAMESPACE, "shop"))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page("goodbye")))
        .step(Step::create(&site("shop", "sold")))
        .step(Step::delete::<Site>(NAMESPACE, "short-lived"))
}
