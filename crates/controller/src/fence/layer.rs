//! `FenceLayer`: a tower layer that refuses writes while a fence is closed.

use std::{
    future::{Future, poll_fn},
    sync::atomic::Ordering,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Method, Request, header};
use tower::{BoxError, Layer, Service};

use super::Fence;

/// Refuses all requests except GET, HEAD and OPTIONS while a [`Fence`] is closed, and all requests
/// with an `Upgrade` header: `exec`, `attach` and `portforward` are sent with GET.
///
/// A request without a response is dropped when the fence closes: if it waited for a connection, it
/// is not sent, also if the machine was suspended at the deadline.
///
/// For clients that are built from layers. [`Fence::client`] and [`Fence::connect`] return complete
/// clients.
#[derive(Clone, Debug)]
pub struct FenceLayer {
    fence: Fence,
}

/// A service behind a [`FenceLayer`].
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    inner: S,
    fence: Fence,
}

/// A write in progress. Counted by the fence if it is dropped without a response.
struct WriteInProgress {
    fence: Fence,
    /// Whether it has a response, or is a write of an Event.
    is_harmless: bool,
}

// === impl FenceLayer ===

impl FenceLayer {
    /// Creates a layer that needs permits of `fence` for writes.
    #[must_use]
    pub const fn new(fence: Fence) -> Self {
        Self { fence }
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced {
            inner,
            fence: self.fence.clone(),
        }
    }
}

// === impl Fenced ===

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>>,
    S::Future: Future<Output = Result<S::Response, S::Error>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if is_read(&request) {
            return self
                .inner
                .call(request)
                .map(|it| it.map_err(Into::into))
                .boxed();
        }
        let name = format!("{} {}", request.method(), request.uri().path());
        let permit = match self.fence.try_permit() {
            Ok(permit) => permit,
            Err(refused) => {
                let refused: BoxError = refused.of_request(&name).into();
                return futures::future::ready(Err(refused)).boxed();
            }
        };
        let fence = self.fence.clone();
        let write = WriteInProgress {
            fence: fence.clone(),
            // One that is applied late disturbs no other leader.
            is_harmless: is_event(request.uri().path()),
        };
        let mut answer = Box::pin(self.inner.call(request));
        async move {
            // Dropped after `write`: the count is right when no permit is in use.
            let _permit = permit;
            let mut write = write;
            let refused = || Err(fence.refusal().of_request(&name).into());
            // Checked before each poll: the timer of `closed` stands still while the machine is
            // suspended, and the connection that the request waits for may be ready before it.
            let answer = poll_fn(|cx| {
                if !fence.is_open() {
                    return Poll::Ready(refused());
                }
                answer.as_mut().poll(cx).map_err(Into::into)
            });
            tokio::select! {
                biased;
                () = fence.closed() => refused(),
                answer = answer => {
                    write.is_harmless = true;
                    answer
                }
            }
        }
        .boxed()
    }
}

// === impl WriteInProgress ===

impl Drop for WriteInProgress {
    fn drop(&mut self) {
        if !self.is_harmless {
            (self.fence.shared.abandoned).fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Whether `request` changes nothing on the server. An upgraded connection can change anything.
pub(super) fn is_read<B>(request: &Request<B>) -> bool {
    matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    ) && !request.headers().contains_key(header::UPGRADE)
}

/// Whether `path` is that of an Event.
fn is_event(path: &str) -> bool {
    path.starts_with("/apis/events.k8s.io/")
}
