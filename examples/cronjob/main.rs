//! An operator of cron jobs: it starts a `Job` at each time of a schedule.
//!
//! `cargo test --example cronjob` tests it in virtual time, and under faults. `cargo run --example
//! cronjob -- --print-crd` prints the definition of its kind, and without arguments it runs on the
//! cluster of your kubeconfig. `deploy/operator.yaml` has its manifests.

use std::{error::Error, net::Ipv6Addr, path::PathBuf, process::ExitCode};

use clap::Parser;
use kube::{Config, CustomResourceExt as _};
use tracing_subscriber::EnvFilter;
use windlass::{admin::Listen, operator::block_on, prelude::*, settings::Settings};

mod api;
mod schedule;

mod plan;

mod operator;
mod webhooks;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

/// Starts jobs at the times of a schedule.
#[derive(Parser)]
struct Cli {
    /// Prints the definition of the kind, and ends.
    #[arg(long)]
    print_crd: bool,

    /// The folder with `tls.crt` and `tls.key` for the webhooks [default: no webhooks].
    #[arg(long, env = "WEBHOOK_CERTIFICATES", value_name = "FOLDER")]
    webhook_certificates: Option<PathBuf>,

    /// The port of the webhooks.
    #[arg(long, env = "WEBHOOK_PORT", default_value_t = 9443)]
    webhook_port: u16,

    /// A YAML file with settings.
    #[arg(long, env = "OPERATOR_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    // A log of a cluster shows colors as control characters.
    log.with_ansi(false).init();
    let ended = block_on(run(cli)).map_err(Into::into).flatten();
    let Err(error) = ended else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {}", ErrorChain::new(&*error));
    ExitCode::FAILURE
}

async fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    if cli.print_crd {
        print!("{}", serde_yaml_ng::to_string(&api::CronJob::crd())?);
        return Ok(());
    }
    let file = cli.config.map(Settings::read).transpose()?;
    let mut settings = cli.settings.with_fallback(&file.unwrap_or_default())?;
    let config = Config::infer().await?;
    let admin = &mut settings.operator.admin_address;
    admin.get_or_insert((Ipv6Addr::UNSPECIFIED, 8080).into());

    let mut operator = settings.operator.builder(&config, operator::NAME)?;
    if let Some(folder) = cli.webhook_certificates {
        let listen = Listen::port(cli.webhook_port);
        operator = operator.webhook_server(webhooks::webhooks(listen, &folder)?);
    }
    let operator = operator.build();
    let client = settings.operator.connect(&operator, config)?;
    // The selectors of the settings are those of cron jobs; their jobs have other labels.
    let jobs = match &settings.watch.namespaces {
        Some(namespaces) => Watch::in_namespaces(namespaces),
        None => Watch::all(),
    };
    let builder = operator::builder(client, settings.watch.watch()?);
    let mut builder = settings.controller.apply(builder)?;
    let reconciler = operator::CronJobs::new(&mut builder, jobs);
    operator.add_controller(builder.build(reconciler)?)?;
    operator.run().await?;
    Ok(())
}
