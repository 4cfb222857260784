//! The HTTP connection of one process to the server, which injects faults into requests and responses.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Uri,
    header::{CONTENT_TYPE, RETRY_AFTER},
    request::Parts,
};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::{Service, ServiceExt as _};

use crate::{
    Fault, change,
    fault::StepKind,
    world::{Origin, World},
};

mod events;
mod lagging;
mod target;

pub(crate) use self::target::Target;

/// The error type of a tower service that kube's client accepts.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(crate) type ReplyBody = UnsyncBoxBody<Bytes, BoxError>;

/// The read timeout of a kube client: how long it waits for a server that does not respond.
const READ_TIMEOUT: Duration = Duration::from_secs(295);

/// The HTTP connection of one process to the server. Implements the tower service that
#[derive(Clone)]
pub(crate) struct Connection {
    world: Arc<World>,
    origin: Origin,
}

/// A complete response of the server.
pub(crate) struct FullResponse {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

// === impl Connection ===

impl Connection {
    pub(crate) const fn new(world: Arc<World>, origin: Origin) -> Self {
        Self { world, origin }
    }

    async fn respond(self, request: Request<Body>) -> Result<Response<ReplyBody>, BoxError> {
        let Self { world, origin } = &self;
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let target = Target::parse(&parts.method, &parts.uri);
        world.halt_if_crashed(*origin).await;
        world.count_request();
        if matches!(target.kind(), StepKind::Create | StepKind::Change) {
            world.check_sent_write(*origin, &target);
        }
        if world.is_flooded() {
            // The run is over, and virtual time must pass so that it ends.
            sleep(READ_TIMEOUT).await;
        }
        self.transfer().await?;
        let kind = target.kind();
        let fault = world.step(*origin, kind, &target.text(&body), target.subject());
        if kind == StepKind::Watch && world.refuses_watches(*origin) {
            return Err(connection_error("the connection was refused"));
        }
        match fault {
            Some(Fault::CrashBefore) => return self.crashed().await,
            Some(Fault::LostRequest) => return Err(connection_error("the connection was reset")),
            Some(Fault::Stall) => {
                sleep(READ_TIMEOUT).await;
                return Err(connection_error("the connection timed out"));
            }
            Some(Fault::TooManyRequests) => return Ok(too_many_requests()),
            Some(Fault::InternalError) => return Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR)),
            Some(Fault::Unavailable) => return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE)),
            Some(Fault::Conflict) => return Ok(refusal(StatusCode::CONFLICT)),
            _ => {}
        }
        if kind == StepKind::Watch {
            world.record_watch(*origin, &target);
            return self.watch(&target, parts, body).await;
        }
        let is_write = matches!(kind, StepKind::Create | StepKind::Change | StepKind::Lease);
        let before = match target.name.as_str() {
            "" => None,
            _ if is_write => world.direct.get(&target.path).await,
            _ => None,
        };
        let answer = self.handle(&target, parts, body).await?;
        if is_write && answer.status.is_success() {
            let object = serde_json::from_slice(&answer.body).unwrap_or_default();
            world.record_write(*origin, &target, &object);
        }
        if is_write && answer.status.is_client_error() {
            world.record_failure();
        }
        if is_write || !answer.status.is_success() {
            let mut text = format!("   {target}: {}", answer.described());
            if is_write && answer.status.is_success() {
                let after = match target.verb {
                    "delete" => world.direct.get(&target.path).await,
                    _ => serde_json::from_slice(&answer.body).ok(),
                };
                text = format!(
                    "{text}: {}",
                    change::describe(before.as_ref(), after.as_ref())
                );
            }
            world.log(Some(*origin), &text);
        }
        match fault {
            Some(Fault::CrashAfter) => return self.crashed().await,
            Some(Fault::LostReply) => return Err(connection_error("the connection was reset")),
            Some(Fault::LateTimeout) => return Ok(refusal(StatusCode::GATEWAY_TIMEOUT)),
            Some(Fault::Freeze) => world.freeze().await,
            _ => {}
        }
        self.transfer().await?;
        Ok(answer.into_response())
    }

    /// Waits for the latency of one message between the process and the server.
    ///
    /// # Errors
    ///
    /// If they are partitioned.
    async fn transfer(&self) -> Result<(), BoxError> {
        let Self { world, origin } = self;
        sleep(world.latency()).await;
        world.halt_if_crashed(*origin).await;
        if world.wait_for_partition_end(*origin).await {
            return Err(connection_error("the connection timed out"));
        }
        Ok(())
    }

    /// Opens a watch.
    async fn watch(
        &self,
        target: &Target,
        parts: Parts,
        body: Bytes,
    ) -> Result<Response<ReplyBody>, BoxError> {
        let response = self.send(parts, body).await?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let body = body.map_err(Into::into).boxed_unsync();
            return Ok(Response::from_parts(parts, body));
        }
        let cut = self.world.cut_token(self.origin);
        let events = events::events(
            Arc::clone(&self.world),
            self.origin,
            target.clone(),
            cut,
            body,
        );
        Ok(Response::from_parts(parts, events))
    }

    /// Sends a request to the server. While the server lags, the response is as old as its lag.
    async fn handle(
        &self,
        target: &Target,
        parts: Parts,
        body: Bytes,
    ) -> Result<FullResponse, BoxError> {
        if let Some(revision) = self.world.lag(self.origin)
            && let Some(stale) = lagging::rewrite(target, &parts.uri, revision)
        {
            if revision < self.world.server.resource_version() {
                self.world.mark_effective(Fault::Stale);
            }
            return match stale {
                lagging::Stale::Refused => Ok(FullResponse::too_large(revision)),
                lagging::Stale::List(uri) => {
                    FullResponse::collect(self.send(with(parts, uri), body).await?).await
                }
                lagging::Stale::Get(uri) => {
                    let list =
                        FullResponse::collect(self.send(with(parts, uri), body).await?).await?;
                    Ok(list.first_item(target))
                }
            };
        }
        FullResponse::collect(self.send(parts, body).await?).await
    }

    async fn send(
        &self,
        parts: Parts,
        body: Bytes,
    ) -> Result<Response<windlass_apiserver::ResponseBody>, BoxError> {
        let request = Request::from_parts(parts, Full::new(body));
        Ok(self.world.server.service().oneshot(request).await?)
    }

    /// Ends the process, and never returns.
    async fn crashed(&self) -> Result<Response<ReplyBody>, BoxError> {
        self.world.crash(self.origin);
        std::future::pending().await
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<ReplyBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().respond(request))
    }
}

