//! The controller of the Gateway API under every fault.
//!
//! `cargo test --example gateway` makes a few of the runs, `cargo xtask sim --exhaustive` all.

use k8s_openapi::api::core::v1::{Secret, Service};
use serde_json::{Value, json};
use windlass::simulate::{EndState, Process, Simulation, Step};

use crate::{
    BoxError, CONTROLLER,
    api::{GROUP, Gateway},
    conditions::RESOLVED_REFS,
    folder,
    guides::Manifest,
    informers::Informers,
    load::read,
    operator,
    status_writer::StatusWriter,
};

/// What exists before the controller starts. `web` has the gateway and a route; `shop` has a route
/// that attaches to it as long as the namespace has its label.
const OBJECTS: &str = "
{kind: Namespace, apiVersion: v1, metadata: {name: web}}
---
{kind: Namespace, apiVersion: v1, metadata: {name: shop, labels: {routes: allowed}}}
---
{kind: Namespace, apiVersion: v1, metadata: {name: certificates}}
---
{kind: Secret, apiVersion: v1, metadata: {name: edge, namespace: certificates}, type: kubernetes.io/tls, data: {tls.crt: bm9uZQ==, tls.key: bm9uZQ==}}
";

/// What users create while it runs.
const CREATED: &str = "
{kind: GatewayClass, apiVersion: gateway.networking.k8s.io/v1, metadata: {name: acme}, spec: {controllerName: acme.io/gateway-controller}}
---
{kind: Gateway, apiVersion: gateway.networking.k8s.io/v1, metadata: {name: edge, namespace: web}, spec: {gatewayClassName: acme, listeners: [
  {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {routes: allowed}}}}},
  {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: edge, namespace: certificates}]}}]}}
---
{kind: Gateway, apiVersion: gateway.networking.k8s.io/v1, metadata: {name: spare, namespace: web}, spec: {gatewayClassName: acme, listeners: [
  {name: http, port: 81, protocol: HTTP}]}}
---
{kind: HTTPRoute, apiVersion: gateway.networking.k8s.io/v1, metadata: {name: cart, namespace: shop}, spec: {
  parentRefs: [{name: edge, namespace: web, sectionName: http}], rules: [{backendRefs: [{name: cart, port: 80}]}]}}
---
{kind: ReferenceGrant, apiVersion: gateway.networking.k8s.io/v1, metadata: {name: edge, namespace: certificates}, spec: {
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: web}], to: [{group: '', kind: Secret}]}}
---
{kind: Service, apiVersion: v1, metadata: {name: cart, namespace: shop}, spec: {ports: [{port: 80}]}}
";

async fn run(process: Process) -> Result<(), BoxError> {
    let client = process.client();
    let informers = Informers::new(&client);
    informers.observe(&process);
    let writer = StatusWriter::new(client, informers.clone(), CONTROLLER);
    let writer = process.handler("statuses", writer);
    Ok(operator(&informers, writer)?
        .run_until(process.stop())
        .await?)
}

/// The path of the kind of an object in its namespace, and the object.
fn placed(manifest: &Manifest) -> (String, Value) {
    let object = serde_json::to_value(&manifest.object).expect("a manifest is JSON");
    let version = object["apiVersion"].as_str().expect("a version");
    let plural = match manifest.kind() {
        "GatewayClass" => "gatewayclasses".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let base = if version.contains('/') { "apis" } else { "api" };
    let namespace = manifest
        .namespace()
        .map_or_else(String::new, |it| format!("/namespaces/{it}"));
    (format!("/{base}/{version}{namespace}/{plural}"), object)
}

fn creates(manifests: &[Manifest]) -> Vec<Step> {
    let placed = manifests.iter().map(placed);
    placed
        .map(|(collection, object)| Step::create_at(collection, object))
        .collect()
}

fn manifests(text: &str) -> Vec<Manifest> {
    Manifest::read("simulation", text).expect("manifests")
}

/// The upstream definitions of kinds.
fn definitions() -> Vec<Manifest> {
    let mut crds = read(&folder().join("crds")).expect("the upstream CRDs");
    crds.retain(|manifest| manifest.kind() == "CustomResourceDefinition");
    crds
}

/// The references of both listeners are resolved, and the route is attached to the first one.
fn is_programmed(end: &EndState) -> Result<(), String> {
    let gateways = format!("gateways.{GROUP}");
    let gateway = end.objects(&gateways).next().ok_or("no gateway is left")?;
    let listeners = gateway["status"]["listeners"].as_array();
    let listeners = listeners.ok_or("the gateway has no status")?;
    let attached: Vec<_> = listeners.iter().map(|it| &it["attachedRoutes"]).collect();
    if attached != [1, 0] {
        return Err(format!("the listeners have {attached:?} routes"));
    }
    let conditions = listeners.iter().map(|it| &it["conditions"]);
    let mut conditions = conditions.filter_map(Value::as_array).flatten();
    match conditions.find(|it| it["type"] == RESOLVED_REFS && it["status"] != "True") {
        Some(condition) => Err(condition.to_string()),
        None => Ok(()),
    }
}

/// The cluster has deleted the service of the deleted gateway, and no other.
fn has_its_services(end: &EndState) -> Result<(), String> {
    let names: Vec<_> = end
        .objects("services")
        .filter_map(|it| it["metadata"]["name"].as_str())
        .filter(|name| *name != "kubernetes")
        .collect();
    if names == ["cart", "edge-acme"] {
        return Ok(());
    }
    Err(format!("there are the services {names:?}"))
}

#[test]
fn the_controller_survives_every_fault() {
    let labels = |value: Value| json!({ "metadata": { "labels": { "routes": value } } });
    let shop = "/api/v1/namespaces/shop";
    let ports = json!({ "spec": { "ports": [{ "name": "web", "port": 80 }, { "name": "more", "port": 81 }] } });
    let objects = manifests(OBJECTS);
    let initial = [definitions(), objects.clone()].concat();
    let simulation = Simulation::new("example gateway", run);
    let simulation = creates(&initial)
        .into_iter()
        .fold(simulation, Simulation::initial_step)
        .steps(creates(&manifests(CREATED)))
        .step(Step::merge_at(shop, labels(Value::Null)))
        .step(Step::delete::<Secret>("certificates", "edge"))
        .step(Step::merge::<Service>("shop", "cart", ports))
        .step(Step::delete::<Gateway>("web", "spare"))
        .step(Step::merge_at(shop, labels("allowed".into())))
        .steps(creates(&objects[3..]))
        .oracle("the_gateway_is_programmed", is_programmed)
        .oracle("a_service_goes_with_its_gateway", has_its_services)
        .single_faults(8)
        .seeds(3);
    match simulation.run() {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}
