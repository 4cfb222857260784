//! The responses of a webhook server, and their time limits.

use std::{collections::HashSet, net::IpAddr, num::NonZeroUsize, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};
use windlass_informer::log;

use super::{
    WebhookServer,
    metrics::WebhookMetrics,
    review::{Refused, failed, refuse},
};
use crate::{
    AdminLimits,
    admin::{Answer, Respond, RouteCall, Routes},
    log_limit::LogLimit,
};

/// Answers the requests of the API server.
pub(super) struct Responder {
    pub(super) routes: Routes,
    /// The paths of the routes that convert.
    pub(super) conversions: HashSet<String>,
    pub(super) metrics: WebhookMetrics,
    pub(super) call: RouteCall,
    /// The limit of log lines about requests that are no reviews.
    pub(super) refusals: LogLimit,
}

/// The default of the largest body of an `AdmissionReview` in bytes. It has two objects of 1.5 MiB, the
/// limit of etcd, and the API server writes each `<`, `>` and `&` with six bytes: 18 MiB, and the managed
/// fields.
const ADMISSION_BODY: NonZeroUsize = NonZeroUsize::new(20 * 1024 * 1024).expect("not zero");

/// The time limit of a conversion, for which the API server states no timeout and has none.
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout of a request that states none: the default of the API server.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeouts in seconds that a configuration can have. A client that is not the API server can state
/// others.
const STATED: std::ops::RangeInclusive<u64> = 1..=30;

/// How long before its timeout the API server has the response.
const MARGIN: Duration = Duration::from_secs(1);

// === impl Responder ===

impl Responder {
    /// The largest body of a request to a path: the limit that the user has set, or the default.
    fn body(&self, converts: bool) -> NonZeroUsize {
        let limit = self.call.limits.body;
        if converts || limit != WebhookServer::LIMITS.body {
            limit
        } else {
            ADMISSION_BODY
        }
    }
}

impl Respond for Responder {
    const SERVER: &'static str = "webhooks";

    const PACE: Duration = Duration::ZERO;

    fn limits(&self) -> AdminLimits {
        self.call.limits
    }

    /// Longer than the 90 s after which the API server closes an idle connection.
    fn idle_timeout(&self) -> Duration {
        Duration::from_secs(120)
    }

    fn drain_limit(&self) -> Duration {
        AdminLimits::WEBHOOKS_END
    }

    async fn answer(&self, _: IpAddr, request: Request<Incoming>) -> Answer {
        let began = Instant::now();
        let path = request.uri().path().to_owned();
        let Some(route) = self.routes.get(&path) else {
            return not_found(&self.routes).map(Full::new);
        };
        let converts = self.conversions.contains(&path);
        let mut call = self.call.clone();
        call.limits.body = self.body(converts);
        let unstated = if converts {
            CONVERSION_TIMEOUT
        } else {
            DEFAULT_TIMEOUT
        };
        let limit = time_limit(request.uri().query().unwrap_or_default(), unstated);
        let answer = timeout(limit, call.answer(&path, route, request)).await;
        let answer = answer.unwrap_or_else(|_| {
            log::warn!(path, ?limit, "a webhook did not answer in time");
            failed(&format!("{path} did not answer within {limit:?}")).map(Full::new)
        });
        let is_refused = answer.extensions().get::<Refused>().is_some();
        let code = answer.status().as_u16();
        if answer.status().is_client_error() && self.refusals.is_due() {
            log::warn!(path, code, "a webhook got a request that is no review");
        }
        (self.metrics).answered(&path, code, is_refused, began.elapsed());
        answer
    }
}

/// The time for a response to a request with this query, in which the API server states its timeout, in
/// whole seconds: `timeout=10s`. `unstated` is the timeout if it does not.
fn time_limit(query: &str, unstated: Duration) -> Duration {
    let stated = query.split('&').find_map(|it| it.strip_prefix("timeout="));
    let seconds = stated.and_then(|it| it.strip_suffix('s')?.parse::<u64>().ok());
    let clamped = seconds.map(|it| it.clamp(*STATED.start(), *STATED.end()));
    let timeout = clamped.map_or(unstated, Duration::from_secs);
    timeout.saturating_sub(MARGIN).max(timeout / 2)
}

pub(super) fn not_found(routes: &Routes) -> Response<Bytes> {
    let paths: Vec<_> = routes.paths().map(String::as_str).collect();
    let text = format!("not found; this port serves {}", paths.join(", "));
    refuse(StatusCode::NOT_FOUND, text)
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_TIMEOUT, time_limit};

    #[test]
    fn a_response_comes_before_the_timeout_of_the_api_server() {
        for (query, millis) in [
            ("timeout=10s", 9_000),
            ("a=b&timeout=30s", 29_000),
            ("timeout=1s", 500),
            ("", 9_000),
            ("timeout=1m0s", 9_000),
            // Not of the API server, whose configurations have 1 to 30 seconds.
            ("timeout=0s", 500),
            ("timeout=31s", 29_000),
            ("timeout=18446744073709551615s", 29_000),
            ("timeout=99999999999999999999s", 9_000),
        ] {
            let limit = time_limit(query, DEFAULT_TIMEOUT);
            assert_eq!(limit.as_millis(), millis, "{query}");
        }
    }
}
