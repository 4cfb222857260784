//! Pages that you add.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};

use super::{AdminServer, Pages, RouteError, page::Page};

/// A page of an [`AdminServer`](super::AdminServer): answers the requests for one path.
///
/// # Contract
///
/// *Guaranteed.* It is called for each request, with the complete body (at most
/// [`AdminLimits::body`](super::AdminLimits::body)), on the runtime of the operator. If it panics, the response is 500.
///
/// *Not guaranteed.* The future may not run to completion: it is dropped when the client closes the
/// connection or the operator ends.
///
/// Every `Fn(Request<Bytes>) -> impl Future<Output = Response<Bytes>>` is a route.
///
/// # Example
///
/// ```
/// use windlass_operator::{
///     Route,
///     bytes::Bytes,
///     http::{Request, Response},
/// };
///
/// struct Version;
///
/// impl Route for Version {
///     async fn answer(&self, _: Request<Bytes>) -> Response<Bytes> {
///         Response::new("1.2.3".into())
///     }
/// }
/// ```
pub trait Route: Send + Sync + 'static {
    /// Returns the response to `request`.
    fn answer(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send;
}

/// A [`Route`] with its type erased.
pub(crate) trait ErasedRoute: Send + Sync {
    fn answer(self: Arc<Self>, request: Request<Bytes>) -> BoxFuture<'static, Response<Bytes>>;
}

/// Routes by path.
#[derive(Default)]
pub(crate) struct Routes(BTreeMap<String, Arc<dyn ErasedRoute>>);

// === impl AdminServer ===

impl AdminServer {
    /// Adds a page. `route` answers all requests for exactly this path, of every method.
    ///
    /// *Not guaranteed.* Any authentication: [`authorize_metrics`](Self::authorize_metrics) does not apply
    /// to it. With [`metrics_on`](Self::metrics_on) it is on the port of the probes, without TLS. A page
    /// that not every client of that port may see is a [`metrics_route`](Self::metrics_route).
    ///
    /// # Errors
    ///
    /// [`RouteError`] if `path` does not begin with a slash, or another page has this path.
    pub fn route(mut self, path: impl Into<String>, route: impl Route) -> Result<Self, RouteError> {
        let path = self.free(path.into())?;
        self.pages.routes.add(path, route)?;
        Ok(self)
    }

    /// Adds a page on the port of the metrics, with its TLS, like controller-runtime's
    /// `AddMetricsServerExtraHandler`. `route` answers all requests for exactly this path, of every method.
    ///
    /// With [`authorize_metrics`](Self::authorize_metrics), a client needs a token of Kubernetes that may
    /// `get` this path as a non-resource URL; for other methods than GET and HEAD the verb is the method,
    /// such as `post`. With [`without_metrics`](Self::without_metrics) the page is not served.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if `path` does not begin with a slash, or another page has this path.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_operator::{AdminServer, Listen, bytes::Bytes, http::Response};
    ///
    /// let server = AdminServer::new(Listen::port(8080))
    ///     .metrics_on(Listen::port(8443))
    ///     .metrics_route("/debug/cache", |_| async { Response::new(Bytes::from("42 entries")) })?;
    /// // It has one page for a path.
    /// let page = |_| async { Response::new(Bytes::new()) };
    /// assert!(server.route("/debug/cache", page).is_err());
    /// # Ok::<(), windlass_operator::RouteError>(())
    /// ```
    pub fn metrics_route(
        mut self,
        path: impl Into<String>,
        route: impl Route,
    ) -> Result<Self, RouteError> {
        let path = self.free(path.into())?;
        self.pages.metrics_routes.add(path, route)?;
        Ok(self)
    }

    /// Returns `path` if no page has it.
    fn free(&self, path: String) -> Result<String, RouteError> {
        let Pages {
            routes,
            metrics_routes,
            ..
        } = &self.pages;
        let is_taken = [routes, metrics_routes]
            .iter()
            .any(|it| it.get(&path).is_some());
        if is_taken || Page::at(&path).is_some() {
            return Err(RouteError::Taken { path });
        }
        Ok(path)
    }
}

// === impl Routes ===

impl Routes {
    /// Adds a route for a path that no other route has.
    pub(crate) fn add(&mut self, path: String, route: impl Route) -> Result<(), RouteError> {
        if !path.starts_with('/') || path.contains(['?', '#']) {
            return Err(RouteError::NoPath { path });
        }
        if self.0.contains_key(&path) {
            return Err(RouteError::Taken { path });
        }
        self.0.insert(path, Arc::new(route));
        Ok(())
    }

    #[cfg(feature = "webhook")]
    pub(crate) fn remove(&mut self, path: &str) {
        self.0.remove(path);
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Arc<dyn ErasedRoute>> {
        self.0.get(path)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

// === impl Route ===

impl<F, Fut> Route for F
where
    F: Fn(Request<Bytes>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Response<Bytes>> + Send,
{
    fn answer(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send {
        self(request)
    }
}

// === impl ErasedRoute ===

impl<R: Route> ErasedRoute for R {
    fn answer(self: Arc<Self>, request: Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> {
        async move { Route::answer(&*self, request).await }.boxed()
    }
}
