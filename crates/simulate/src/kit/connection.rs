//! The connection of an operator to the server, which records its writes and events.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::BytesMut;
use futures::StreamExt as _;
use http::{HeaderValue, Request, Response, StatusCode, header::USER_AGENT};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use kube::client::Body;
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::{
    Core,
    journal::{WatchEvent, Write},
    operator::OperatorProcess,
};
use crate::{
    change,
    connection::{BoxError, FullResponse, ReplyBody, Target, connection_error, refusal},
    fault::StepKind,
};

/// The HTTP connection of one start of an operator.
#[derive(Clone)]
pub(super) struct KitConnection {
    pub(super) core: Arc<Core>,
    pub(super) process: Arc<OperatorProcess>,
    /// Cancelled when the operator crashes or has ended: none of its requests reaches the server any more.
    pub(super) crashed: CancellationToken,
}

// === impl KitConnection ===

impl KitConnection {
    async fn respond(self, request: Request<Body>) -> Result<Response<ReplyBody>, BoxError> {
        let core = &self.core;
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let target = Target::parse(&parts.method, &parts.uri);
        sleep(core.latency()).await;
        core.gates.hold(&target).await;
        if self.crashed.is_cancelled() {
            return pending().await;
        }
        if core.gates.has_outage() {
            return Err(connection_error("the connection was refused"));
        }
        // Before the request, so that a watch that begins meanwhile ends too.
        let watches = core.gates.watches();
        let agent = parts
            .headers
            .get(USER_AGENT)
            .and_then(|it| it.to_str().ok());
        let manager = target
            .option("fieldManager")
            .or_else(|| agent.map(str::to_owned));
        let is_write = matches!(target.kind(), StepKind::Create | StepKind::Change)
            && !target.resource.ends_with("reviews");
        // The answer to a delete has the object too.
        let before = if is_write && !target.name.is_empty() {
            core.user.get(&target.path).await
        } else {
            None
        };
        let response = if let Some(status) = core.gates.refuse(&target) {
            refusal(status)
        } else {
            self.send(Request::from_parts(parts, Body::from(body)))
                .await?
        };
        let response = if is_write {
            let response = FullResponse::collect(response).await?;
            let write = self
                .describe(&target, manager, before.as_ref(), &response)
                .await;
            core.journal.write(write);
            response.into_response()
        } else if target.verb == "watch" && response.status().is_success() {
            until(watches, self.recorded(target, response))
        } else {
            response
        };
        sleep(core.latency()).await;
        if self.crashed.is_cancelled() {
            return pending().await;
        }
        if core.gates.has_outage() {
            return Err(connection_error("the connection was reset"));
        }
        Ok(response)
    }

    /// Sends a request with the permissions of the operator.
    async fn send(&self, mut request: Request<Body>) -> Result<Response<ReplyBody>, BoxError> {
        let account = self.process.account.as_deref();
        if let Some(account) = account {
            let account = HeaderValue::from_str(account)?;
            request.headers_mut().insert("impersonate-user", account);
        }
        let response = self.core.client.send(request).await?;
        let response = response.map(|body| body.map_err(Into::into).boxed_unsync());
        if account.is_none() || response.status() != StatusCode::FORBIDDEN {
            return Ok(response);
        }
        let response = FullResponse::collect(response).await?;
        let answer: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        self.process
            .deny(answer["message"].as_str().unwrap_or_default());
        Ok(response.into_response())
    }

    async fn describe(
        &self,
        target: &Target,
        manager: Option<String>,
        before: Option<&Value>,
        response: &FullResponse,
    ) -> Write {
        let answer: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let change = if response.status.is_success() {
            let after = match target.verb {
                "delete" => self.core.user.get(&target.path).await,
                _ => Some(answer.clone()),
            };
            change::describe(before, after.as_ref())
        } else {
            let message = answer["message"].as_str().unwrap_or("refused");
            change::shortened(message)
        };
        Write {
            at: self.core.journal.now(),
            verb: target.verb,
            resource: target.full_resource(),
            object: identity(target, &answer),
            subresource: target.subresource.clone(),
            manager: manager.unwrap_or_default(),
            code: response.status.as_u16(),
            change,
        }
    }

    /// Records the events of a watch while they pass.
    fn recorded(&self, target: Target, response: Response<ReplyBody>) -> Response<ReplyBody> {
        let (core, mut partial) = (Arc::clone(&self.core), BytesMut::new());
        response.map(|body| {
            let recorded = body.map_frame(move |frame| {
                if let Some(data) = frame.data_ref() {
                    partial.extend_from_slice(data);
                    while let Some(end) = partial.iter().position(|byte| *byte == b'\n') {
                        core.record_event(&target, &partial.split_to(end + 1));
                    }
                }
                frame
            });
            recorded.boxed_unsync()
        })
    }
}

impl Core {
    fn record_event(&self, target: &Target, line: &[u8]) {
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        let (change, object) = (event["type"].as_str().unwrap_or_default(), &event["object"]);
        if !["ADDED", "MODIFIED", "DELETED"].contains(&change) {
            return;
        }
        let metadata = &object["metadata"];
        let version = metadata["resourceVersion"].as_str().unwrap_or("-");
        self.journal.event(WatchEvent {
            at: self.journal.now(),
            text: format!(
                "{change} version {version} generation {}",
                metadata["generation"]
            ),
            resource: target.full_resource(),
            object: identity(target, object),
        });
    }
}

/// Ends the body of a response when `end` is cancelled.
fn until(end: CancellationToken, response: Response<ReplyBody>) -> Response<ReplyBody> {
    response.map(|body| {
        let frames = BodyStream::new(body).take_until(end.cancelled_owned());
        StreamBody::new(frames).boxed_unsync()
    })
}

/// The namespace and name of the object of a request or of its answer.
fn identity(target: &Target, answer: &Value) -> String {
    let metadata = &answer["metadata"];
    let answered = metadata["name"].as_str().unwrap_or_default();
    let name = Some(target.name.as_str())
        .filter(|it| !it.is_empty())
        .unwrap_or(answered);
    let namespace = metadata["namespace"].as_str().unwrap_or(&target.namespace);
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

impl Service<Request<Body>> for KitConnection {
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