// === impl FullResponse ===

impl FullResponse {
    pub(crate) async fn collect<B>(response: Response<B>) -> Result<Self, BoxError>
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        let (parts, body) = response.into_parts();
        Ok(Self {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.map_err(Into::into)?.to_bytes(),
        })
    }

    /// The response to a client that requests a newer resource version than the server has.
    fn too_large(revision: u64) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("Timeout: Too large resource version, current: {revision}"),
            "reason": "Timeout", "code": 504,
            "details": {
                "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
                "retryAfterSeconds": 1,
            },
        });
        Self {
            status: StatusCode::GATEWAY_TIMEOUT,
            headers: HeaderMap::new(),
            body: status.to_string().into(),
        }
    }

    /// The first item of a list, as the response to a read of one object.
    fn first_item(self, target: &Target) -> Self {
        let list: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let mut item = list["items"][0].clone();
        if !item.is_object() {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": format!("{target} not found"), "reason": "NotFound", "code": 404,
            });
            return Self {
                status: StatusCode::NOT_FOUND,
                body: status.to_string().into(),
                ..self
            };
        }
        let kind = list["kind"].as_str().unwrap_or_default();
        item["kind"] = kind.trim_end_matches("List").into();
        item["apiVersion"] = list["apiVersion"].clone();
        Self {
            body: item.to_string().into(),
            ..self
        }
    }

    fn described(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let version = body["metadata"]["resourceVersion"].as_str().unwrap_or("-");
        format!("{} version {version}", self.status.as_u16())
    }

    pub(crate) fn into_response(self) -> Response<ReplyBody> {
        let body = Full::new(self.body)
            .map_err(|never| match never {})
            .boxed_unsync();
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

fn with(mut parts: Parts, uri: Uri) -> Parts {
    parts.uri = uri;
    parts
}

/// An error without a response.
pub(crate) fn connection_error(text: &'static str) -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, text).into()
}

/// An error response with the `Status` that kube-apiserver sends.
pub(crate) fn refusal(status: StatusCode) -> Response<ReplyBody> {
    let (reason, message) = match status {
        StatusCode::FORBIDDEN => ("Forbidden", "the request is not allowed"),
        StatusCode::NOT_FOUND => ("NotFound", "the object was not found"),
        StatusCode::UNPROCESSABLE_ENTITY => ("Invalid", "the object is invalid"),
        StatusCode::TOO_MANY_REQUESTS => ("TooManyRequests", "too many requests"),
        status if status.is_client_error() && status != StatusCode::CONFLICT => {
            ("BadRequest", "the request is refused")
        }
        StatusCode::SERVICE_UNAVAILABLE => ("ServiceUnavailable", "the server is not ready"),
        StatusCode::GATEWAY_TIMEOUT => ("Timeout", "the server did not answer in time"),
        StatusCode::CONFLICT => ("Conflict", "the object has been modified"),
        _ => ("InternalError", "the server failed"),
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": status.as_u16(),
    });
    let answer = FullResponse {
        status,
        headers: content_type("application/json"),
        body: body.to_string().into(),
    };
    answer.into_response()
}

/// The response of kube-apiserver to a request above its limit of concurrent requests, which is not
/// a `Status`.
fn too_many_requests() -> Response<ReplyBody> {
    let mut headers = content_type("text/plain; charset=utf-8");
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    let answer = FullResponse {
        status: StatusCode::TOO_MANY_REQUESTS,
        headers,
        body: Bytes::from_static(b"Too many requests, please try again later.\n"),
    };
    answer.into_response()
}

fn content_type(name: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(name))])
}
