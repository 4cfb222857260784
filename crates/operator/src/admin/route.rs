//! Pages that users add.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};

/// Answers the requests for one path.
///
/// # Contract
///
/// *Guaranteed.* It is called for each request, with its whole body, which is at most 1 MiB, on the
/// runtime of the operator. If it panics, the answer is 500.
///
/// *Not guaranteed.* That its future is polled to its end: it is dropped if the client closes the
/// connection, or the operator ends.
///
/// Every `Fn(Request<Bytes>) -> impl Future<Output = Response<Bytes>>` is a route.
///
/// # Example
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use windlass_operator::Route;
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
    /// Answers `request`.
    fn answer(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send;
}

/// A [`Route`] with its type erased.
pub(super) trait AnyRoute: Send + Sync {
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

// === impl AnyRoute ===

impl<R: Route> AnyRoute for R {
    fn answer(self: Arc<Self>, request: Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> {
        async move { Route::answer(&*self, request).await }.boxed()
    }
}
