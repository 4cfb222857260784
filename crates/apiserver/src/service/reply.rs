//! Constructors of HTTP responses, with content negotiation and compression.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt as _};
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, RETRY_AFTER,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::Value;

use super::pretty;
use crate::discovery;
use crate::encode::{self, Encoded};
use crate::status::Status;
use crate::wire::Encoding;

/// A header of all responses, which shows that the server is not a real cluster.
const NOTICE: (&str, &str) = (
    "x-windlass-apiserver",
    "in memory; for first steps and tests, not for production",
);

const JSON: &str = "application/json";

/// The body of a response: one buffer, or the events of a watch.
#[derive(Debug)]
pub struct ResponseBody {
    frames: UnsyncBoxBody<Bytes, Infallible>,
}

/// An extension of a response whose body is not negotiated yet: the value of the body.
#[derive(Debug, Clone)]
struct Unnegotiated {
    value: Value,
    /// Whether the value has a protobuf encoding, as a `Status` has.
    has_protobuf: bool,
}

/// An extension of the response to a watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streamed {
    /// Whether the body consists of protobuf frames, and not of JSON lines.
    pub(super) is_binary: bool,
}

/// An extension of a response that is compressed if the client accepts gzip: the bytes of the body.
#[derive(Debug, Clone)]
struct Large(Bytes);

/// Larger objects are compressed if the client accepts gzip, as in Kubernetes: 128 KiB.
const COMPRESSION_THRESHOLD: usize = 128 * 1024;

// === impl ResponseBody ===

impl ResponseBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self {
            frames: Full::new(bytes.into()).boxed_unsync(),
        }
    }

    fn lines(lines: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        let frames = lines.map(|line| Ok(Frame::data(line)));
        Self {
            frames: StreamBody::new(frames).boxed_unsync(),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.frames).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.frames.size_hint()
    }
}

fn response(
    code: StatusCode,
    content_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(NOTICE.0, HeaderValue::from_static(NOTICE.1));
    response
}

/// Returns a response with serialized objects.
pub(crate) fn encoded(code: StatusCode, encoded: Encoded) -> Response<ResponseBody> {
    let Encoded { bytes, media_type } = encoded;
    let bytes = Bytes::from(bytes);
    let mut response = response(code, media_type, ResponseBody::whole(bytes.clone()));
    if bytes.len() > COMPRESSION_THRESHOLD {
        response.extensions_mut().insert(Large(bytes));
    }
    response
}

/// Returns a response with a serialized JSON document, which ends with a newline as in Go.
pub(crate) fn json(code: StatusCode, body: impl Into<Vec<u8>>) -> Response<ResponseBody> {
    let mut body = body.into();
    body.push(b'\n');
    response(code, JSON, ResponseBody::whole(body))
}

/// Returns a response 200 with a document in JSON with indentation.
pub(crate) fn indented(body: &Value) -> Response<ResponseBody> {
    let body = pretty::indented(body.to_string().as_bytes());
    response(StatusCode::OK, JSON, ResponseBody::whole(body))
}

/// Indents the body of a response if the client wants it and the body is one JSON document.
pub(crate) async fn pretty(
    response: Response<ResponseBody>,
    is_wanted: bool,
) -> Response<ResponseBody> {
    let is_json = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|it| it == JSON);
    if !is_wanted || !is_json || response.extensions().get::<Streamed>().is_some() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The body is one buffer, and its errors are infallible.
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let body = Bytes::from(pretty::indented(&body.unwrap_or_default()));
    if parts.extensions.remove::<Large>().is_some() {
        parts.extensions.insert(Large(body.clone()));
    }
    Response::from_parts(parts, ResponseBody::whole(body))
}

/// Returns a response 200 with a document, which is sent as YAML if the client prefers it.
pub(crate) fn document(body: &Value) -> Response<ResponseBody> {
    let mut response = json(StatusCode::OK, discovery::text(body));
    response.extensions_mut().insert(Unnegotiated {
        value: body.clone(),
        has_protobuf: false,
    });
    response
}

