//! The campaigns of composite handlers.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_simulate::{EndState, Fault, Simulation, Step};

use super::{namespace, of_sites, passes, passes_all, with_models_oracles};
use crate::{
    operators::{self, OTHER_NAMESPACE},
    site::{self, NAMESPACE, Site},
};

const SITES: &str = "sites.simulate.windlass.dev";

#[test]
fn composite_handler() {
    let simulation = of_sites("composite handler", operators::composite_handler);
    passes(with_composite_oracles(simulation));
}

/// A site is deleted and created again with another host name, while calls are in progress.
#[test]
fn successors() {
    let again = |host: &str| Step::create(&with_host("shop", host));
    let simulation = Simulation::new("successors", operators::slow_composite_handler)
        .object(&site::definition())
        .step(Step::create(&site::site("shop", "buy")))
        .step(Step::wait(Duration::from_secs(2)))
        .step(Step::delete::<Site>(NAMESPACE, "shop"))
        .step(again("second.example"))
        .pace(Duration::from_millis(15))
        // What lets a site disappear while a call is in progress, and what repeats a clean-up.
        .faults([
            Fault::StripFinalizers,
            Fault::Recreate,
            Fault::HandlerFails,
            Fault::HandlerSlow,
            Fault::ExternalFails,
        ])
        .seeds(5)
        .single_faults(10)
        .fault_pairs(5);
    passes_all(&with_composite_oracles(simulation));
}

/// Two controllers with one finalizer, in two namespaces.
#[test]
fn two_namespaces() {
    let mut other = with_host("blog", "other.example");
    other.metadata.namespace = Some(OTHER_NAMESPACE.to_owned());
    let page = json!({ "spec": { "page": "hello again" } });
    let simulation = Simulation::new(
        "composites of two namespaces",
        operators::composites_of_two_namespaces,
    )
    .object(&namespace(OTHER_NAMESPACE))
    .object(&site::definition())
    .step(Step::create(&site::site("blog", "here")))
    .step(Step::create(&other))
    .step(Step::merge::<Site>(OTHER_NAMESPACE, "blog", page))
    .step(Step::delete::<Site>(NAMESPACE, "blog"))
    // The two controllers do not wait for each other.
    .without_oracle("calls_begin_after_the_first_lists")
    .seeds(3)
    .single_faults(3)
    .fault_pairs(3);
    passes_all(&with_composite_oracles(simulation));
}

fn with_host(name: &str, host: &str) -> Site {
    let mut site = site::site(name, "moved");
    host.clone_into(&mut site.spec.host);
    site
}

/// The oracles of all models, and those of children and of the status that follows from them.
fn with_composite_oracles(simulation: Simulation) -> Simulation {
    let simulation = simulation
        .oracle(
            "the_status_names_the_children",
            the_status_names_the_children,
        )
        .oracle("no_child_outlives_its_site", no_child_outlives_its_site)
        .oracle("each_host_is_that_of_a_site", each_host_is_that_of_a_site);
    with_models_oracles(simulation)
}

fn the_status_names_the_children(end: &EndState) -> Result<(), String> {
    for site in end.objects(SITES) {
        let host = site["spec"]["host"].as_str().unwrap_or_default();
        let expected = operators::published(host, &["a page", "an address"]);
        let published = &site["status"]["published"];
        if *published != *expected {
            return Err(format!("{published} is published"));
        }
    }
    Ok(())
}

fn no_child_outlives_its_site(end: &EndState) -> Result<(), String> {
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        (metadata["namespace"].clone(), metadata["name"].clone())
    };
    let sites: Vec<_> = end.objects(SITES).map(key).collect();
    let children = end.objects("configmaps").chain(end.objects("services"));
    let mut children =
        children.filter(|it| !it["metadata"]["annotations"]["windlass.dev/child"].is_null());
    match children.find(|it| !sites.contains(&key(it))) {
        None => Ok(()),
        Some(left) => Err(format!(
            "{} {} is left",
            left["kind"], left["metadata"]["name"]
        )),
    }
}

/// Each site has its host name outside of the cluster, and no other host name is left.
fn each_host_is_that_of_a_site(end: &EndState) -> Result<(), String> {
    let hosts = end
        .objects(SITES)
        .filter_map(|it| it["spec"]["host"].as_str());
    let mut expected: Vec<_> = hosts.map(|host| format!("dns {host}")).collect();
    expected.sort();
    let hosts = end.external().keys().filter(|it| it.starts_with("dns "));
    let hosts: Vec<_> = hosts.cloned().collect();
    if hosts == expected {
        return Ok(());
    }
    Err(format!("{hosts:?} exist instead of {expected:?}"))
}
