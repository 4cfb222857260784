//! The webhook server: validates, changes and converts objects for the API server.

use std::{
    collections::HashMap, fmt, future::Future, num::NonZeroUsize, path::PathBuf, sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use kube::{Resource, core::admission::AdmissionRequest};
use serde::{Serialize, de::DeserializeOwned};
use tokio::runtime::Handle;
use windlass_informer::is_host_simulated;

use crate::{
    AdminError, AdminLimits, Listen, Route, RouteError,
    admin::{Files, Port, RouteCall, Routes, Serving, Tls},
    log_limit::LogLimit,
};

// Requests and responses.
mod admission;
mod align;
mod carry;
mod conversion;
mod conversions;
mod merge;
mod responder;
mod review;

// Numbers.
mod metrics;

pub(crate) use self::metrics::WebhookMetrics;
pub use self::{
    admission::{AdmissionError, Denied, Warnings},
    conversion::Conversion,
};
use self::{
    conversions::Conversions,
    responder::{Responder, not_found},
};

/// Serves admission and conversion webhooks over TLS, as the API server calls them.
///
/// # Contract
///
/// *Guaranteed.* It starts before the first controller of the operator and stops after the last one, and
/// it runs in each replica, also in one that does not lead. `/ready` of the
/// [`AdminServer`](crate::AdminServer) has a line about it. Connections and TLS have a thread of their
/// own; handlers run on the runtime of the operator, so that they can use its clients and stores. Many
/// run at the same time, also for one object. The certificate is reloaded as in
/// [`AdminServer::tls`](crate::AdminServer::tls).
///
/// A handler is answered for in time: after the timeout that the API server states in its request (1 s to
/// 30 s), less a second or at most half of it (without one 9 s, and 29 s for a conversion), the handler is
/// dropped. The response is then 500, as after a panic of an admission handler or
/// [`AdmissionError::Failed`]: there is no decision, and the API server acts by the `failurePolicy` of the
/// webhook. This also holds while the runtime of the operator is blocked. A conversion that panics fails
/// its review, and the message names the object.
///
/// An object or old object that does not decode is denied with the code 400 and the path of the field:
/// to allow it would skip a check. So is an object of another kind or version than that of the type. To
/// decide yourself in [`validate`](Self::validate), take `DeserializeGuard<Website>` of kube instead of
/// `Website`, for example to let users delete or correct objects that were stored before a change of the
/// type.
///
/// A request that is not a POST of JSON gets 405 or 415, one that is no review of the version `v1` 400,
/// and one with a larger body than [`AdminLimits::body`] 413. No log line has the content of an object,
/// apart from the texts of your errors and panics.
///
/// *Required.* Only the API server may reach the port: it does not authenticate its clients. Handlers have
/// no side effects, or none if `dry_run` is true; state it as `sideEffects` of the webhook. A handler that
/// blocks its thread delays the controllers. A handler that must not miss an object reads the API server,
/// or returns [`AdmissionError::Failed`].
///
/// *Not guaranteed.* That a handler runs once for each write, or that the write succeeds after it. The
/// future of a handler is dropped when the API server closes the connection. That the store of a
/// controller has objects: it is filled only in the replica that leads, after its first list, and lags
/// behind the API server.
///
/// The [`Route`] of a server answers a request without a socket, for tests.
///
/// Source: controller-runtime, `pkg/webhook`.
///
/// # Example
///
/// ```
/// # use kube::CustomResource;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// use kube::core::admission::AdmissionRequest;
/// use windlass_operator::{Denied, Listen, Operator, Route as _, WebhookServer, http::Request};
///
/// #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #[kube(group = "example.io", version = "v1", kind = "Website", namespaced)]
/// struct WebsiteSpec {
///     title: String,
///     #[serde(skip_serializing_if = "Option::is_none")]
///     replicas: Option<i32>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let webhooks = WebhookServer::new(Listen::port(9443), "/tls/tls.crt", "/tls/tls.key")
///     .validate("/validate-website", |request: AdmissionRequest<Website>| async move {
///         match request.object {
///             Some(site) if site.spec.title.is_empty() => Err(Denied::new("spec.title is empty")),
///             // A delete has no object.
///             _ => Ok(()),
///         }
///     })?
///     .mutate("/mutate-website", |mut site: Website, _| async move {
///         site.spec.replicas.get_or_insert(1);
///         Ok::<_, Denied>(site)
///     })?;
///
/// # let review = serde_json::json!({
/// #     "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
/// #     "request": {
/// #         "uid": "1", "operation": "CREATE", "userInfo": {},
/// #         "kind": { "group": "example.io", "version": "v1", "kind": "Website" },
/// #         "resource": { "group": "example.io", "version": "v1", "resource": "websites" },
/// #         "object": { "apiVersion": "example.io/v1", "kind": "Website", "metadata": {}, "spec": { "title": "" } },
/// #     },
/// # }).to_string();
/// // `review` has a website without a title.
/// let request = Request::post("/validate-website")
///     .header("content-type", "application/json")
///     .body(review.into())?;
/// let response: serde_json::Value = serde_json::from_slice(webhooks.answer(request).await.body())?;
/// assert_eq!(response["response"]["allowed"], false);
/// assert_eq!(response["response"]["status"]["message"], "spec.title is empty");
///
/// let operator = Operator::builder().webhook_server(webhooks).build();
/// # drop(operator);
/// # Ok(())
/// # }
/// ```
#[must_use = "a webhook server does nothing until an operator runs it"]
pub struct WebhookServer {
    listen: Listen,
    files: Files,
    limits: AdminLimits,
    routes: Routes,
    /// Those of the routes that convert, by path.
    conversions: HashMap<String, Conversions>,
    metrics: WebhookMetrics,
}

// === impl WebhookServer ===

impl WebhookServer {
    /// The default limits. They are those of an [`AdminServer`](crate::AdminServer), except:
    ///
    /// - Connections have no longest time, because the API server uses them for a request at a time, and
    ///   would see an error if one was closed while a request is on its way. An idle one is closed after
    ///   two minutes, and one whose client has begun the head of a request after `read_timeout`.
    /// - 1024 connections, and the same number for each client: all requests can come from one. At most a
    ///   quarter of the file descriptors of the process; above the limit, the oldest connection is closed,
    ///   also during a request.
    /// - A body has at most 64 MiB for a conversion, because a `ConversionReview` has all objects of a
    ///   list, and 20 MiB for admission, because an `AdmissionReview` has at most two, with 9 MiB each if
    ///   they consist of characters that the API server escapes. Another limit than this default holds for
    ///   both. A request needs its body in memory while it is answered, and its objects in the Rust types.
    ///   Fields that a type does not have take nothing, except where an object is written: of each object
    ///   that a mutating webhook has changed there are two [`serde_json::Value`]s, and of an object that is
    ///   converted too, one object at a time. The many small objects of a list then take 174 times their
    ///   text, measured as resident memory: 260 MiB for an object of 1.5 MiB, the largest that is stored.
    /// - `read_timeout` is the longest time without progress while a body is read. The body and the handler
    ///   together have the time limit of the handler.
    pub const LIMITS: AdminLimits = AdminLimits {
        read_timeout: AdminLimits::DEFAULT_READ_TIMEOUT,
        write_timeout: AdminLimits::DEFAULT_WRITE_TIMEOUT,
        connection_timeout: Duration::MAX,
        connections: NonZeroUsize::new(1024).expect("not zero"),
        connections_per_client: NonZeroUsize::new(1024).expect("not zero"),
        body: NonZeroUsize::new(64 * 1024 * 1024).expect("not zero"),
    };

    /// Creates a server for an address or a bound listener, with the certificate chain and the private
    /// key in these PEM files. The API server calls webhooks only over TLS.
    pub fn new(
        listen: impl Into<Listen>,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        Self {
            listen: listen.into(),
            files: Files {
                certificate: certificate.into(),
                key: key.into(),
            },
            limits: Self::LIMITS,
            routes: Routes::default(),
            conversions: HashMap::new(),
            metrics: WebhookMetrics::new(),
        }
    }

    /// Sets the limits of connections and requests. The default is [`LIMITS`](Self::LIMITS); begin with it
    /// rather than with the default of [`AdminLimits`], which closes each connection after a minute.
    ///
    /// The requests in progress have 9 s, and not `write_timeout`, when the connection has reached
    /// `connection_timeout`, and when the operator stops.
    ///
    /// # Example
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    ///
    /// use windlass_operator::{AdminLimits, Listen, WebhookServer};
    ///
    /// let limits = AdminLimits {
    ///     connections: NonZeroUsize::new(256).expect("not zero"),
    ///     ..WebhookServer::LIMITS
    /// };
    /// let webhooks = WebhookServer::new(Listen::port(9443), "/tls/tls.crt", "/tls/tls.key")
    ///     .limits(limits);
    /// let shown = format!("{webhooks:?}");
    /// assert!(shown.contains("connections: 256"), "{shown}");
    /// ```
    pub fn limits(self, limits: AdminLimits) -> Self {
        Self { limits, ..self }
    }

    /// Adds a validating webhook. `handler` allows a request with [`Warnings`], or denies it.
    ///
    /// For a create, the request has an object, for an update also the old object, and for a delete only
    /// the old object. The handler cannot change the object.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if `path` does not begin with a slash, or another webhook has this path.
    pub fn validate<T, F, Fut, W, E>(
        self,
        path: impl Into<String>,
        handler: F,
    ) -> Result<Self, RouteError>
    where
        T: Resource + DeserializeOwned + Send + 'static,
        F: Fn(AdmissionRequest<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<W, E>> + Send,
        W: Into<Warnings>,
        E: Into<AdmissionError>,
    {
        let handler = Arc::new(handler);
        self.route(path.into(), move |request| {
            let handler = Arc::clone(&handler);
            async move { admission::validate(&*handler, request).await }
        })
    }

    /// Adds a mutating webhook. `handler` returns the object with its changes, or denies the request.
    ///
    /// The object is that of the request, where it is `None`. A delete is allowed without a call, because
    /// it has no object to change, also of an object that does not decode.
    ///
    /// *Guaranteed.* Only what the handler has changed is changed: fields that the Rust type does not
    /// have stay. They also stay in an element of a list that is unchanged, or that has the same `name`.
    /// If no element is added or removed, they stay in an element without a `name` at the same index, if
    /// one of its fields keeps its value, or if it is the only element that changes. The Rust type may sort
    /// a list when it reads it, as a `BTreeSet` does: a list that the handler has changed has the order of
    /// its result, and an element keeps its fields if it has a `name` or a value that no other one has. A
    /// default of the Rust type is not written.
    ///
    /// *Required.* The API server may call it again with its own result, so a second call changes nothing.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if `path` does not begin with a slash, or another webhook has this path.
    pub fn mutate<T, F, Fut, E>(
        self,
        path: impl Into<String>,
        handler: F,
    ) -> Result<Self, RouteError>
    where
        T: Resource + Serialize + DeserializeOwned + Send + 'static,
        F: Fn(T, AdmissionRequest<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send,
        E: Into<AdmissionError>,
    {
        let handler = Arc::new(handler);
        self.route(path.into(), move |request| {
            let handler = Arc::clone(&handler);
            async move { admission::mutate(&*handler, request).await }
        })
    }

    /// Adds a conversion webhook, which converts the objects of one kind. Kinds can share a path: each
    /// object is converted by the conversion of its group and kind.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if `path` does not begin with a slash, or another webhook has this path, such as a
    /// conversion of the same kind.
    pub fn convert<H>(
        mut self,
        path: impl Into<String>,
        conversion: Conversion<H>,
    ) -> Result<Self, RouteError>
    where
        H: Resource<DynamicType = ()> + Serialize + DeserializeOwned + 'static,
    {
        let path = path.into();
        let mut conversions = self.conversions.remove(&path).unwrap_or_default();
        if !conversions.is_empty() {
            self.routes.remove(&path);
        }
        if !conversions.add(conversion) {
            return Err(RouteError::Taken { path });
        }
        let route = conversions.clone();
        let mut server = self.route(path.clone(), move |request| {
            let conversions = route.clone();
            async move { conversions.answer(request).await }
        })?;
        server.conversions.insert(path, conversions);
        Ok(server)
    }

    fn route(mut self, path: String, route: impl Route) -> Result<Self, RouteError> {
        self.routes.add(path, route)?;
        Ok(self)
    }

    pub(crate) fn metrics(&self) -> WebhookMetrics {
        self.metrics.clone()
    }

    /// Starts the server.
    pub(crate) fn serve(self) -> Result<Serving, AdminError> {
        if is_host_simulated() {
            return Ok(Serving::nothing());
        }
        let tls = Tls::load(self.files)?.count_errors(self.metrics.certificate_errors());
        let responder = Responder {
            routes: self.routes,
            conversions: self.conversions.into_keys().collect(),
            metrics: self.metrics,
            refusals: LogLimit::default(),
            call: RouteCall {
                limits: self.limits,
                // That of the path, which includes the handler.
                body_timeout: Duration::MAX,
                operator_runtime: Handle::current(),
            },
        };
        Serving::begin(vec![Port {
            listen: self.listen,
            tls: Some(Arc::new(tls)),
            responder,
        }])
    }
}

impl Route for WebhookServer {
    async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        match self.routes.get(request.uri().path()) {
            Some(route) => Arc::clone(route).answer(request).await,
            None => not_found(&self.routes),
        }
    }
}

impl fmt::Debug for WebhookServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookServer")
            .field("listen", &self.listen)
            .field("files", &self.files)
            .field("limits", &self.limits)
            .field("paths", &self.routes.paths().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