/// Returns a response with the aggregated discovery document, or 304 if its `ETag` equals the
/// client's.
pub(crate) fn discovery(headers: &HeaderMap, body: &Value) -> Response<ResponseBody> {
    let tag = discovery::etag(body);
    let known = headers
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let mut response = if known == Some(&tag) {
        response(
            StatusCode::NOT_MODIFIED,
            discovery::AGGREGATED,
            ResponseBody::whole(""),
        )
    } else {
        let body = ResponseBody::whole(discovery::text(body));
        response(StatusCode::OK, discovery::AGGREGATED, body)
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
        .headers_mut()
        .insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// Returns a response with the `OpenAPI` v2 document in protobuf or JSON.
pub(crate) fn openapi_v2(body: &Value, as_protobuf: bool) -> Response<ResponseBody> {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    if !as_protobuf {
        return document(body);
    }
    encoded(
        StatusCode::OK,
        Encoded {
            bytes: discovery::openapi_v2_protobuf(body),
            media_type: PROTOBUF,
        },
    )
}

/// Returns a response with a `Status` object: an error, or the result of a deletion.
pub(crate) fn refusal(status: &Status) -> Response<ResponseBody> {
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, status.to_json());
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response.extensions_mut().insert(Unnegotiated {
        value: status.to_value(),
        has_protobuf: true,
    });
    warn(&mut response, status.warnings());
    response
}

/// Encodes a `Status` or a document about the server in the negotiated encoding. The encoding of
/// other bodies is negotiated before.
pub(crate) fn negotiated(
    mut response: Response<ResponseBody>,
    encoding: Encoding,
) -> Response<ResponseBody> {
    let Some(body) = response.extensions_mut().remove::<Unnegotiated>() else {
        return response;
    };
    let encoded = match encoding {
        Encoding::Json => None,
        Encoding::Yaml => encode::yaml_of(&body.value).map(|bytes| (bytes, encode::YAML)),
        Encoding::Protobuf { .. } if !body.has_protobuf => None,
        Encoding::Protobuf { .. } => windlass_protobuf::encode(&body.value)
            .ok()
            .map(|bytes| (bytes, windlass_protobuf::MEDIA_TYPE)),
    };
    if let Some((bytes, media_type)) = encoded {
        *response.body_mut() = ResponseBody::whole(bytes);
        let media_type = HeaderValue::from_static(media_type);
        response.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    response
}

/// Compresses a large response if the client accepts gzip.
pub(crate) fn compressed(
    mut response: Response<ResponseBody>,
    accepted: Option<&HeaderValue>,
) -> Response<ResponseBody> {
    let Some(Large(bytes)) = response.extensions_mut().remove::<Large>() else {
        return response;
    };
    let accepted = accepted.and_then(|value| value.to_str().ok());
    let takes_gzip = accepted.is_some_and(|it| {
        let mut codings = it.split(',').map(str::trim);
        codings.any(|coding| coding == "gzip")
    });
    if !takes_gzip {
        return response;
    }
    // The fastest level, as in Kubernetes.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    if let Ok(bytes) = written {
        *response.body_mut() = ResponseBody::whole(bytes);
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

/// Returns a response with plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    response(code, "text/plain; charset=utf-8", ResponseBody::whole(text))
}

/// Returns the 404 response to an unknown path, with the text of Go's HTTP server.
pub(crate) fn not_found() -> Response<ResponseBody> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Returns the 429 response to a request above a limit: as in Kubernetes, plain text and not a
/// `Status`.
pub(crate) fn too_many_requests() -> Response<ResponseBody> {
    let message = "Too many requests, please try again later.\n";
    let mut response = text(StatusCode::TOO_MANY_REQUESTS, message);
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns the 404 response to an unknown resource of a built-in group, for which kube-apiserver
/// sends a `Status`.
pub(crate) fn no_such_resource() -> Response<ResponseBody> {
    refusal(&Status::no_such_resource())
}

/// Returns the 405 response to a method that the URL does not support.
pub(crate) fn no_such_method() -> Response<ResponseBody> {
    let message = "the server does not allow this method on the requested resource";
    refusal(&Status::generic(
        StatusCode::METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        message,
    ))
}

/// Returns the response to a watch, whose events are JSON lines or protobuf frames.
pub(crate) fn stream(
    encoding: Encoding,
    lines: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<ResponseBody> {
    let media_type = match encoding {
        Encoding::Json | Encoding::Yaml => JSON,
        Encoding::Protobuf { .. } => windlass_protobuf::watch::MEDIA_TYPE,
    };
    let mut response = response(StatusCode::OK, media_type, ResponseBody::lines(lines));
    response.extensions_mut().insert(Streamed {
        is_binary: matches!(encoding, Encoding::Protobuf { .. }),
    });
    response
}

/// Adds warnings about the resource to the headers, before those about the object.
pub(crate) fn warn_first(response: &mut Response<ResponseBody>, warnings: &[String]) {
    super::warnings::add_first(response.headers_mut(), warnings);
}

/// Adds warnings for the user of the client to the headers.
pub(crate) fn warn(response: &mut Response<ResponseBody>, warnings: &[String]) {
    super::warnings::add(response.headers_mut(), warnings);
}
