//! The responses to requests that the server refuses before it reads an object.

use http::StatusCode;
use serde_json::Map;

use super::Status;
use super::about::About;

impl Status {
    /// 400: the request is malformed.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 405: the resource does not support the verb.
    pub(crate) fn method_not_allowed(about: &About<'_>, verb: &str) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind {:?}",
            about.qualified_resource()
        );
        Self::about(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            message,
            about,
        )
    }

    /// An error about the request and not about an object, with empty details, as in Kubernetes.
    pub(crate) fn generic(code: StatusCode, reason: &'static str, message: &str) -> Self {
        Self {
            details: Some(Map::new()),
            ..Self::failure(code, reason, message)
        }
    }

    /// 404: the server does not serve the resource.
    pub(crate) fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::generic(StatusCode::NOT_FOUND, "NotFound", message)
    }

    /// 406: the server supports no media type that the client accepts.
    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, \
                       application/yaml, application/vnd.kubernetes.protobuf";
        Self::failure(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 415: the server does not support the media type of the body for this request.
    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        )
    }

    /// 413: the body is larger than `limit` bytes.
    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::failure(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            message,
        )
    }

    /// 500 without a reason, as in Kubernetes for Go errors that are not API errors.
    pub(crate) fn untyped(message: impl Into<String>) -> Self {
        Self::failure(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 500 with the reason `InternalError`.
    pub(crate) fn internal(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        Self::failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
            .cause("", why, "")
    }

    /// 401: the credentials are invalid.
    pub(crate) fn unauthorized() -> Self {
        Self::failure(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 504: the requested resourceVersion is higher than the current one.
    pub(crate) fn too_large_resource_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Self::failure(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
            .cause("ResourceVersionTooLarge", "Too large resource version", "")
            .retry_after(1)
    }

    /// 410: the history since the requested resourceVersion has expired.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::failure(StatusCode::GONE, "Expired", message)
    }

    /// 410: the continue token has expired. A list with `token` continues with the current objects.
    pub(crate) fn continue_expired(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list \
                       result. You can start a new list without the continue parameter, or use \
                       the continue token in this response to retrieve the remainder of the \
                       results. Continuing with the provided token results in an inconsistent \
                       list - objects that were created, modified, or deleted between the time \
                       the first chunk was returned and now may show up in the list.";
        Self {
            continue_token: Some(token.into()),
            ..Self::expired(message)
        }
    }

    /// 503: the server is stopping.
    pub(crate) fn shutting_down() -> Self {
        Self::failure(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "the server is shutting down",
        )
        .retry_after(1)
    }
}
