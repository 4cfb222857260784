//! Pages that you add.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};

/// A page of an [`AdminServer`](super::AdminServer): answers the requests for one path.
///
/// # Contract
///
/// *Guaranteed.* It is called for each request, with the complete body (at most 1 MiB), on the
/// runtime of the operator. If it panics, the response is 500.
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
pub(super) trait ErasedRoute: Send + Sync {
    fn answer(self: Arc<Self>, request: Request<Bytes>) -> BoxFuture<'static, Response<Bytes>>;
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
