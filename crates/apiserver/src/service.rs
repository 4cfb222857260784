//! The tower service that executes requests and returns responses.
//!
//! kube clients call it directly; the ports of the server call it for each HTTP request.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::ACCEPT_ENCODING;
use http::request::Parts;
use http::uri::Authority;
use http::{Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::discovery;
use crate::mutating_limit::LimitReached;
use crate::registry::Resource;
use crate::shared::Shared;
use crate::status::Status;
use crate::user::User;
use crate::wire::{Accept, Target};

mod body;
mod containers;
mod deadline;
mod health;
mod identity;
mod metrics;
mod permission;
mod pretty;
mod reply;
mod resources;
mod reviews;
mod site;
mod subresources;
mod verb;
mod warnings;
mod watching;
mod websocket;

pub use reply::ResponseBody;
use websocket::Handshake;

/// The maximum size of a request body, as in Kubernetes: 3 MiB.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// The tower service of a server, which executes one request per call.
///
/// It accepts each type of request body, so kube's client, hyper and tests can call it. It is
/// always ready and never returns an error: a rejected request has a response with a `Status`.
///
/// # Cancel safety
///
/// If the future of a request is dropped, the request either took effect completely or not at all.
#[derive(Debug, Clone)]
pub struct ApiService {
    shared: Arc<Shared>,
    /// Ends the watches of this service when it is cancelled.
    stop: CancellationToken,
    /// The tasks of this service: streams over a WebSocket.
    tasks: TaskTracker,
    /// Whether the requests come from a port, which web pages can reach.
    is_port: bool,
}

/// A request whose body is read and whose user is known.
struct Call {
    parts: Parts,
    body: Bytes,
    accept: Accept,
    user: User,
}

// === impl ApiService ===

impl ApiService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            is_port: false,
        }
    }

    /// Returns the service of a port, which rejects requests and ends its watches after `stop` is cancelled, and
    /// spawns its tasks on `tasks`.
    pub(crate) fn until(self, stop: CancellationToken, tasks: TaskTracker) -> Self {
        Self {
            stop,
            tasks,
            is_port: true,
            ..self
        }
    }

    async fn respond<B>(self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (mut parts, body) = request.into_parts();
        let handshake = Handshake::of(&mut parts);
        let (tasks, stop) = (self.tasks.clone(), self.stop.clone());
        let accepts_encoding = parts.headers.get(ACCEPT_ENCODING).cloned();
        let accept = Accept::parse(
            parts
                .headers
                .get_all(http::header::ACCEPT)
                .iter()
                .filter_map(|value| value.to_str().ok()),
        );
        let encoding = accept.encoding_of_status();
        let is_pretty = pretty::is_wanted(&parts);
        let response = self.respond_to(parts, body, accept).await;
        let response = reply::negotiated(response, encoding);
        let response = reply::pretty(response, is_pretty).await;
        let response = reply::compressed(response, accepts_encoding.as_ref());
        match handshake {
            Some(handshake) => handshake.respond(response, &tasks, stop),
            None => response,
        }
    }

    async fn respond_to<B>(self, parts: Parts, body: B, accept: Accept) -> Response<ResponseBody>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if self.is_port
            && let Err(status) = site::check(&parts)
        {
            return reply::refusal(&status);
        }
        let target = Target::parse(parts.uri.path());
        let timeout = match deadline::of(&parts, &target) {
            Ok(timeout) => timeout,
            Err(status) => return reply::refusal(&status),
        };
        let user = match identity::of(&parts.headers, &self.shared) {
            Ok(user) => user,
            Err(status) => return reply::refusal(&status),
        };
        let limit = self.shared.mutating_limit.as_ref();
        let _permit = match limit.map(|limit| limit.admit(&parts, &user)).transpose() {
            Ok(permit) => permit,
            Err(LimitReached) => return reply::too_many_requests(),
        };
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return reply::refusal(&Status::too_large(MAX_BODY));
            }
            Err(_) => {
                return reply::refusal(&Status::bad_request("the body of the request broke off"));
            }
        };
        if self.stop.is_cancelled() {
            return reply::refusal(&Status::shutting_down());
        }
        let call = Call {
            parts,
            body,
            accept,
            user,
        };
        if let Err(status) = permission::check_path(&self, &call, &target) {
            return reply::refusal(&status);
        }
        match target {
            Target::Resource(place) => {
                let response = resources::respond(&self, &call, place);
                let response = deadline::within(timeout, response).await;
                response.unwrap_or_else(|status| reply::refusal(&status))
            }
            Target::Metrics => metrics::respond(&self.shared),
            Target::Unknown { group } => self.no_resource(group.as_deref()),
            Target::Health { endpoint, check } => {
                let query = call.parts.uri.query().unwrap_or_default();
                health::respond(&endpoint, check.as_deref(), query)
            }
            target => self.describe(&call, &target),
        }
    }

    /// Returns the version, discovery and `OpenAPI` documents.
    fn describe(&self, call: &Call, target: &Target) -> Response<ResponseBody> {
        let resources: Vec<Arc<Resource>> = self
            .shared
            .read(|cluster| cluster.registry.iter().cloned().collect());
        let infos = || resources.iter().map(|resource| &resource.info);
        if call.parts.method != http::Method::GET {
            return match target {
                Target::Resources { group, version }
                    if discovery::resource_list(infos(), group, version).is_none() =>
                {
                    self.no_resource(Some(group))
                }
                _ => reply::no_such_method(),
            };
        }
        let aggregated = call.accept.prefers_aggregated_discovery();
        let document = match target {
            Target::Version => {
                let version = discovery::version(self.shared.profile.git_version());
                // The real server never sends it on one line.
                return reply::indented(&version);
            }
            Target::CoreVersions | Target::Groups if aggregated => {
                let core = *target == Target::CoreVersions;
                return reply::discovery(
                    &call.parts.headers,
                    &discovery::aggregated(infos(), core),
                );
            }
            Target::CoreVersions => Some(discovery::api_versions(call.host())),
            Target::Groups => Some(discovery::group_list(infos())),
            Target::Group(name) => discovery::group(infos(), name),
            Target::Resources { group, version } => {
                discovery::resource_list(infos(), group, version)
            }
            Target::OpenApiV2 => {
                let accept = call.parts.headers.get(http::header::ACCEPT);
                let accept = accept.and_then(|value| value.to_str().ok());
                let as_protobuf = accept.is_some_and(|it| it.contains("proto-openapi"));
                return reply::openapi_v2(&discovery::openapi_v2(infos()), as_protobuf);
            }
            Target::OpenApi => Some(discovery::openapi_index(infos())),
            Target::OpenApiOf { group, version } => discovery::openapi(infos(), group, version),
            Target::Health { .. }
            | Target::Metrics
            | Target::Resource(_)
            | Target::Unknown { .. } => None,
        };
        let group = match target {
            Target::Resources { group, .. } => Some(group.as_str()),
            _ => None,
        };
        document.map_or_else(
            || self.no_resource(group),
            |document| reply::document(&document),
        )
    }

    /// Returns the response to a path that does not exist, below the path of `group`.
    fn no_resource(&self, group: Option<&str>) -> Response<ResponseBody> {
        let shared = &self.shared;
        if group
            .is_some_and(|group| shared.read(|cluster| cluster.registry.has_built_in_group(group)))
        {
            reply::no_such_resource()
        } else {
            reply::not_found()
        }
    }
}

// === impl Call ===

impl Call {
    /// Returns the `host:port` to which the client sent the request.
    fn host(&self) -> &str {
        let header = self.parts.headers.get(http::header::HOST);
        let header = header.and_then(|value| value.to_str().ok());
        header
            .or_else(|| self.parts.uri.authority().map(Authority::as_str))
            .unwrap_or_default()
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    // Boxed, because the type of an async block has no name.
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}
