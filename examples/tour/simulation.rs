//! The operator of the tour under every fault, and on walks through desired states.
//!
//! `cargo test --example tour` makes a few of the runs, `cargo xtask sim --exhaustive` all.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, CustomResourceExt as _};
use serde_json::json;
use windlass::{
    Informer, Operator,
    simulate::{External, ExternalError, Process, Simulation, Step, Walks},
};

use crate::{
    Error, NAMESPACE, controller, names::NameService, printer::Printer, publish::Publish, website,
    website::Website,
};

/// The name service as a resource of the simulation: it survives a crash of the operator.
struct Names(External);

impl NameService for Names {
    type Error = ExternalError;

    async fn publish(&self, owner: &str, host: &str) -> Result<(), ExternalError> {
        self.0.put(owner, host).await
    }

    async fn withdraw(&self, owner: &str) -> Result<bool, ExternalError> {
        self.0.remove(owner).await
    }
}

async fn run(process: Process) -> Result<(), Error> {
    let printer = Arc::new(Printer::new());
    let websites = Informer::new(Api::<Website>::all(process.client()));
    process.observe(&websites);
    let controller = controller(&process.client(), &websites, &printer, |children| {
        let names = Names(process.external());
        let printer = Arc::clone(&printer);
        process.handler(
            "publish",
            Publish {
                children,
                names,
                printer,
            },
        )
    })?;
    let operator = Operator::new();
    operator.add_controller(controller)?;
    Ok(operator.run_until(process.stop()).await?)
}

fn simulation() -> Simulation {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NAMESPACE.to_owned());
    Simulation::new("example tour", run)
        .object(&Website::crd())
        .object(&namespace)
}

fn site(name: &str, host: &str) -> Website {
    let mut site = website(name, host, "<h1>Hello</h1>");
    site.metadata.namespace = Some(NAMESPACE.to_owned());
    site
}

#[test]
fn the_operator_survives_every_fault() {
    let change = json!({ "spec": { "page": "<h1>Hello again</h1>", "replicas": 3 } });
    let moved = json!({ "spec": { "host": "market.example" } });
    let simulation = simulation()
        .step(Step::create(&site("blog", "blog.example")))
        .step(Step::create(&site("shop", "shop.example")))
        .step(Step::merge::<Website>(NAMESPACE, "blog", change))
        .step(Step::merge::<Website>(NAMESPACE, "shop", moved))
        .step(Step::delete::<Website>(NAMESPACE, "blog"))
        .single_faults(40)
        .seeds(10);
    match simulation.run() {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn walks_lead_where_each_spec_leads_from_nothing() {
    let site = site("blog", "blog.example");
    let walks = Walks::new(&Website::crd(), &site).specs(12).walks(10);
    match simulation().walks(&walks) {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}
