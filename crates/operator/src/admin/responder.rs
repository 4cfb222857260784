//! Answers a request with a page.

use std::{net::IpAddr, panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt as _, join};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::{runtime::Handle, task::JoinError, time::timeout};
use tokio_util::task::AbortOnDropHandle;
use windlass_informer::panic_message;

use super::{
    AdminLimits, Pages,
    check::ask,
    diagnostics::DiagnosticsPage,
    page::{self, Answer, Page},
    readiness::Readiness,
    route::ErasedRoute,
    scrape::MetricsPage,
};

/// The largest body of a request to a route, in bytes.
const MAX_BODY: usize = 1024 * 1024;

/// The client of one connection, and what it may see.
#[derive(Clone, Copy)]
pub(super) struct ClientAccess {
    pub(super) address: IpAddr,
    pub(super) served: Served,
    pub(super) has_details: bool,
}

/// The pages that a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    All,
    Metrics,
    /// All pages except the metrics.
    Rest,
}

/// Answers requests with pages. All connections share it.
pub(super) struct Responder {
    pub(super) pages: Pages,
    pub(super) diagnostics: Option<DiagnosticsPage>,
    pub(super) readiness: Readiness,
    pub(super) metrics: MetricsPage,
    pub(super) limits: AdminLimits,
    /// The runtime of the operator. The user's checks and routes run there, not on our thread.
    pub(super) users: Handle,
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
    pub(super) async fn answer(&self, access: ClientAccess, request: Request<Incoming>) -> Answer {
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
            ..
        } = &self.pages;
        let page = Page::at(path);
        if !served.has(page) {
            return page::not_found(served, routes.keys());
        }
        if let Some(page) = page {
            if !page::is_read(request.method()) {
                return page::method_not_allowed();
            }
            return match page {
                Page::Live => {
                    let mut lines = self.readiness.blocked();
                    lines.extend(ask(live, *check_timeout, &self.users).await);
                    page::health(&lines, has_details)
                }
                Page::Ready => {
                    let (checks, health) = join!(
                        ask(ready, *check_timeout, &self.users),
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
                    None => page::not_found(served, routes.keys()),
                },
                Page::Metrics => self.metrics.answer(request.headers(), address).await,
            };
        }
        let Some(route) = routes.get(path) else {
            return page::not_found(served, routes.keys());
        };
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, MAX_BODY).collect();
        let refused = match timeout(self.limits.read_timeout, body).await {
            Ok(Ok(body)) => {
                let request = Request::from_parts(parts, body.to_bytes());
                return self.route(path, route, request).await;
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => (
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a body has at most {MAX_BODY} bytes\n"),
            ),
            Ok(Err(_)) => (
                StatusCode::BAD_REQUEST,
                "the body of the request is incomplete\n".to_owned(),
            ),
            Err(_) => (
                StatusCode::REQUEST_TIMEOUT,
                format!(
                    "the body did not arrive within {:?}\n",
                    self.limits.read_timeout
                ),
            ),
        };
        page::text(refused.0, refused.1)
    }

    /// Calls a route of the user, on the runtime of the operator.
    async fn route(
        &self,
        path: &str,
        route: &Arc<dyn ErasedRoute>,
        request: Request<Bytes>,
    ) -> Answer {
        let answer = self.users.spawn(Arc::clone(route).answer(request));
        match AbortOnDropHandle::new(answer)
            .await
            .map_err(JoinError::try_into_panic)
        {
            Ok(answer) => answer.map(Full::new),
            Err(Ok(panic)) => page::panicked(path, &panic_message(panic)),
            Err(Err(_)) => {
                let mut answer = Response::new(Full::default());
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                answer
            }
        }
    }
}
