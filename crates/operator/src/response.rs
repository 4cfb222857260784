//! Sends requests to the API server, and reads the responses with a limit.
//!
//! It does not use kube's `Api`, which logs the complete body of a response that it cannot decode,
//! and reads a body of any length. No part of a body is in an error or a log message.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, Collected, Limited};
use kube::{Client, core::Status};
use serde::de::{DeserializeOwned, Error as _};
use windlass_controller::sent_once;

/// The largest body of a successful response, in bytes. By default etcd stores no object of more
/// than 1.5 MiB.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// The largest body of any other response, in bytes. A `Status` is far shorter; a longer body is a
/// page of a proxy.
const MAX_STATUS: usize = 64 * 1024;

/// The response to one request.
pub(crate) struct Response {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// A response that is not a success.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The HTTP status code, also if the body names another one.
    pub(crate) code: u16,
    /// The message of the `Status`, in full. Empty if the body is not a `Status`.
    pub(crate) message: String,
    /// The time for which the server asks the client to wait.
    pub(crate) retry_after: Option<Duration>,
}

/// Sends `request` once, and reads the response.
///
/// # Errors
///
/// If the connection fails, or the body of a successful response is longer than 3 MiB.
pub(crate) async fn send(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> Result<Response, kube::Error> {
    let (head, body) = request.into_parts();
    // kube's own retries would wait within our timeouts.
    let request = http::Request::from_parts(head, sent_once(body).await?);
    let response = client.send(request).await?;
    let (parts, body) = response.into_parts();
    let body = if parts.status.is_success() {
        let body = Limited::new(body, MAX_BODY).collect().await;
        body.map_err(kube::Error::Service)?.to_bytes()
    } else {
        let body = Limited::new(body, MAX_STATUS).collect().await;
        body.map(Collected::to_bytes).unwrap_or_default()
    };
    Ok(Response {
        status: parts.status,
        headers: parts.headers,
        body,
    })
}

// === impl Response ===

impl Response {
    /// What the server refused, if the response is not a success.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        if self.status.is_success() {
            return None;
        }
        let status: Status = serde_json::from_slice(&self.body).unwrap_or_default();
        let in_body = status.details.map(|it| it.retry_after_seconds.into());
        let seconds = seconds(&self.headers).or(in_body);
        Some(Refusal {
            code: self.status.as_u16(),
            message: status.message,
            retry_after: seconds.map(Duration::from_secs),
        })
    }

    /// Decodes the body.
    ///
    /// # Errors
    ///
    /// [`kube::Error::SerdeError`] with the position of the error, and no text of the body.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, kube::Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // serde_json parses the position in this text.
            let (line, column) = (error.line(), error.column());
            let text = format!("the body does not decode at line {line} column {column}");
            kube::Error::SerdeError(serde_json::Error::custom(text))
        })
    }
}

/// The seconds of a `Retry-After` header. API servers do not send its form with a date.
fn seconds(headers: &HeaderMap) -> Option<u64> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if seconds.is_empty() || !seconds.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(seconds.parse().unwrap_or(u64::MAX))
}
