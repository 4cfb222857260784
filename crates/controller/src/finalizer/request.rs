//! Requests for finalizers: sent once, and answered within limits of time and size.
//!
//! Not sent by kube's `Client::request`, which logs the whole body of an answer that does not
//! decode, reads bodies of any size, and waits for an answer without a limit.

use std::{convert::Infallible, time::Duration};

use http::{HeaderMap, Response, header::RETRY_AFTER};
use http_body_util::{BodyExt as _, Collected, Limited};
use kube::{
    Client,
    client::Body,
    core::{
        Status,
        response::{StatusCause, StatusDetails},
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Number;
use tokio::time::timeout;

/// The longest answer: ten times the largest object that etcd takes by default.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// The longest refusal. A `Status` is far shorter; a longer one is a page of a proxy.
const MAX_STATUS: usize = 64 * 1024;

/// The time for a request and its whole answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The longest wait that a server can ask for.
const MAX_RETRY_AFTER: u32 = 300;

#[derive(Debug, thiserror::Error)]
#[error("no whole answer within {TIMEOUT:?}")]
struct NoAnswer;

/// A `Status`, as far as it is used. Numbers of any size are read.
#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(default)]
    causes: Option<Vec<StatusCause>>,
    #[serde(default)]
    retry_after_seconds: Option<Number>,
}

/// Sends `request` once, and decodes its answer.
///
/// # Errors
///
/// [`kube::Error::Api`] if the server refuses, [`kube::Error::SerdeError`] if the answer does not
/// decode, [`kube::Error::Service`] if there is no whole answer in time, or it is too long.
pub(super) async fn send<T: DeserializeOwned>(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> Result<T, kube::Error> {
    let (head, body) = request.into_parts();
    let request = http::Request::from_parts(head, sent_once(body).await?);
    let (head, body) = timeout(TIMEOUT, async {
        let (head, body) = client.send(request).await?.into_parts();
        let limit = if head.status.is_success() {
            MAX_ANSWER
        } else {
            MAX_STATUS
        };
        let body = Limited::new(body, limit).collect().await;
        Ok::<_, kube::Error>((head, body.map(Collected::to_bytes)))
    })
    .await
    .map_err(|_| kube::Error::Service(Box::new(NoAnswer)))??;
    if !head.status.is_success() {
        let refusal = refusal(
            head.status.as_u16(),
            &head.headers,
            &body.unwrap_or_default(),
        );
        return Err(kube::Error::Api(Box::new(refusal)));
    }
    let body = body.map_err(kube::Error::Service)?;
    serde_json::from_slice(&body).map_err(|error| {
        // Its text may quote the object. serde_json reads the place back from the text.
        let (line, column) = (error.line(), error.column());
        let place = format!("the answer does not decode at line {line} column {column}");
        kube::Error::SerdeError(serde::de::Error::custom(place))
    })
}

/// A body that kube's client cannot clone.
///
/// kube's client repeats a request by itself when the answer is 429, 503 or 504, up to fifteen
/// times and after any wait that the server asks for, if it can clone the request's body. The
/// controller has its own retries. Bodies of answers cannot be cloned, so the body comes from a
/// client that answers with what it is sent.
///
/// # Errors
///
/// None that is known: no request is sent.
pub async fn sent_once(body: Vec<u8>) -> Result<Body, kube::Error> {
    let echo = tower::service_fn(|request: http::Request<Body>| async {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    });
    let echo = Client::new(echo, "default");
    let answer = echo.send(http::Request::new(Body::from(body))).await?;
    Ok(answer.into_body())
}

/// What an answer that is not a success says, without what may quote the object.
fn refusal(code: u16, headers: &HeaderMap, body: &[u8]) -> Status {
    let refusal: Refusal = serde_json::from_slice(body).unwrap_or_default();
    let (causes, in_body) = match refusal.details {
        Some(details) => (details.causes, details.retry_after_seconds),
        None => (None, None),
    };
    let causes = causes.into_iter().flatten().map(|cause| StatusCause {
        message: String::new(),
        ..cause
    });
    let in_header = headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok());
    let in_header = in_header.and_then(|it| it.trim().parse().ok());
    let quotes = code == 422 || code >= 500;
    Status {
        code,
        reason: refusal.reason.unwrap_or_default(),
        message: if quotes {
            String::new()
        } else {
            refusal.message.unwrap_or_default()
        },
        details: Some(StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: causes.collect(),
            retry_after_seconds: in_header.or(in_body).as_ref().map_or(0, bounded),
        }),
        ..Status::default()
    }
}

/// A wait that a server asks for, in seconds, but no longer than is allowed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is between 0 and the longest wait"
)]
fn bounded(seconds: &Number) -> u32 {
    let seconds = seconds.as_f64().unwrap_or_default();
    seconds.ceil().clamp(0.0, f64::from(MAX_RETRY_AFTER)) as u32
}
