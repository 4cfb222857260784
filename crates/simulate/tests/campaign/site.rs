//! A kind of object for the operators, and what users do with it.

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

/// What the operator did.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteStatus {
    /// The generation that it did this for.
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

/// A shorter one, for operators that take long: one site changes, another one goes.
pub(crate) fn short_story(simulation: Simulation) -> Simulation {
    let page = |page: &str| json!({ "spec": { "page": page } });
    simulation
        .object(&definition())
        .step(Step::create(&site("blog", "hello")))
        .step(Step::create(&site("gone", "short")))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page("hello again")))
        .step(Step::delete::<Site>(NAMESPACE, "gone"))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page("goodbye")))
}

/// What users do: three sites come, one changes twice, one goes and comes back, one goes for good.
pub(crate) fn story(simulation: Simulation) -> Simulation {
    let page = |page: &str| json!({ "spec": { "page": page } });
    simulation
        .object(&definition())
        .step(Step::create(&site("blog", "hello")))
        .step(Step::create(&site("shop", "buy")))
        .step(Step::create(&site("gone", "short")))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page("hello again")))
        .step(Step::delete::<Site>(NAMESPACE, "shop"))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page("goodbye")))
        .step(Step::create(&site("shop", "sold")))
        .step(Step::delete::<Site>(NAMESPACE, "gone"))
}
