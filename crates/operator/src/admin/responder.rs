//! Answers a request with a page.

use std::{net::IpAddr, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt as _, join};
use http::Request;
use hyper::body::Incoming;
use windlass_informer::panic_message;

use super::{
    AdminLimits, HealthDetails, Pages, Routes,
    check::ask,
    diagnostics::DiagnosticsPage,
    page::{self, Answer, Page},
    readiness::Readiness,
    route_call::RouteCall,
    scrape::MetricsPage,
    serve::Respond,
};

/// Answers the requests of one port of an admin server.
pub(super) struct PortResponder {
    pub(super) responder: Arc<Responder>,
    pub(super) served: Served,
    pub(super) details: HealthDetails,
}

/// The client of one connection, and what it may see.
#[derive(Clone, Copy)]
struct ClientAccess {
    address: IpAddr,
    served: Served,
    has_details: bool,
}

/// The pages that a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    All,
    Metrics,
    /// All pages except the metrics.
    Rest,
}

/// Answers requests with pages. All ports share it.
pub(super) struct Responder {
    pub(super) pages: Pages,
    pub(super) diagnostics: Option<DiagnosticsPage>,
    pub(super) readiness: Readiness,
    pub(super) metrics: MetricsPage,
    /// The user's checks and routes run on the runtime of the operator, not on our thread.
    pub(super) call: RouteCall,
}

// === impl PortResponder ===

impl Respond for PortResponder {
    const SERVER: &'static str = "admin";

    /// Probes and scrapes never wait for it; a client that pipelines requests does.
    const PACE: Duration = Duration::from_millis(250);

    fn limits(&self) -> AdminLimits {
        self.responder.call.limits
    }

    fn idle_timeout(&self) -> Duration {
        self.limits().read_timeout
    }

    fn drain_limit(&self) -> Duration {
        self.limits().write_timeout
    }

    async fn answer(&self, client: IpAddr, request: Request<Incoming>) -> Answer {
        let access = ClientAccess {
            address: client,
            served: self.served,
            has_details: self.details.are_for(client),
        };
        self.responder.answer(access, request).await
    }
}

// === impl Served ===

impl Served {
    fn has(self, page: Option<Page>) -> bool {
        match self {
            Self::All => true,
            Self::Metrics => page == Some(Page::Metrics),
            Self::Rest => page != Some(Page::Metrics),
        }
    }
}

// === impl Responder ===

impl Responder {
    async fn answer(&self, access: ClientAccess, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let answer = AssertUnwindSafe(self.page(access, &path, request)).catch_unwind();
        (answer.await).unwrap_or_else(|panic| page::panicked(&path, &panic_message(panic)))
    }

    async fn page(&self, access: ClientAccess, path: &str, request: Request<Incoming>) -> Answer {
        let ClientAccess {
            address,
            served,
            has_details,
        } = access;
        let Pages {
            live,
            ready,
            check_timeout,
            routes,
            metrics_routes,
            ..
        } = &self.pages;
        if served != Served::Rest
            && let Some(route) = metrics_routes.get(path)
        {
            return match self.metrics.refusal(&request, address).await {
                Some(refusal) => refusal,
                None => self.call.answer(path, route, request).await,
            };
        }
        let of_port = [
            (served != Served::Metrics).then_some(routes),
            (served != Served::Rest && !self.metrics.is_authorized()).then_some(metrics_routes),
        ];
        let not_found = || {
            let paths = of_port.into_iter().flatten().flat_map(Routes::paths);
            page::not_found(served, paths)
        };
        let page = Page::at(path);
        if !served.has(page) {
            return not_found();
        }
        if let Some(page) = page {
            if !page::is_read(request.method()) {
                return page::method_not_allowed();
            }
            return match page {
                Page::Live => {
                    let mut lines = self.readiness.blocked();
                    lines.extend(ask(live, *check_timeout, &self.call.operator_runtime).await);
                    page::health(&lines, has_details)
                }
                Page::Ready => {
                    let (checks, health) = join!(
                        ask(ready, *check_timeout, &self.call.operator_runtime),
                        self.readiness.health(*check_timeout),
                    );
                    // Reads the state after these, which take time, so that it is current.
                    let mut lines = self.readiness.lines(health, *check_timeout).await;
                    lines.extend(checks);
                    page::health(&lines, has_details)
                }
                Page::Diagnostics => match &self.diagnostics {
                    Some(diagnostics) if has_details => page::diagnostics(diagnostics.get().await),
                    Some(_) => page::no_details(),
                    None => not_found(),
                },
                Page::Metrics => self.metrics.answer(&request, address).await,
            };
        }
        let Some(route) = routes.get(path) else {
            return not_found();
        };
        self.call.answer(path, route, request).await
    }
}
