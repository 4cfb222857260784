//! A Gateway API controller that runs on the upstream example manifests.
//!
//! It loads the CRDs and the example manifests of the Gateway API, unchanged, into the embedded API
//! server. Then it runs a controller that writes the status of classes, gateways and routes: the
//! conditions `Accepted`, `Programmed` and `ResolvedRefs`, and the number of routes attached to each
//! listener. It applies a service for each gateway, which the cluster deletes with the gateway. It
//! has no data plane.
//!
//! ```text
//! cargo run --example gateway                       prints the statuses, and exits
//! cargo run --example gateway -- --serve            keeps running, for kubectl
//! cargo run --example gateway -- --kubeconfig FILE  runs on your cluster
//! ```
//!
//! On a cluster, the loaded objects are not removed at the end. Delete the namespaces with the label
//! `windlass.rs/example=gateway` to remove most of them.
//!
//! To read the source, begin with `judge.rs`: it computes the conditions by the rules of the Gateway
//! API. `plan.rs` computes the required writes, `status_writer.rs` sends them, and `informers.rs`
//! connects the reconciler with the informers.

// The pure core: objects, and the computation of their conditions.
mod api;
mod conditions;
mod judge;
mod plan;
mod snapshot;

// The controller around it.
mod informers;
mod status_writer;

// The test environment: manifests and their loading.
mod assumed;
mod guides;
mod load;

// The printed output and its verification.
mod changes;
mod report;
mod verify;

// The controller under every fault.
#[cfg(test)]
mod simulation;

use std::{error::Error, path::PathBuf, process::ExitCode};

use clap::Parser;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio_util::sync::CancellationToken;
use windlass::{InformerController, Operator};
use windlass_apiserver::{ApiServer, Listening};

use crate::{
    api::RouteKind,
    assumed::assumed,
    changes::Changes,
    guides::{Manifest, place},
    informers::{Informers, StatusReconciler},
    load::{Inventory, Loader, chain, read},
    status_writer::StatusWriter,
    verify::Verification,
};

/// The controller name in the upstream examples, so that this controller handles their classes.
const CONTROLLER: &str = "acme.io/gateway-controller";

/// A Gateway API controller that runs on the upstream example manifests.
#[derive(Debug, Parser)]
struct Args {
    /// Keep running, with a port for kubectl.
    #[arg(long, conflicts_with = "kubeconfig")]
    serve: bool,

    /// Run on the cluster of this kubeconfig, instead of the embedded API server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// The parts that the output needs.
struct Setup {
    loader: Loader,
    writer: StatusWriter,
    manifests: Vec<Manifest>,
    inventory: Inventory,
}

type BoxError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateway: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), BoxError> {
    let server = ApiServer::new();
    let client = match &args.kubeconfig {
        None => server.client(),
        Some(path) => {
            let config = Kubeconfig::read_from(path)?;
            let config =
                Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
            Client::try_from(config)?
        }
    };

    let (loader, manifests, inventory) = load(client.clone()).await?;
    let informers = Informers::new(&client);
    let writer = StatusWriter::new(client, informers.clone(), CONTROLLER);
    let operator = operator(&informers, &writer)?;

    let setup = Setup {
        loader,
        writer,
        manifests,
        inventory,
    };
    let stop = CancellationToken::new();
    let mut running = Box::pin(operator.run_until(stop.clone()));
    tokio::select! {
        // The operator was not stopped, so it ends only after an error.
        ended = &mut running => ended?,
        shown = show(&setup) => shown?,
    }
    if args.serve {
        let listening = serve(&server).await?;
        tokio::select! {
            ended = &mut running => ended?,
            interrupted = tokio::signal::ctrl_c() => interrupted?,
        }
        listening.stop().await;
    }
    stop.cancel();
    running.await?;
    Ok(())
}

/// Builds the operator: `reconciler` is called for each event of each informer.
fn operator<R: StatusReconciler>(
    informers: &Informers,
    reconciler: &R,
) -> Result<Operator, BoxError> {
    let controller = InformerController::builder().name("gateway").build()?;
    informers.add_to(&controller, reconciler)?;
    let operator = Operator::new();
    operator.add_controller(controller)?;
    Ok(operator)
}

/// Loads the CRDs, the objects that the examples assume, and the examples.
async fn load(client: Client) -> Result<(Loader, Vec<Manifest>, Inventory), BoxError> {
    let folder = folder();
    let (loader, others) = Loader::install(client, read(&folder.join("crds"))?).await?;
    let examples = place(read(&folder.join("examples"))?);
    let assumed = assumed(&examples, CONTROLLER);

    let manifests = [others, assumed, examples].concat();
    let inventory = loader.load(&manifests).await;
    Ok((loader, manifests, inventory))
}

/// The folder of the upstream manifests.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/data/gateway-api")
}

/// Prints the written statuses, changes some objects, and verifies the result.
async fn show(setup: &Setup) -> Result<(), BoxError> {
    let Setup {
        loader,
        writer,
        manifests,
        inventory,
    } = setup;
    println!("{}", report::inventory(inventory));

    writer.wait_until_written().await?;
    let snapshot = writer.snapshot();
    println!("HTTPRoutes with an existing gateway:");
    println!(
        "{}",
        report::routes(&snapshot, CONTROLLER, |kind| kind == RouteKind::Http)
    );
    println!("Routes of other kinds:");
    println!(
        "{}",
        report::routes(&snapshot, CONTROLLER, |kind| kind != RouteKind::Http)
    );
    println!("Gateways:");
    println!("{}", report::gateways(&snapshot));

    verify(writer)?;

    println!("Status changes after a change of another kind:");
    let changes = Changes {
        loader,
        writer,
        manifests,
    };
    changes.show().await?;
    finish(writer).await
}

/// Prints the number of writes and the result of the verification.
async fn finish(writer: &StatusWriter) -> Result<(), BoxError> {
    writer.wait_until_written().await?;
    let applied = writer.written().writes;
    _ = writer.write_all().await?;
    let more = writer.written().writes - applied;
    println!("\n{applied} statuses and services were applied; one more reconcile applies {more}.");
    println!("{}", verify(writer)?);
    Ok(())
}

/// Checks the statuses against the rules of the Gateway API.
fn verify(writer: &StatusWriter) -> Result<Verification, BoxError> {
    let verification = Verification::of(&writer.snapshot(), CONTROLLER);
    if verification.faults.is_empty() {
        return Ok(verification);
    }
    Err(format!("some statuses do not follow the Gateway API\n{verification}").into())
}

/// Opens a port for kubectl, and prints how to use it.
async fn serve(server: &ApiServer) -> Result<Listening, BoxError> {
    let listening = server.listen(([127, 0, 0, 1], 0)).await?;
    let path = std::env::temp_dir().join("windlass-gateway.kubeconfig");
    std::fs::write(&path, listening.kubeconfig())?;
    println!("\nListening at {}. Press Ctrl-C to stop.", listening.url());
    println!("  export KUBECONFIG={}", path.display());
    println!("  kubectl get gateways,httproutes --all-namespaces");
    Ok(listening)
}
