//! Requests that are sent once, and their responses within limits of size and time.
//!
//! For the crates of the workspace. kube's `Api` and `Client::request` repeat a request up to
//! fifteen times, after any wait that the server demands; they read a body of any length; and they
//! log the complete body of a response that does not decode. Here a request is sent once, a body is
//! limited, and no part of a successful response is in an error.

#![doc(hidden)]

use std::{borrow::Cow, convert::Infallible, fmt::Write as _, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Response, header};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, client::Body, core::response::StatusCause};
use serde::{
    Deserialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Number, Value};
use tokio::time::{Instant, timeout};

use crate::{DecodeError, panics};

/// The largest body of any other response, in bytes. A `Status` is shorter; a longer body is a page
/// of a proxy.
const MAX_STATUS: usize = 64 * 1024;

/// The limits of one response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseLimits {
    /// The time from the start of the request to the end of its response.
    pub time: Duration,
    /// The largest body of a successful response, in bytes.
    pub bytes: usize,
}

/// Why a request failed.
#[derive(Debug)]
pub enum RequestError {
    /// The response is not a success.
    Status(ServerStatus),
    /// The connection failed, or the body is too long.
    Connection(kube::Error),
    /// There was no complete response in time.
    TimedOut,
}

/// The parts of an error response or error event that matter.
///
/// The texts are those of the server, of any length up to 64 KiB, and may quote an object.
#[derive(Debug, Default)]
pub struct ServerStatus {
    /// The HTTP status code. Of an error event, the code in the `Status`.
    pub code: u16,
    /// The reason. Empty if the body is not a `Status`.
    pub reason: String,
    /// The message. Empty if the body is not a `Status`.
    pub message: String,
    /// The causes in the details.
    pub causes: Vec<StatusCause>,
    /// The time for which the server asks the client to wait: any number.
    pub retry_after: Option<Duration>,
}

/// Sends `request` once. Returns the body of a successful response.
///
/// # Errors
///
/// [`RequestError`], after the time of `limits` at the latest.
pub async fn send(
    client: &Client,
    request: http::Request<Vec<u8>>,
    limits: ResponseLimits,
) -> Result<Bytes, RequestError> {
    let began = Instant::now();
    let (head, body) = request.into_parts();
    let received = timeout(limits.time, async {
        let body = sent_once(body).await?;
        let response = (client.send(http::Request::from_parts(head, body))).await?;
        if !response.status().is_success() {
            return Ok(Err(response));
        }
        let body = Limited::new(response.into_body(), limits.bytes)
            .collect()
            .await;
        Ok(Ok(body.map_err(kube::Error::Service)?.to_bytes()))
    });
    match received.await {
        Ok(Ok(Ok(body))) => Ok(body),
        Ok(Ok(Err(response))) => {
            let limit = limits.time.saturating_sub(began.elapsed());
            Err(RequestError::Status(
                ServerStatus::of(response, limit).await,
            ))
        }
        Ok(Err(error)) => Err(RequestError::Connection(error)),
        Err(_) => Err(RequestError::TimedOut),
    }
}

/// A body with `bytes` that kube's client cannot clone, so that the client does not repeat its
/// request.
///
/// Only responses have such bodies, so this one is the response of a service that returns the body
/// of its request.
///
/// # Errors
///
/// No error is known: no request is sent.
pub async fn sent_once(bytes: Vec<u8>) -> Result<Body, kube::Error> {
    let echo = tower::service_fn(|request: http::Request<Body>| async {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    });
    let echo = Client::new(echo, "default");
    let body = if bytes.is_empty() {
        Body::empty()
    } else {
        Body::from(bytes)
    };
    let response = echo.send(http::Request::new(body)).await?;
    Ok(response.into_body())
}

/// Decodes the body of a successful response.
///
/// # Errors
///
/// [`kube::Error::SerdeError`] with the position of the error, and no text of the body.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, kube::Error> {
    serde_json::from_slice(body).map_err(|error| {
        // serde_json parses the position in this text.
        let (line, column) = (error.line(), error.column());
        let text = format!("the response does not decode at line {line} column {column}");
        kube::Error::SerdeError(serde_json::Error::custom(text))
    })
}

/// Decodes a JSON value. The error has the path of the field, and not its value.
///
/// # Errors
///
/// [`DecodeError`] if the value does not have the shape of the type, or its `Deserialize` panics.
pub fn decode_value<T: DeserializeOwned>(value: Value) -> Result<T, DecodeError> {
    let decode = || {
        serde_path_to_error::deserialize(value)
            .map_err(|error| DecodeError::of(error.inner(), &error.path().to_string()))
    };
    panics::catch(decode).unwrap_or_else(|message| Err(DecodeError::Panicked { message }))
}

/// Decodes the text of a JSON value. The error is that of [`decode_value`].
///
/// # Errors
///
/// As of [`decode_value`], and if the text has more than 128 levels in fields that the type has.
pub fn decode_text<T: DeserializeOwned>(text: &str) -> Result<T, DecodeError> {
    let decode = || {
        let mut text = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut text)
            .map_err(|error| DecodeError::of(error.inner(), &error.path().to_string()))
    };
    panics::catch(decode).unwrap_or_else(|message| Err(DecodeError::Panicked { message }))
}

