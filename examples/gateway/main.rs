//! A gateway controller at work on the Gateway API's own examples.
//!
//! It loads the CRDs and the example manifests of the Gateway API, unchanged, into the
//! embedded API server, and runs a controller that says of classes, gateways and routes
//! whether they are as they should be: the conditions `Accepted`, `Programmed` and
//! `ResolvedRefs`, and how many routes are attached to each listener. It moves no traffic.
//!
//! ```text
//! cargo run --example gateway                       shows it, and ends by itself
//! cargo run --example gateway -- --serve            leaves it running, for kubectl
//! cargo run --example gateway -- --kubeconfig FILE  does it on a cluster
//! ```
//!
//! On a cluster, what it loaded stays; most of it goes with the namespaces that have the
//! label `windlass.rs/example=gateway`.
//!
//! To read it, begin with `judge.rs`, which knows what the Gateway API asks for and nothing
//! else; `plan.rs` turns that into writes, and `settle.rs` makes them, called by the
//! informers of `informers.rs`.

// What exists, and its conditions: the pure core.
mod api;
mod conditions;
mod judge;
mod plan;
mod snapshot;

// The controller around it.
mod informers;
mod settle;

// The world that it runs in.
mod assumed;
mod guides;
mod load;

// What one sees.
mod life;
mod report;
mod verify;

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
    guides::{Manifest, place},
    informers::Informers,
    life::Life,
    load::{Inventory, Loader, chain, read},
    settle::Settle,
    verify::Verification,
};

/// The name that upstream's examples give to their controller: their classes are ours.
const CONTROLLER: &str = "acme.io/gateway-controller";

/// A gateway controller at work on the Gateway API's own examples.
#[derive(Debug, Parser)]
struct Args {
    /// Leave it running, with a port for kubectl.
    #[arg(long, conflicts_with = "kubeconfig")]
    serve: bool,

    /// Do it on the cluster of this kubeconfig, instead of the embedded API server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Where it all happens.
struct Stage {
    loader: Loader,
    settle: Settle,
    manifests: Vec<Manifest>,
    inventory: Inventory,
}

type Anything = Box<dyn Error + Send + Sync>;

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

async fn run(args: Args) -> Result<(), Anything> {
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
    let settle = Settle::new(client, informers.clone(), CONTROLLER);
    let controller = InformerController::builder().name("gateway").build()?;
    informers.add_to(&controller, &settle)?;
    let operator = Operator::new();
    operator.add_controller(controller)?;

    let stage = Stage {
        loader,
        settle,
        manifests,
        inventory,
    };
    let stop = CancellationToken::new();
    let mut running = Box::pin(operator.run_until(stop.clone()));
    tokio::select! {
        // Without a stop it ends only if it cannot go on.
        ended = &mut running => ended?,
        shown = show(&stage) => shown?,
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

/// Loads the CRDs, what the examples take for granted, and the examples.
async fn load(client: Client) -> Result<(Loader, Vec<Manifest>, Inventory), Anything> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/data/gateway-api");
    let (loader, others) = Loader::install(client, read(&folder.join("crds"))?).await?;
    let examples = place(read(&folder.join("examples"))?);
    let assumed = assumed(&examples, CONTROLLER);

    let manifests = [others, assumed, examples].concat();
    let inventory = loader.load(&manifests).await;
    Ok((loader, manifests, inventory))
}

/// Shows what the controller says, what follows a change, and whether all is well.
async fn show(stage: &Stage) -> Result<(), Anything> {
    let Stage {
        loader,
        settle,
        manifests,
        inventory,
    } = stage;
    println!("{}", report::inventory(inventory));

    settle.settled().await?;
    let snapshot = settle.snapshot();
    println!("HTTPRoutes at gateways that are there:");
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

    verify(settle)?;

    println!("What follows a change of another kind:");
    let life = Life {
        loader,
        settle,
        manifests,
    };
    life.show().await?;
    finish(settle).await
}

/// Says how much was written, and whether all is well in the end.
async fn finish(settle: &Settle) -> Result<(), Anything> {
    settle.settled().await?;
    let statuses = settle.written().statuses;
    settle.settle().await?;
    let more = settle.written().statuses - statuses;
    println!("\n{statuses} statuses were written; one more look writes {more}.");
    println!("{}", verify(settle)?);
    Ok(())
}

/// Whether everything is as the Gateway API asks.
fn verify(settle: &Settle) -> Result<Verification, Anything> {
    let verification = Verification::of(&settle.snapshot(), CONTROLLER);
    if verification.faults.is_empty() {
        return Ok(verification);
    }
    Err(format!("not all is as the Gateway API asks\n{verification}").into())
}

/// Opens a port for kubectl, and says how to use it.
async fn serve(server: &ApiServer) -> Result<Listening, Anything> {
    let listening = server.listen(([127, 0, 0, 1], 0)).await?;
    let path = std::env::temp_dir().join("windlass-gateway.kubeconfig");
    std::fs::write(&path, listening.kubeconfig())?;
    println!("\nListening at {}; Ctrl-C ends it.", listening.url());
    println!("  export KUBECONFIG={}", path.display());
    println!("  kubectl get gateways,httproutes --all-namespaces");
    Ok(listening)
}
