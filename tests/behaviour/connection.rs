//! A connection between a client and its server that a test can cut, pause and observe.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use http::{Request, Response};
use http_body_util::{BodyExt as _, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use tokio::{sync::watch, time::Instant};
use tower::{BoxError, Layer, Service};

/// The connection between one client and its server. Clones refer to the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The number of cuts so far. A stream ends when the number changes.
    cuts: watch::Sender<u64>,
    held: watch::Sender<bool>,
    /// Requests with this text in their URL wait.
    paused: watch::Sender<Option<String>>,
    /// Whether new lists and watches fail.
    refused: watch::Sender<bool>,
    requests: Arc<Mutex<Vec<(String, Instant)>>>,
    /// The number of requests that write.
    writes: Arc<AtomicUsize>,
    /// The number of running watches.
    watches: watch::Sender<usize>,
    /// Whether a watch has begun to run.
    has_watched: Arc<AtomicBool>,
}

/// Counts a watch until its response has ended or was dropped.
struct RunningWatch(watch::Sender<usize>);

#[derive(Clone)]
pub(crate) struct ConnectionService<S> {
    inner: S,
    connection: Connection,
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new() -> Self {
        Self {
            cuts: watch::Sender::new(0),
            held: watch::Sender::new(false),
            paused: watch::Sender::new(None),
            refused: watch::Sender::new(false),
            requests: Arc::default(),
            writes: Arc::default(),
            watches: watch::Sender::new(0),
            has_watched: Arc::default(),
        }
    }

    /// Ends all running watches immediately, without an error.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Blocks new lists and watches until [`release`](Self::release).
    pub(crate) fn hold(&self) {
        self.held.send_replace(true);
    }

    pub(crate) fn release(&self) {
        self.held.send_replace(false);
    }

    /// Blocks requests whose URL contains `part` until [`resume`](Self::resume).
    pub(crate) fn pause_at(&self, part: &str) {
        self.paused.send_replace(Some(part.to_owned()));
    }

    pub(crate) fn resume(&self) {
        self.paused.send_replace(None);
    }

    /// Lets new lists and watches fail until [`accept`](Self::accept).
    pub(crate) fn refuse(&self) {
        self.refused.send_replace(true);
    }

    pub(crate) fn accept(&self) {
        self.refused.send_replace(false);
    }

    /// Whether the response to a watch has begun, also if it has ended since.
    pub(crate) fn has_watched(&self) -> bool {
        self.has_watched.load(Ordering::SeqCst)
    }

    /// Waits until no watch is running.
    pub(crate) async fn no_watch_runs(&self) {
        let mut watches = self.watches.subscribe();
        let ended = watches.wait_for(|watches| *watches == 0).await;
        ended.expect("the connection exists");
    }

    /// The requested lists and watches, as path and query.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self
            .requests
            .lock()
            .expect("no thread panics while it holds the lock");
        requests.iter().map(|(url, _)| url.clone()).collect()
    }

    /// When the lists and watches were requested whose URL contains `part`.
    pub(crate) fn times(&self, part: &str) -> Vec<Instant> {
        let requests = self
            .requests
            .lock()
            .expect("no thread panics while it holds the lock");
        let requests = requests.iter().filter(|(url, _)| url.contains(part));
        requests.map(|(_, at)| *at).collect()
    }

    /// The number of requests that write.
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// The number of requested lists and watches whose URL contains `part`.
    pub(crate) fn count(&self, part: &str) -> usize {
        let requests = self.requests();
        requests.iter().filter(|url| url.contains(part)).count()
    }
}

impl<S> Layer<S> for Connection {
    type Service = ConnectionService<S>;

    fn layer(&self, inner: S) -> ConnectionService<S> {
        ConnectionService {
            inner,
            connection: self.clone(),
        }
    }
}

// === impl RunningWatch ===

impl RunningWatch {
    fn begin(watches: &watch::Sender<usize>) -> Self {
        watches.send_modify(|watches| *watches += 1);
        Self(watches.clone())
    }
}

impl Drop for RunningWatch {
    fn drop(&mut self) {
        self.0.send_modify(|watches| *watches -= 1);
    }
}

// === impl ConnectionService ===

impl<S, B> Service<Request<Body>> for ConnectionService<S>
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
        if !reads {
            self.connection.writes.fetch_add(1, Ordering::SeqCst);
        }
        // Nothing is sent before this is polled.
        let answer = self.inner.call(request);
        let connection = self.connection.clone();
        async move {
            // A cut also ends a watch whose request is in progress.
            let mut cuts = connection.cuts.subscribe();
            let now = *cuts.borrow_and_update();
            if reads && url.contains('?') {
                let mut held = connection.held.subscribe();
                held.wait_for(|held| !held).await?;
                let mut paused = connection.paused.subscribe();
                let passes =
                    |part: &Option<String>| part.as_ref().is_none_or(|part| !url.contains(part));
                paused.wait_for(passes).await?;
                connection
                    .requests
                    .lock()
                    .expect("no thread panics while it holds the lock")
                    .push((url, Instant::now()));
                if *connection.refused.borrow() {
                    return Err("refused by the test".into());
                }
            }
            let answer = answer.await.map_err(Into::into)?;
            Ok(answer.map(|body| {
                let body = body.map_err(Into::into);
                if !watches {
                    return body.boxed_unsync();
                }
                let running = RunningWatch::begin(&connection.watches);
                connection.has_watched.store(true, Ordering::SeqCst);
                let cut = async move { _ = cuts.wait_for(|cuts| *cuts > now).await };
                let frames = BodyStream::new(body).take_until(cut.boxed());
                let frames = frames.inspect(move |_| _ = &running);
                StreamBody::new(frames).boxed_unsync()
            }))
        }
        .boxed()
    }
}

impl<S> fmt::Debug for ConnectionService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionService").finish_non_exhaustive()
    }
}
