//! Several watchers and reconcilers of one kind, with custom retry and dequeue policies:
//! `cargo run --example watchers_and_reconcilers`.
//!
//! The operator of a post office: its parcels are `ConfigMap`s on an API server in this process.
//! Two watchers (clerk, camera) and two reconcilers (packer, courier) are called for each event,
//! in this order. For some parcels the courier fails: a retry policy decides when the call is
//! repeated, and a dequeue policy decides whether a new event drops the retry. At the end the
//! metrics are scraped over HTTP, as Prometheus does it.

mod output;
mod parcel;
mod policies;
mod scrape;
mod staff;

use std::{process::ExitCode, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{Informer, InformerController, ListWatch, Operator};
use windlass_apiserver::ApiServer;

use crate::{
    output::{Actor, Output},
    staff::{Clerk, Courier, Obstacles},
};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The name of the kind: it connects the informer with its handlers.
const KIND: &str = "parcels";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("watchers_and_reconcilers: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let (output, obstacles) = (Output::new(), Arc::new(Obstacles::default()));
    let server = ApiServer::new();
    let parcels: Api<ConfigMap> = Api::namespaced(server.client(), "default");

    let controller = InformerController::builder()
        .name("post")
        .retry_policy(policies::retry(&output))
        .retry_dequeue_policy(policies::dequeue(&output))
        .on_error(|_| {})
        .on_exhausted(policies::exhausted(&output))
        .build()?;
    let informer = Informer::new(ListWatch::new(parcels.clone()).labels(parcel::LABEL)?);
    let kind = controller.kind(KIND)?;
    controller.add_informer(&kind, &informer)?;

    // Handlers are called in the order in which they were added, but all watchers before all
    // reconcilers.
    controller.add_reconciler(&kind, staff::packer(&output))?;
    controller.add_reconciler(&kind, Courier::new(&output, &obstacles))?;
    controller.add_watcher(&kind, Clerk::new(&output))?;
    controller.add_watcher(&kind, staff::camera(&output))?;

    let operator = Operator::new();
    operator.add_controller(controller.clone())?;
    let registry = prometheus::Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector)?;
    }
    let metrics = scrape::serve(registry).await?;

    let stop = CancellationToken::new();
    let scenario = async {
        let done = run_scenario(&output, &obstacles, &parcels, &controller).await;
        stop.cancel();
        done
    };
    let (ended, done) = tokio::join!(operator.run_until(stop.clone()), scenario);
    ended?;
    done?;

    output.heading(&format!("The metrics at http://{metrics}/metrics"));
    scrape::print(&scrape::get(metrics).await?);
    println!("\nsuccess: every parcel is delivered or fetched back, and no call is pending");
    Ok(())
}

/// Creates, changes and deletes parcels, and waits for the handlers after each step.
async fn run_scenario(
    output: &Output,
    obstacles: &Obstacles,
    parcels: &Api<ConfigMap>,
    controller: &InformerController,
) -> Result<(), Error> {
    let create = async |name: &str, to: &str| {
        let parcel = parcel::new(name, to);
        output.print(Actor::You, format_args!("post {name} to {to}"));
        parcels.create(&PostParams::default(), &parcel).await
    };
    let change = async |name: &str, field: &str, value: &str| {
        output.print(
            Actor::You,
            format_args!("change {name}: {field} is {value:?}"),
        );
        let patch = Patch::Merge(json!({ "data": { field: value } }));
        parcels.patch(name, &PatchParams::default(), &patch).await
    };

    output.heading("Two watchers, then two reconcilers, in the order in which they were added");
    create("book", "Elm Street").await?;
    output.until("delivers book to Elm Street").await?;

    output.heading(
        "One handler fails: only that handler is called again, with the state that it returned",
    );
    obstacles.block("Hill Road", "the van is too small");
    create("piano", "Hill Road").await?;
    output.until("piano: attempt 2").await?;

    output.heading("A new event arrives: the dequeue policy decides whether the retry is kept");
    change("piano", "note", "fragile").await?;
    output.until("keep the retry for piano").await?;
    obstacles.clear("Hill Road");
    output.until("delivers piano to Hill Road").await?;
    obstacles.block("Tower Lane", "the stairs are too narrow");
    create("harp", "Tower Lane").await?;
    output.until("harp: attempt 1").await?;
    change("harp", "to", "Garden Row").await?;
    output.until("drop the retry for harp").await?;
    output.until("delivers harp to Garden Row").await?;

    output
        .heading("The policy stops the retries: a hook is called, and `redrive` repeats the call");
    obstacles.forbid("Dry Dock");
    create("aquarium", "Dry Dock").await?;
    output.until("no more retries: aquarium").await?;
    for call in controller.dead_letters() {
        let (key, attempts) = (&call.key, call.attempts);
        output.print(
            Actor::You,
            format_args!("find the dead letter {key}, after {attempts} call(s); redrive it"),
        );
        obstacles.clear("Dry Dock");
        controller.redrive(&call);
    }
    output.until("delivers aquarium to Dry Dock").await?;

    output.heading("An object is deleted");
    output.print(Actor::You, "take book back");
    parcels.delete("book", &DeleteParams::default()).await?;
    output.until("fetches book back").await?;
    match controller.pending_calls() {
        0 => Ok(()),
        pending => Err(format!("{pending} calls are still pending").into()),
    }
}
