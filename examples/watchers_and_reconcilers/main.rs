//! Several watchers and reconcilers of one kind, and how their calls come back:
//! `cargo run --example watchers_and_reconcilers`.
//!
//! A post office for parcels, which are `ConfigMap`s on an API server in this process. A clerk
//! and a camera watch; a packer and a courier act, after them and in this order. Some parcels
//! are trouble: a retry policy and a dequeue policy of our own say what becomes of them. In the
//! end the collectors are scraped over HTTP, as Prometheus would, and the program ends.

mod diary;
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
    diary::{Diary, Who},
    staff::{Clerk, Courier, Roads},
};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What ties the informer to its handlers: a name of ours.
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
    let (diary, roads) = (Diary::new(), Arc::new(Roads::default()));
    let server = ApiServer::new();
    let parcels: Api<ConfigMap> = Api::namespaced(server.client(), "default");

    let controller = InformerController::builder()
        .name("post")
        .retry_policy(policies::retry(&diary))
        .retry_dequeue_policy(policies::dequeue(&diary))
        .on_error(|_| {})
        .on_exhausted(policies::exhausted(&diary))
        .build()?;
    let informer = Informer::new(ListWatch::new(parcels.clone()).labels(parcel::LABEL)?);
    controller.add_informer(KIND, &informer)?;

    // The order in which they are added is the order in which they are called: all watchers
    // first, whichever was added when, and then all reconcilers.
    controller.add_reconciler(KIND, staff::packer(&diary))?;
    controller.add_reconciler(KIND, Courier::new(&diary, &roads))?;
    controller.add_watcher(KIND, Clerk::new(&diary))?;
    controller.add_watcher(KIND, staff::camera(&diary))?;

    let operator = Operator::new();
    operator.add_controller(controller.clone())?;
    let registry = prometheus::Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector)?;
    }
    let metrics = scrape::serve(registry).await?;

    let stop = CancellationToken::new();
    let story = async {
        let told = tell(&diary, &roads, &parcels, &controller).await;
        stop.cancel();
        told
    };
    let (ended, told) = tokio::join!(operator.run_until(stop.clone()), story);
    ended?;
    told?;

    diary.heading(&format!(
        "What Prometheus reads at http://{metrics}/metrics"
    ));
    scrape::print(&scrape::get(metrics).await?);
    println!("\nall is well: every parcel is where it should be, and nothing is pending");
    Ok(())
}

/// What people do to parcels, and what comes of it.
async fn tell(
    diary: &Diary,
    roads: &Roads,
    parcels: &Api<ConfigMap>,
    controller: &InformerController,
) -> Result<(), Error> {
    let create = async |name: &str, to: &str| {
        let parcel = parcel::new(name, to);
        diary.tell(Who::You, format_args!("post {name} to {to}"));
        parcels.create(&PostParams::default(), &parcel).await
    };
    let change = async |name: &str, field: &str, value: &str| {
        diary.tell(
            Who::You,
            format_args!("change {name}: {field} is {value:?}"),
        );
        let patch = Patch::Merge(json!({ "data": { field: value } }));
        parcels.patch(name, &PatchParams::default(), &patch).await
    };

    diary.heading("Two watchers, then two reconcilers, each in the order in which it was added");
    create("book", "Elm Street").await?;
    diary.until("brings book to Elm Street").await?;

    diary.heading("One of them fails: it alone is called again, with the state that it left");
    roads.block("Hill Road", "the van is too small");
    create("piano", "Hill Road").await?;
    diary.until("piano: try 2").await?;

    diary.heading("Something new about it: a policy of our own says whether the retry is kept");
    change("piano", "note", "fragile").await?;
    diary.until("keep the retry for piano").await?;
    roads.clear("Hill Road");
    diary.until("brings piano to Hill Road").await?;
    roads.block("Tower Lane", "the stairs are too narrow");
    create("harp", "Tower Lane").await?;
    diary.until("harp: try 1").await?;
    change("harp", "to", "Garden Row").await?;
    diary.until("drop the retry for harp").await?;
    diary.until("brings harp to Garden Row").await?;

    diary.heading("Retries run out: a hook is called, and on request the call is made again");
    roads.forbid("Dry Dock");
    create("aquarium", "Dry Dock").await?;
    diary.until("given up: aquarium").await?;
    for call in controller.given_up() {
        let (key, attempts) = (&call.key, call.attempts);
        diary.tell(
            Who::You,
            format_args!("find {key} among what was given up, after {attempts} call(s); again!"),
        );
        roads.clear("Dry Dock");
        controller.redrive(&call);
    }
    diary.until("brings aquarium to Dry Dock").await?;

    diary.heading("And the end of one");
    diary.tell(Who::You, "take book back");
    parcels.delete("book", &DeleteParams::default()).await?;
    diary.until("fetches book back").await?;
    match controller.pending_retries() {
        0 => Ok(()),
        pending => Err(format!("{pending} calls are still pending").into()),
    }
}
