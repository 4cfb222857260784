//! Pages of users.

use std::future::Future;

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};

/// Answers the requests for one path.
///
/// # Contract
///
/// *Promised.* It is called for each request, with its whole body, which is at most 1 MiB. If
/// it panics, that is answered with 500.
///
/// *Not promised.* That it is polled to its end: it is dropped if whoever asked hangs up, or
/// the operator ends.
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

/// A [`Route`] of whatever type.
pub(super) trait AnyRoute: Send + Sync {
    fn answer(&self, request: Request<Bytes>) -> BoxFuture<'_, Response<Bytes>>;
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
    fn answer(&self, request: Request<Bytes>) -> BoxFuture<'_, Response<Bytes>> {
        Route::answer(self, request).boxed()
    }
}
