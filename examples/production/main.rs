//! An operator as a team deploys it: `examples/production/deploy` has its manifests.
//!
//! It greets each `ConfigMap` of its namespace that has the label `greeter.windlass.dev/greet=yes`:
//! it sets `data.greeting`. The configuration comes from the environment:
//!
//! | variable | meaning | default |
//! |--|--|--|
//! | `POD_NAMESPACE` | the namespace of the objects and of the lease | required |
//! | `POD_NAME` | the identity in the lease | a random one |
//! | `ADMIN_ADDRESS` | where health and metrics are served | `0.0.0.0:8080` |
//! | `RUST_LOG` | which log lines are written | `info` |

use std::{env, error::Error, net::SocketAddr};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Config,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tracing_subscriber::EnvFilter;
use windlass::{
    AdminServer, Failure, Informer, InformerController, LeaderElection, ListWatch, Operator,
    Outcome, Request,
};

/// The name of the lease, of the controller, and of the field manager.
const NAME: &str = "greeter";

fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .init();
    // Ends the process although a blocking call hangs: a DNS lookup, or an exec plugin.
    windlass::operator::block_on(run())?
}

async fn run() -> Result<(), Box<dyn Error>> {
    let namespace = env::var("POD_NAMESPACE").map_err(|error| format!("POD_NAMESPACE: {error}"))?;
    let admin = env::var("ADMIN_ADDRESS").unwrap_or_else(|_| "0.0.0.0:8080".to_owned());
    let admin: SocketAddr = admin
        .parse()
        .map_err(|error| format!("ADMIN_ADDRESS: {error}"))?;

    // In a pod, the service account of the pod.
    let config = Config::infer().await?;
    let mut election = LeaderElection::builder(config.clone(), &*namespace, NAME);
    if let Ok(pod) = env::var("POD_NAME") {
        election = election.identity(pod);
    }
    let operator = Operator::builder()
        .leader_election(election.build()?)
        .admin_server(AdminServer::new(admin))
        .build();
    // Sends writes only while this replica leads.
    let client = operator.connect(config)?;
    operator.add_controller(greeter(Api::namespaced(client, &namespace))?)?;
    operator.run().await?;
    Ok(())
}

/// The controller that greets.
fn greeter(configs: Api<ConfigMap>) -> Result<InformerController, Box<dyn Error>> {
    let controller = InformerController::builder().name(NAME).build()?;
    let watched = ListWatch::new(configs.clone()).labels("greeter.windlass.dev/greet=yes")?;
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
