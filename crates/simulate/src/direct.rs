//! Requests without faults: those of users, of other clients, and of the simulation itself.

use std::fmt;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;

/// A client of the server whose requests never fail because of an injected fault.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    server: ApiServer,
}

/// An error response of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// The `message` of the response, shortened.
    message: String,
}

// === impl Direct ===

impl Direct {
    pub(crate) const fn new(server: ApiServer) -> Self {
        Self { server }
    }

    /// Sends one request, and returns the status and the body of the response.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, Value) {
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let bytes = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, content)
            .body(Full::new(bytes));
        let Ok(request) = request else {
            return (StatusCode::BAD_REQUEST, Value::Null);
        };
        let Ok(response) = self.server.service().oneshot(request).await;
        let status = response.status();
        let Ok(body) = response.into_body().collect().await;
        let body = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        (status, body)
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        let (status, body) = self.send(Method::GET, path, None).await;
        status.is_success().then_some(body)
    }

    pub(crate) async fn merge(&self, path: &str, content: &Value) -> Result<(), Refusal> {
        self.change(Method::PATCH, path, Some(content)).await
    }

    pub(crate) async fn create(&self, collection: &str, object: &Value) -> Result<(), Refusal> {
        self.change(Method::POST, collection, Some(object)).await
    }

    /// Replaces the spec of an object, unless another client changes the object meanwhile.
    pub(crate) async fn replace_spec(&self, path: &str, spec: &Value) -> Result<(), Refusal> {
        let (status, mut object) = self.send(Method::GET, path, None).await;
        Refusal::check(status, &object)?;
        object["spec"] = spec.clone();
        self.change(Method::PUT, path, Some(&object)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), Refusal> {
        self.change(Method::DELETE, path, None).await
    }

    async fn change(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(), Refusal> {
        let (status, answer) = self.send(method, path, body).await;
        Refusal::check(status, &answer)
    }
}

// === impl Refusal ===

impl Refusal {
    /// The longest part of a message that a report shows, in characters.
    const LONGEST: usize = 300;

    fn check(status: StatusCode, answer: &Value) -> Result<(), Self> {
        if status.is_success() {
            return Ok(());
        }
        let message = answer["message"].as_str().unwrap_or_default();
        Err(Self {
            status,
            message: message.chars().take(Self::LONGEST).collect(),
        })
    }

    /// Whether the content of the request is invalid, so that no retry can succeed.
    pub(crate) fn is_invalid(&self) -> bool {
        matches!(
            self.status,
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY
        )
    }

    /// Whether a retry can succeed: the object does not exist yet or is being deleted, another
    /// client changed it first, or the server failed.
    pub(crate) fn is_transient(&self) -> bool {
        self.status.is_server_error()
            || matches!(
                self.status,
                StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS
            )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}
