//! The connection of an operator to the server: records its writes and events, and refuses or holds
//! requests.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::BytesMut;
use http::{Request, Response, StatusCode, header::USER_AGENT};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::{
    Core,
    journal::{WatchEvent, Write},
};
use crate::{
    change,
    connection::{BoxError, FullResponse, ReplyBody, Target, refusal},
    fault::StepKind,
};

/// The verb of a request, as in RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// A read of one object.
    Get,
    /// A list.
    List,
    /// A watch.
    Watch,
    /// A create.
    Create,
    /// An update by PUT.
    Update,
    /// A patch, also by server-side apply.
    Patch,
    /// A deletion.
    Delete,
}

/// Requests that are held, until it is dropped. Created by [`Kit::hold`](super::Kit::hold).
#[derive(Debug)]
#[must_use = "dropping it releases the requests"]
pub struct Hold {
    reached: watch::Receiver<usize>,
    release: CancellationToken,
}

/// The requests to refuse, and those to hold.
#[derive(Default)]
pub(super) struct Gates {
    refused: Mutex<Vec<(Verb, String, StatusCode)>>,
    held: Mutex<Vec<HeldRequests>>,
}

struct HeldRequests {
    verb: Verb,
    resource: String,
    reached: watch::Sender<usize>,
    release: CancellationToken,
}

/// The HTTP connection of one start of an operator.
#[derive(Clone)]
pub(super) struct KitConnection {
    pub(super) core: Arc<Core>,
    /// Cancelled when the operator crashes: none of its requests reaches the server any more.
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
            let request = Request::from_parts(parts, Body::from(body));
            let response = core.client.send(request).await?;
            response.map(|body| body.map_err(Into::into).boxed_unsync())
        };
        let response = if is_write {
            let response = FullResponse::collect(response).await?;
            let write = self
                .describe(&target, manager, before.as_ref(), &response)
                .await;
            core.journal.write(write);
            response.into_response()
        } else if target.verb == "watch" && response.status().is_success() {
            self.recorded(target, response)
        } else {
            response
        };
        sleep(core.latency()).await;
        if self.crashed.is_cancelled() {
            return pending().await;
        }
        Ok(response)
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

// === impl Gates ===

impl Gates {
    pub(super) fn refuse_next(&self, verb: Verb, resource: &str, code: StatusCode) {
        self.refused.lock().push((verb, resource.to_owned(), code));
    }

    pub(super) fn add_hold(&self, verb: Verb, resource: &str) -> Hold {
        let (reached, receiver) = watch::channel(0);
        let release = CancellationToken::new();
        self.held.lock().push(HeldRequests {
            verb,
            resource: resource.to_owned(),
            reached,
            release: release.clone(),
        });
        Hold {
            reached: receiver,
            release,
        }
    }

    /// Whether requests are held.
    pub(super) fn has_holds(&self) -> bool {
        let mut held = self.held.lock();
        held.retain(|it| !it.release.is_cancelled());
        !held.is_empty()
    }

    /// The code with which a request is refused.
    fn refuse(&self, target: &Target) -> Option<StatusCode> {
        let mut refused = self.refused.lock();
        let at = refused
            .iter()
            .position(|(verb, resource, _)| verb.fits(target, resource))?;
        Some(refused.remove(at).2)
    }

    /// Waits until no hold fits the request any more.
    async fn hold(&self, target: &Target) {
        loop {
            let release = {
                let held = self.held.lock();
                let fits = |it: &&HeldRequests| {
                    !it.release.is_cancelled() && it.verb.fits(target, &it.resource)
                };
                held.iter().find(fits).map(|it| {
                    it.reached.send_modify(|count| *count += 1);
                    it.release.clone()
                })
            };
            let Some(release) = release else { return };
            release.cancelled().await;
        }
    }
}

// === impl Verb ===

impl Verb {
    fn fits(self, target: &Target, resource: &str) -> bool {
        let verb = match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        };
        verb == target.verb && (resource == target.resource || resource == target.full_resource())
    }
}

// === impl Hold ===

impl Hold {
    /// Waits until a request is held, for at most one minute.
    ///
    /// # Panics
    ///
    /// If no request arrives in this time.
    pub async fn reached(&mut self) {
        let reached = self.reached.wait_for(|count| *count > 0);
        let reached = tokio::time::timeout(super::LIMIT, reached).await;
        assert!(
            reached.is_ok(),
            "no request to hold arrived within {:?}",
            super::LIMIT
        );
    }

    /// Lets the requests continue.
    pub fn release(self) {
        self.release.cancel();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release.cancel();
    }
}
