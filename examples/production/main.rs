//! An operator as a team deploys it: `examples/production/deploy` has its manifests.
//!
//! It greets each `ConfigMap` of its namespace that has the label `greeter.windlass.dev/greet=yes`:
//! it sets `data.greeting`. Each setting is an option of the command line, an environment variable, or
//! a key of a YAML file: `cargo run --example production -- --help` lists them. The manifests set
//! `POD_NAMESPACE`, the namespace of the objects and of the lease, and `POD_NAME`, the identity in the
//! lease. `RUST_LOG` says which log lines are written, by default `info`.

use std::{error::Error, path::PathBuf};

use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Config,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tracing_subscriber::EnvFilter;
use windlass::{
    Failure, Informer, InformerController, ListWatch, Outcome, Request, settings::Settings,
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

fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .init();
    let settings = match cli.config {
        Some(file) => cli.settings.over(&Settings::read(file)?),
        None => cli.settings,
    };
    // Ends the process although a blocking call hangs: a DNS lookup, or an exec plugin.
    windlass::operator::block_on(run(settings))?
}

async fn run(mut settings: Settings) -> Result<(), Box<dyn Error>> {
    let all_addresses = ([0, 0, 0, 0], 8080).into();
    settings.operator.admin_address.get_or_insert(all_addresses);
    let greeted = "greeter.windlass.dev/greet=yes".to_owned();
    settings.watch.labels.get_or_insert(greeted);

    // In a pod, the service account of the pod.
    let config = Config::infer().await?;
    let namespace = settings.operator.lease_namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let operator = settings.operator.builder(&config, NAME)?.build();
    // Sends writes only while this replica leads.
    let client = settings.operator.connect(&operator, config)?;
    operator.add_controller(greeter(Api::namespaced(client, &namespace), &settings)?)?;
    operator.run().await?;
    Ok(())
}

/// The controller that greets.
fn greeter(
    configs: Api<ConfigMap>,
    settings: &Settings,
) -> Result<InformerController, Box<dyn Error>> {
    let builder = InformerController::builder().name(NAME);
    let controller = settings
        .controller
        .apply_to_informer_controller(builder)
        .build()?;
    let watched = settings
        .watch
        .apply_to_list_watch(ListWatch::new(configs.clone()))?;
    let kind = controller.kind("configmaps")?;
    controller.add_informer(&kind, &Informer::new(watched))?;
    controller.add_reconciler(&kind, move |request: Request<ConfigMap>| {
        let configs = configs.clone();
        async move {
            let name = request.key().name();
            let greeting = format!("Hello, {name}!");
            let data = request.object().data.as_ref();
            if data.and_then(|data| data.get("greeting")) != Some(&greeting) {
                let patch = json!({
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "data": { "greeting": greeting },
                });
                let params = PatchParams::apply(NAME).force();
                configs.patch(name, &params, &Patch::Apply(patch)).await?;
            }
            Ok::<_, Failure>(Outcome::done())
        }
    })?;
    Ok(controller)
}
