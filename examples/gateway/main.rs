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

use std::{error::Error, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio_util::sync::CancellationToken;
use windlass::{InformerController, Operator, Reconciler};
use windlass_apiserver::{ApiServer, Listening};

use crate::{
    api::{GatewayClass, RouteKind},
    assumed::assumed,
    guides::{Manifest, place},
    informers::Informers,
    load::{Inventory, Loader, chain, read},
    snapshot::Snapshot,
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
    /// The loaded manifests, to restore objects.
    manifests: Vec<Manifest>,
    inventory: Inventory,
}

/// The timeout of each wait; enough for a slow cluster.
const TIMEOUT: Duration = Duration::from_secs(30);

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

    let informers = Informers::new(&client);
    let setup = Setup::load(client, &informers).await?;
    let operator = operator(&informers, setup.writer.clone())?;
    let stop = CancellationToken::new();
    let mut running = Box::pin(operator.run_until(stop.clone()));
    tokio::select! {
        // The operator was not stopped, so it ends only after an error.
        ended = &mut running => ended?,
        shown = setup.show() => shown?,
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

/// Builds the operator: `reconciler` is called for the events of all informers.
fn operator(
    informers: &Informers,
    reconciler: impl Reconciler<GatewayClass>,
) -> Result<Operator, BoxError> {
    let controller = InformerController::builder().name("gateway").build()?;
    informers.add_to(&controller, reconciler)?;
    let operator = Operator::new();
    operator.add_controller(controller)?;
    Ok(operator)
}

/// The folder of the upstream manifests.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/data/gateway-api")
}

/// Checks the statuses against the rules of the Gateway API.
fn verify(snapshot: &Snapshot) -> Result<Verification, BoxError> {
    let verification = Verification::of(snapshot, CONTROLLER);
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

// === impl Setup ===

impl Setup {
    /// Loads the CRDs, the objects that the examples assume, and the examples.
    async fn load(client: Client, informers: &Informers) -> Result<Self, BoxError> {
        let folder = folder();
        let (loader, others) = Loader::install(client.clone(), read(&folder.join("crds"))?).await?;
        let examples = place(read(&folder.join("examples"))?);
        let assumed = assumed(&examples, CONTROLLER);

        let manifests = [others, assumed, examples].concat();
        Ok(Self {
            inventory: loader.load(&manifests).await,
            writer: StatusWriter::new(client, informers.clone(), CONTROLLER),
            loader,
            manifests,
        })
    }

    /// Prints the written statuses, changes some objects, and verifies the result.
    async fn show(&self) -> Result<(), BoxError> {
        println!("{}", report::inventory(&self.inventory));

        self.writer.wait_until_written().await?;
        let snapshot = self.writer.snapshot();
        let is_http = |kind| kind == RouteKind::Http;
        println!("HTTPRoutes with an existing gateway:");
        println!("{}", report::routes(&snapshot, CONTROLLER, is_http));
        println!("Routes of other kinds:");
        let others = report::routes(&snapshot, CONTROLLER, |kind| !is_http(kind));
        println!("{others}");
        println!("Gateways:");
        println!("{}", report::gateways(&snapshot));
        verify(&snapshot)?;

        println!("Status changes after a change of another kind:");
        self.change().await?;

        self.writer.wait_until_written().await?;
        let applied = self.writer.written().writes;
        _ = self.writer.write_all().await?;
        let more = self.writer.written().writes - applied;
        println!(
            "\n{applied} statuses and services were applied; one more reconcile applies {more}."
        );
        println!("{}", verify(&self.writer.snapshot())?);
        Ok(())
    }
}
