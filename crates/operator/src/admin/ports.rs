//! The ports of an admin server, and the pages that each of them serves.

use std::sync::Arc;

use prometheus::{Registry, core::Collector};
use tokio::runtime::Handle;
use windlass_informer::is_host_simulated;

use super::{
    AdminServer, Subject,
    diagnostics::DiagnosticsPage,
    error::AdminError,
    listen::Listen,
    readiness::Readiness,
    responder::{PortResponder, Responder, Served},
    route_call::RouteCall,
    scrape::MetricsPage,
    serve::{Port, Serving},
    tls::Tls,
};

/// The port of the metrics.
#[derive(Debug)]
pub(super) enum MetricsPort {
    /// That of the other pages.
    Shared,
    Separate(Listen),
    /// That of the server, which serves no other page.
    Alone,
    None,
}

impl AdminServer {
    /// Starts the server.
    pub(crate) fn serve(
        self,
        subject: Subject,
        collectors: Vec<Box<dyn Collector>>,
    ) -> Result<Serving, AdminError> {
        if is_host_simulated() {
            return Ok(Serving::nothing());
        }
        let registry = match self.registry {
            Some(registry) => registry,
            None => registry_of(collectors)?,
        };
        let tls = self.tls.map(Tls::load).transpose()?.map(Arc::new);
        let diagnostics = (self.pages.has_diagnostics).then(|| DiagnosticsPage::new(&subject));
        let responder = Arc::new(Responder {
            pages: self.pages,
            diagnostics,
            readiness: Readiness::new(subject),
            metrics: MetricsPage::new(registry, self.authorizer),
            call: RouteCall {
                limits: self.limits,
                body_timeout: self.limits.read_timeout,
                operator_runtime: Handle::current(),
            },
        });
        let port = |listen, served, tls| Port {
            listen,
            tls,
            responder: PortResponder {
                responder: Arc::clone(&responder),
                served,
                details: self.details,
            },
        };
        let ports = match self.metrics {
            MetricsPort::Shared => vec![port(self.listen, Served::All, tls)],
            MetricsPort::Separate(metrics) => vec![
                port(self.listen, Served::Rest, None),
                port(metrics, Served::Metrics, tls),
            ],
            MetricsPort::Alone => vec![port(self.listen, Served::Metrics, tls)],
            MetricsPort::None => vec![port(self.listen, Served::Rest, tls)],
        };
        Serving::begin(ports)
    }
}

/// A registry with these collectors.
fn registry_of(collectors: Vec<Box<dyn Collector>>) -> Result<Registry, AdminError> {
    let registry = Registry::new();
    for collector in collectors {
        let registered = registry.register(collector);
        registered.map_err(|source| AdminError::Collectors { source })?;
    }
    Ok(registry)
}
