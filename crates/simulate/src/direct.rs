//! Requests that no fault touches: those of users, of other clients, and of the simulation.

use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;

/// Sends requests that no fault touches.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    server: ApiServer,
}

// === impl Direct ===

impl Direct {
    pub(crate) const fn new(server: ApiServer) -> Self {
        Self { server }
    }

    /// Sends one request, and returns the status and the body of the answer.
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

    pub(crate) async fn merge(&self, path: &str, content: &Value) -> StatusCode {
        self.send(Method::PATCH, path, Some(content)).await.0
    }

    pub(crate) async fn create(&self, collection: &str, object: &Value) -> StatusCode {
        self.send(Method::POST, collection, Some(object)).await.0
    }

    /// Replaces the spec of an object, unless another client changes the object meanwhile.
    pub(crate) async fn replace_spec(&self, path: &str, spec: &Value) -> StatusCode {
        let Some(mut object) = self.get(path).await else {
            return StatusCode::NOT_FOUND;
        };
        object["spec"] = spec.clone();
        self.send(Method::PUT, path, Some(&object)).await.0
    }

    pub(crate) async fn delete(&self, path: &str) -> StatusCode {
        self.send(Method::DELETE, path, None).await.0
    }
}
