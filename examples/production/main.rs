//! An operator as a team deploys it: `examples/production/deploy` has its manifests.
//!
//! It greets each `ConfigMap` of its namespace that has the label `greeter.windlass.dev/greet=yes`:
//! it sets `data.greeting`. Each setting is an option of the command line, an environment variable, or
//! a key of a YAML file: `cargo run --example production -- --help` lists them. The manifests set
//! `POD_NAMESPACE`, the namespace of the objects and, unless it is set, of the lease, and `POD_NAME`, the identity in the
//! lease. `RUST_LOG` says which log lines are written, by default `info`.

use std::{error::Error, net::Ipv6Addr, path::PathBuf, process::ExitCode};

use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tracing_subscriber::EnvFilter;
use windlass::{
    Context, Controller, ErrorChain, Failure, Outcome,
    operator::block_on,
    settings::{OperatorSettings, Settings},
};

/// The name of the lease, of the controller, and of the field manager.
const NAME: &str = "greeter";

/// Greets config maps.
#[derive(Parser)]
struct Cli {
    /// A YAML file with settings, which the command line and the environment override.
    #[arg(long, env = "OPERATOR_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .init();
    // Ends the process although a blocking call hangs: a DNS lookup, or an exec plugin.
    let ended = block_on(run(cli)).map_err(Into::into).flatten();
    let Err(error) = ended else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {}", ErrorChain::new(&*error));
    ExitCode::FAILURE
}

async fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    let file = cli.config.map(Settings::read).transpose()?;
    let mut settings = cli.settings.with_fallback(&file.unwrap_or_default())?;
    // In a pod, the service account of the pod.
    let config = Config::infer().await?;
    let operator = &mut settings.operator;
    operator
        .admin_address
        .get_or_insert((Ipv6Addr::UNSPECIFIED, 8080).into());
    let watch = &mut settings.watch;
    watch
        .namespaces
        .get_or_insert(vec![OperatorSettings::pod_namespace(&config)]);
    watch
        .label_selector
        .get_or_insert("greeter.windlass.dev/greet=yes".to_owned());

    let operator = settings.operator.builder(&config, NAME)?.build();
    // Sends writes only while this replica leads.
    let client = settings.operator.connect(&operator, config)?;
    operator.add_controller(greeter(client, &settings)?)?;
    operator.run().await?;
    Ok(())
}

/// The controller that greets.
fn greeter(client: Client, settings: &Settings) -> Result<Controller<ConfigMap>, Box<dyn Error>> {
    let mut watch = settings.watch.watch::<ConfigMap>()?;
    if let Some(shard) = settings.operator.shard()? {
        watch = watch.shard(shard);
    }
    let builder = Controller::builder(client, watch).name(NAME);
    let builder = settings.controller.apply(builder)?;
    Ok(builder.build(greet)?)
}

async fn greet(cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
    let name = cx.key().name();
    let greeting = format!("Hello, {name}!");
    let data = cx.object().data.as_ref();
    if data.and_then(|data| data.get("greeting")) != Some(&greeting) {
        let patch = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": { "greeting": greeting },
        });
        let namespace = cx.key().namespace().unwrap_or_default();
        let configs = Api::<ConfigMap>::namespaced(cx.client(), namespace);
        let params = PatchParams::apply(NAME).force();
        configs.patch(name, &params, &Patch::Apply(patch)).await?;
    }
    Ok(Outcome::done())
}
