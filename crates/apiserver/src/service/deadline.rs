//! The parameter `timeout` of requests: how long a request may take.

use std::future::Future;
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;

use super::verb::Verb;
use crate::status::Status;
use crate::wire::{Query, ResourcePath, Target, parse_duration};

/// The subresources whose requests have no timeout.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Returns the timeout of a request; `None` if it has none. A watch and a stream of a container ignore
/// the parameter.
///
/// # Errors
///
/// 400 if it is not a duration.
pub(super) fn of(parts: &Parts, target: &Target) -> Result<Option<Duration>, Status> {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let text = query.get("timeout");
    if text.is_empty() || is_long_running(parts, target, &query) {
        return Ok(None);
    }
    let timeout = parse_duration(text).map_err(|why| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - {why}"
        ))
    })?;
    Ok(Some(timeout).filter(|timeout| !timeout.is_zero()))
}

fn is_long_running(parts: &Parts, target: &Target, query: &Query) -> bool {
    let Target::Resource(path) = target else {
        return false;
    };
    let ResourcePath { subresource, .. } = path;
    let subresource = subresource.as_deref().unwrap_or_default();
    LONG_RUNNING.contains(&subresource) || Verb::of(&parts.method, path, query) == Some(Verb::Watch)
}

/// Waits for `response`, but not longer than `timeout`.
///
/// # Errors
///
/// Those of `response`, and 504 after the timeout.
pub(super) async fn within<T>(
    timeout: Option<Duration>,
    response: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let Some(timeout) = timeout else {
        return response.await;
    };
    let response = tokio::time::timeout(timeout, response).await;
    response.unwrap_or_else(|_| {
        let message = "Timeout: request did not complete within the allotted timeout";
        Err(Status::generic(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            message,
        ))
    })
}
