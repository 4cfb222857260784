//! Reads reviews, the requests to webhooks, and writes their responses.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Marks a response that denies a request, or that says that a conversion failed.
#[derive(Clone, Copy)]
pub(super) struct Refused;

/// A review without its content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
}

/// Returns the field `request` of a review of this kind and version. The error is the response to a
/// request that is no such review: a mistake of the configuration or of the client.
///
/// Objects stay text: a [`serde_json::Value`] takes up to 80 times its text, and has at most 128 levels.
pub(super) fn read<'a, R: Deserialize<'a>>(
    request: &'a Request<Bytes>,
    kind: &str,
    version: &str,
) -> Result<R, Box<Response<Bytes>>> {
    if request.method() != Method::POST {
        let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "only POST is allowed");
        let allow = header::HeaderValue::from_static("POST");
        response.headers_mut().insert(header::ALLOW, allow);
        return Err(response.into());
    }
    let media = request.headers().get(header::CONTENT_TYPE);
    let media = media.and_then(|media| media.to_str().ok());
    let media = media.and_then(|media| media.split(';').next());
    if !media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json")) {
        let text = "the content type must be application/json";
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into());
    }
    let bad = |text: String| Box::new(refuse(StatusCode::BAD_REQUEST, text));
    let review: Review<'_> = serde_json::from_slice(request.body()).map_err(|error| {
        let what = if error.is_data() {
            format!("a review of kind {kind}")
        } else {
            "valid JSON".to_owned()
        };
        bad(format!("the body is not {what}: {error}"))
    })?;
    if review.kind != kind {
        return Err(bad(format!("the body is not a review of kind {kind}")));
    }
    if review.api_version != version {
        let text = format!(
            "only {version} is supported; set the review versions of the webhook to [\"v1\"]"
        );
        return Err(bad(text));
    }
    let Some(request) = review.request else {
        return Err(bad(format!("the {kind} has no request")));
    };
    serde_json::from_str(request.get()).map_err(|error| {
        bad(format!(
            "the request of the review does not decode: {error}"
        ))
    })
}

/// The response with this review.
pub(super) fn answer(review: &impl Serialize, is_refused: bool) -> Response<Bytes> {
    let body = match serde_json::to_vec(review) {
        Ok(body) => body,
        Err(error) => return failed(&format!("the response cannot be encoded: {error}")),
    };
    let mut response = Response::new(Bytes::from(body));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    if is_refused {
        response.extensions_mut().insert(Refused);
    }
    response
}

/// The response if there is no decision. The API server then acts by the `failurePolicy` of the
/// webhook. It shows the text to its client only with this status.
pub(super) fn failed(text: &str) -> Response<Bytes> {
    refuse(StatusCode::INTERNAL_SERVER_ERROR, text)
}

pub(super) fn refuse(status: StatusCode, text: impl Into<String>) -> Response<Bytes> {
    let mut text = text.into();
    text.push('\n');
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
