//! Requests without faults: those of users, of other clients, and of the simulation itself.

use std::fmt;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;

use crate::connection::FullResponse;

/// A client of the server whose requests never fail because of an injected fault.
#[derive(Clone)]
pub(crate) struct Direct {
    server: Server,
}

/// Where the requests go.
#[derive(Clone)]
enum Server {
    Embedded(ApiServer),
    Client(Client),
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
        let server = Server::Embedded(server);
        Self { server }
    }

    /// Sends the requests with a client, to any cluster.
    pub(crate) const fn of_client(client: Client) -> Self {
        let server = Server::Client(client);
        Self { server }
    }

    /// Authorizes requests by roles from now on, if the server is the embedded one. Others do.
    pub(crate) fn enable_rbac(&self) {
        if let Server::Embedded(server) = &self.server {
            server.enable_rbac();
        }
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
        self.send_as(content, method, path, body).await
    }

    async fn send_as(
        &self,
        content: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, Value) {
        let bytes = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, content)
            .body(bytes);
        let Ok(request) = request else {
            return (StatusCode::BAD_REQUEST, Value::Null);
        };
        let response = match &self.server {
            Server::Embedded(server) => {
                let Ok(response) = server.service().oneshot(request.map(Full::new)).await;
                FullResponse::collect(response).await
            }
            Server::Client(client) => match client.send(request.map(Body::from)).await {
                Ok(response) => FullResponse::collect(response).await,
                Err(error) => Err(error.into()),
            },
        };
        match response {
            Ok(response) => {
                let body = serde_json::from_slice(&response.body).unwrap_or_default();
                (response.status, body)
            }
            // The connection broke.
            Err(error) => {
                let message = json!({ "message": error.to_string() });
                (StatusCode::SERVICE_UNAVAILABLE, message)
            }
        }
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
        self.replace(path, &object).await
    }

    pub(crate) async fn replace(&self, path: &str, object: &Value) -> Result<(), Refusal> {
        self.change(Method::PUT, path, Some(object)).await
    }

    /// Applies an object as the field manager `kit`.
    pub(crate) async fn apply(&self, path: &str, object: &Value) -> Result<(), Refusal> {
        let path = format!("{path}?fieldManager=kit&force=true");
        let content = "application/apply-patch+yaml";
        let (status, answer) = self
            .send_as(content, Method::PATCH, &path, Some(object))
            .await;
        Refusal::check(status, &answer)
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
        write!(f, "{}: {}", self.status, self.message)?;
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            f.write_str("; does the object have no `metadata.namespace`?")?;
        }
        Ok(())
    }
}
