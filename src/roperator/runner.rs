//! Runs an operator.

use kube::Client;
use windlass_composite::CompositeBuildError;
use windlass_operator::{AddControllerError, AdminServer, Listen, Operator, OperatorError};

use super::{config::OperatorConfig, handler::Handler};

/// Why an operator ended.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum RunnerError {
    /// The configuration is invalid.
    Build(#[from] CompositeBuildError),
    /// The controller was not added.
    Add(#[from] AddControllerError),
    /// The operator failed.
    Operator(#[from] OperatorError),
}

/// Runs an operator, and serves `/health` and `/metrics` on all addresses, until SIGINT or SIGTERM.
///
/// # Errors
///
/// [`RunnerError`].
pub async fn run_operator(
    config: OperatorConfig,
    client: Client,
    handler: impl Handler,
) -> Result<(), RunnerError> {
    let builder = Operator::builder();
    let operator = match admin_server(&config) {
        Some(server) => builder.admin_server(server),
        None => builder,
    }
    .build();
    operator.add_controller(config.controller(client, handler)?)?;
    Ok(operator.run().await?)
}

/// The server of the pages that the configuration exposes.
fn admin_server(config: &OperatorConfig) -> Option<AdminServer> {
    let server = AdminServer::new(Listen::port(config.server_port));
    match (config.expose_health, config.expose_metrics) {
        (true, true) => Some(server),
        (true, false) => Some(server.without_metrics()),
        (false, true) => Some(server.metrics_only()),
        (false, false) => None,
    }
}
