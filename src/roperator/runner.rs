//! Runs an operator.

use std::{error::Error, fmt};

use kube::Client;
use windlass_composite::CompositeBuildError;
use windlass_operator::{AddControllerError, AdminServer, Operator, OperatorError};

use super::{config::OperatorConfig, handler::Handler};

/// Why an operator ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunnerError {
    /// The configuration is invalid.
    Build(CompositeBuildError),
    /// The controller was not added.
    Add(AddControllerError),
    /// The operator failed.
    Operator(OperatorError),
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
    let controller = config.controller(client, handler);
    let controller = controller.map_err(RunnerError::Build)?;
    operator
        .add_controller(controller)
        .map_err(RunnerError::Add)?;
    operator.run().await.map_err(RunnerError::Operator)
}

/// The server of the pages that the configuration exposes. A page that it does not expose is on a
/// random port of the loopback address.
fn admin_server(config: &OperatorConfig) -> Option<AdminServer> {
    const HIDDEN: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
    let exposed: ([u8; 4], u16) = ([0; 4], config.server_port);
    match (config.expose_health, config.expose_metrics) {
        (false, false) => None,
        (true, true) => Some(AdminServer::new(exposed)),
        (true, false) => Some(AdminServer::new(exposed).metrics_on(HIDDEN)),
        (false, true) => Some(AdminServer::new(HIDDEN).metrics_on(exposed)),
    }
}

impl fmt::Display for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::Add(error) => error.fmt(f),
            Self::Operator(error) => error.fmt(f),
        }
    }
}

impl Error for RunnerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Build(error) => error.source(),
            Self::Add(error) => error.source(),
            Self::Operator(error) => error.source(),
        }
    }
}
