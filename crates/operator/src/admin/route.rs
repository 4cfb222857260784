//! Pages that you add.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};

use super::RouteError;

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