/// Returns `name` as one segment of the path of a URL.
///
/// Kubernetes allows all characters except `/` and `%` in the names of some kinds, for example of
/// cluster roles. Unencoded, `?` and `#` would end the path.
#[must_use]
pub fn path_segment(name: &str) -> Cow<'_, str> {
    const ALLOWED: &[u8] = b"-._~!$&'()*+,;=:@";
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || ALLOWED.contains(&byte);
    if name.bytes().all(is_allowed) {
        return Cow::Borrowed(name);
    }
    let mut segment = String::with_capacity(name.len() + 8);
    for byte in name.bytes() {
        if is_allowed(byte) {
            segment.push(byte.into());
        } else {
            _ = write!(segment, "%{byte:02X}");
        }
    }
    Cow::Owned(segment)
}

/// The reason in the status of an object or a kind of object that does not exist.
pub const NOT_FOUND: &str = "NotFound";

// === impl ServerStatus ===

impl ServerStatus {
    /// Reads the body of a response that is not a success, but at most 64 KiB of it, and no
    /// longer than `limit`. The code is that of the status line, even if the body contradicts it.
    pub(crate) async fn of(response: Response<Body>, limit: Duration) -> Self {
        let code = response.status().as_u16();
        let wait = retry_after(response.headers());
        let mut body = response.into_body();
        let mut text = Vec::new();
        let read = async {
            while let Some(Ok(frame)) = body.frame().await {
                // Trailers are not used.
                let Ok(chunk) = frame.into_data() else {
                    continue;
                };
                text.extend_from_slice(&chunk);
                if text.len() > MAX_STATUS {
                    break;
                }
            }
        };
        // After the timeout the received part is used.
        _ = timeout(limit, read).await;
        let mut status = Self::read(code, &text, wait);
        status.code = code;
        status
    }

    /// Reads a `Status`. For any other body `code` is kept: a proxy, or API priority and fairness,
    /// may respond with plain text. Of a body above 64 KiB (an error event can be as long as an
    /// object) only the code and the reason are read, because its causes would take several times
    /// its length.
    pub(crate) fn read(code: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            code: Option<u16>,
            reason: Option<String>,
            message: Option<String>,
            details: Option<Details>,
        }

        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct LongStatus {
            code: Option<u16>,
            reason: Option<String>,
        }

        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Details {
            causes: Option<Value>,
            retry_after_seconds: Option<Number>,
        }

        if body.len() > MAX_STATUS {
            let status: LongStatus = serde_json::from_slice(body).unwrap_or_default();
            return Self {
                code: status.code.unwrap_or(code),
                reason: status.reason.unwrap_or_default(),
                retry_after,
                ..Self::default()
            };
        }
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        let details = status.details.unwrap_or_default();
        let in_body = || details.retry_after_seconds.as_ref().and_then(seconds);
        Self {
            code: status.code.unwrap_or(code),
            reason: status.reason.unwrap_or_default(),
            message: status.message.unwrap_or_default(),
            retry_after: retry_after.or_else(in_body),
            causes: (details.causes)
                .and_then(|causes| serde_json::from_value(causes).ok())
                .unwrap_or_default(),
        }
    }
}

/// The duration of a number of seconds. The longest duration if the number does not fit, and `None`
/// if it is negative.
fn seconds(number: &Number) -> Option<Duration> {
    if let Some(seconds) = number.as_u64() {
        return Some(Duration::from_secs(seconds));
    }
    let seconds = number.as_f64().filter(|it| *it >= 0.0)?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// The `Retry-After` header in seconds. API servers do not use its date form. A number that does
/// not fit becomes the longest duration.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if seconds.is_empty() || !seconds.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(seconds.parse().map_or(Duration::MAX, Duration::from_secs))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue, header};

    use super::{ServerStatus, retry_after};

    #[test]
    fn an_overflowing_retry_delay_does_not_hide_the_rest_of_the_status() {
        for (seconds, expected) in [
            ("18446744073709551615", Some(Duration::from_secs(u64::MAX))),
            ("99999999999999999999999", Some(Duration::MAX)),
            ("1.5", Some(Duration::from_millis(1500))),
            ("-1", None),
            ("null", None),
        ] {
            let body = format!(
                r#"{{"code":429,"message":"wait","details":{{"retryAfterSeconds":{seconds}}}}}"#
            );
            let status = ServerStatus::read(429, body.as_bytes(), None);
            assert_eq!(status.message, "wait", "{seconds}");
            assert_eq!(status.retry_after, expected, "{seconds}");
        }
    }

    #[test]
    fn only_code_and_reason_of_a_long_status_are_read() {
        let causes = vec!["[]"; 40_000].join(",");
        let body = format!(
            r#"{{"code":410,"reason":"Expired","message":"old","details":{{"causes":[{causes}],"retryAfterSeconds":1}}}}"#
        );
        let status = ServerStatus::read(200, body.as_bytes(), None);
        assert_eq!((status.code, &*status.reason), (410, "Expired"));
        assert_eq!((&*status.message, status.retry_after), ("", None));
        assert!(status.causes.is_empty());
    }

    #[test]
    fn a_header_is_a_number_of_seconds_of_any_size() {
        for (value, expected) in [
            ("0", Some(Duration::ZERO)),
            (" 7 ", Some(Duration::from_secs(7))),
            ("18446744073709551616", Some(Duration::MAX)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("Sun, 22 Nov 2026 20:00:00 GMT", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(value));
            assert_eq!(retry_after(&headers), expected, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
