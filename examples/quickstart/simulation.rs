//! Simulates the quickstart's operator with injected faults, and with random sequences of specs.
//!
//! `cargo test --example quickstart` makes a few of the runs, `cargo xtask sim --exhaustive` all.

use kube::CustomResourceExt as _;
use windlass::simulate::{Process, Simulation, Step, Walks};

use super::{Deployment, Error, Website, WebsiteSpec, json};

async fn run(process: Process) -> Result<(), Error> {
    let operator = super::operator(process.client())?;
    Ok(operator.run_until(process.stop()).await?)
}

fn website(name: &str, replicas: i32) -> Website {
    let image = "nginx:1.29-alpine".to_owned();
    let mut site = Website::new(name, WebsiteSpec { image, replicas });
    site.metadata.namespace = Some("default".to_owned());
    site
}

#[test]
fn the_operator_survives_every_fault() {
    let replicas = |count: i32| json!({ "spec": { "replicas": count } });
    let simulation = Simulation::new("example quickstart", run)
        .object(&Website::crd())
        .step(Step::create(&website("blog", 1)))
        .step(Step::create(&website("shop", 1)))
        // Drift, which the operator has to correct.
        .step(Step::merge::<Deployment>("default", "blog", replicas(0)))
        .step(Step::merge::<Website>("default", "blog", replicas(3)))
        .step(Step::delete::<Website>("default", "shop"))
        .single_faults(40)
        .seeds(10);
    match simulation.run() {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn walks_lead_where_each_spec_leads_from_nothing() {
    let site = website("blog", 1);
    let walks = Walks::new(&Website::crd(), &site).specs(12).walks(10);
    let simulation = Simulation::new("example quickstart", run).object(&Website::crd());
    match simulation.walks(&walks) {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}
