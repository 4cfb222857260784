//! An operator of two kinds in the form of grafana-app-sdk: it keeps a ticket in an external tracker for
//! each `Issue`, and counts the open issues of each `Team`. `docs/from-grafana-app-sdk.md` explains it.
//!
//! `cargo run --example issues` starts an API server in this process, runs the operator on it, and plays
//! its user. `cargo test --example issues` tests it in virtual time.

use std::process::ExitCode;

use clap::Parser;
use kube::{Client, Config, CustomResourceExt as _};
use tokio_util::sync::CancellationToken;
use windlass::{kit::Kit, operator::block_on, prelude::*, settings::Settings};
use windlass_apiserver::ApiServer;

mod api;
mod tracker;

mod operator;

#[cfg(test)]
mod tests;

use api::{Issue, Team, TeamSpec, issue, phase};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The name of the lease and of the controller.
const NAME: &str = "issue-tracker";

/// Tracks issues.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    settings: Settings,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt().init();
    let ended = block_on(run(cli.settings)).map_err(Error::from).flatten();
    let Err(error) = ended else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {}", ErrorChain::new(&*error));
    ExitCode::FAILURE
}

async fn run(settings: Settings) -> Result<(), Error> {
    // On a cluster: `Config::infer().await?`.
    let server = ApiServer::new().listen(([127, 0, 0, 1], 0)).await?;
    let config = Config::new(server.url().parse()?);
    let user = Kit::connect(Client::try_from(config.clone())?);
    user.install(&Issue::crd()).await;
    user.install(&Team::crd()).await;

    let operator = settings.operator.builder(&config, NAME)?.build();
    // Sends writes only while this replica leads.
    let client = settings.operator.connect(&operator, config)?;
    let tracker = tracker::Tracker::default();
    operator.add_controller(operator::controller(&client, &settings, &tracker)?)?;
    // On a cluster: `operator.run().await?`, which returns after SIGTERM or SIGINT.
    let stop = CancellationToken::new();
    let (ended, ()) = tokio::join!(operator.run_until(stop.clone()), act(user, tracker, stop));
    Ok(ended?)
}

/// Plays the user, and then stops the operator.
async fn act(user: Kit, tracker: tracker::Tracker, stop: CancellationToken) {
    let _stopped_at_the_end = stop.drop_guard();
    user.create(&Team::new("blue", TeamSpec {})).await;
    user.create(&issue("bug", "")).await;
    user.expect::<Issue>("bug").matches(phase("Failed")).await;
    user.edit::<Issue>("bug", |it| it.spec.title = "Crash".into())
        .await;
    user.expect::<Issue>("bug").matches(phase("Open")).await;
    println!("user: the tickets are {:?}", tracker.lock().titles);
    user.delete::<Issue>("bug").await;
    user.expect_gone::<Issue>("bug").await;
}
