//! The line between a client and its server, which a test can cut, hold and listen to.

use std::{
    fmt,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use http::{Request, Response};
use http_body_util::{BodyExt as _, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use tokio::sync::watch;
use tower::{BoxError, Layer, Service};

/// The line between one client and its server. Clones are the same line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Counts cuts, so that a stream knows which came after it.
    cuts: watch::Sender<u64>,
    held: watch::Sender<bool>,
    /// Requests that contain this wait.
    paused: watch::Sender<Option<String>>,
    heard: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
pub(crate) struct OnLine<S> {
    inner: S,
    line: Line,
}

// === impl Line ===

impl Line {
    pub(crate) fn new() -> Self {
        Self {
            cuts: watch::Sender::new(0),
            held: watch::Sender::new(false),
            paused: watch::Sender::new(None),
            heard: Arc::default(),
        }
    }

    /// Ends all watches that run, cleanly and at once.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Lets no list and no watch begin, until [`release`](Self::release).
    pub(crate) fn hold(&self) {
        self.held.send_replace(true);
    }

    pub(crate) fn release(&self) {
        self.held.send_replace(false);
    }

    /// Lets no request that contains `part` begin, until [`resume`](Self::resume).
    pub(crate) fn pause_at(&self, part: &str) {
        self.paused.send_replace(Some(part.to_owned()));
    }

    pub(crate) fn resume(&self) {
        self.paused.send_replace(None);
    }

    /// Every list and watch that was asked for, as its path and query.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard
            .lock()
            .expect("no thread panics while it holds the lock")
            .clone()
    }

    /// How many times something that contains `part` was asked for.
    pub(crate) fn count(&self, part: &str) -> usize {
        let heard = self.heard();
        heard.iter().filter(|url| url.contains(part)).count()
    }
}

impl<S> Layer<S> for Line {
    type Service = OnLine<S>;

    fn layer(&self, inner: S) -> OnLine<S> {
        OnLine {
            inner,
            line: self.clone(),
        }
    }
}

// === impl OnLine ===

impl<S, B> Service<Request<Body>> for OnLine<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let url = request.uri().to_string();
        let reads = request.method() == http::Method::GET;
        let watches = url.contains("watch=true");
        // Nothing is sent before this is polled.
        let answer = self.inner.call(request);
        let line = self.line.clone();
        async move {
            if reads && url.contains('?') {
                let mut held = line.held.subscribe();
                held.wait_for(|held| !held).await?;
                let mut paused = line.paused.subscribe();
                let passes =
                    |part: &Option<String>| part.as_ref().is_none_or(|part| !url.contains(part));
                paused.wait_for(passes).await?;
                line.heard
                    .lock()
                    .expect("no thread panics while it holds the lock")
                    .push(url);
            }
            let mut cuts = line.cuts.subscribe();
            let now = *cuts.borrow_and_update();
            let answer = answer.await.map_err(Into::into)?;
            Ok(answer.map(|body| {
                let body = body.map_err(Into::into);
                if !watches {
                    return body.boxed_unsync();
                }
                let cut = async move { _ = cuts.wait_for(|cuts| *cuts > now).await };
                StreamBody::new(BodyStream::new(body).take_until(cut.boxed())).boxed_unsync()
            }))
        }
        .boxed()
    }
}

impl<S> fmt::Debug for OnLine<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnLine").finish_non_exhaustive()
    }
}
