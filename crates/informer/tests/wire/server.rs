//! A scripted server that records the time of each request.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, future::BoxFuture, stream};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use tokio::{sync::watch, time::Instant};
use tower::Service;

type Chunks = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, io::Error>> + Send>>;

/// One answer.
pub(crate) struct Answer {
    status: u16,
    retry_after: Option<String>,

    /// Each after a wait.
    chunks: Vec<(Duration, Vec<u8>)>,
    end: End,
    is_html: bool,
}

enum End {
    /// The body ends.
    Ends,
    /// The body is silent for an hour, and ends.
    Hangs,
    /// The body is silent forever: no timer of the server moves the paused clock.
    HangsForGood,
    /// The connection breaks after a wait.
    Breaks(Duration, io::ErrorKind),
    /// Not even the head comes.
    Never,
    /// The connection is refused.
    Refused,
    /// The same chunk comes again and again, each after a wait.
    Repeats(Duration, Vec<u8>),
}

/// The `Retry-After` header: seconds, in the range of a number or not.
pub(crate) struct RetryAfter(String);

/// The answer to a path and query after the end of the script.
type Otherwise = Arc<dyn Fn(&str) -> Answer + Send + Sync>;

/// Clones are the same server.
#[derive(Clone)]
pub(crate) struct Server {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    otherwise: Option<Otherwise>,
    requests: watch::Sender<Vec<(Instant, String)>>,
    headers: Arc<Mutex<Vec<HeaderMap>>>,
}

// === impl Answer ===

impl Answer {
    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self {
            status,
            retry_after: None,
            is_html: false,
            chunks: vec![(Duration::ZERO, body.as_bytes().to_vec())],
            end: End::Ends,
        }
    }

    /// A page of a proxy.
    pub(crate) fn html(status: u16) -> Self {
        Self {
            is_html: true,
            ..Self::json(status, "<html><body>Welcome</body></html>")
        }
    }

    pub(crate) fn watch(chunks: Vec<Vec<u8>>) -> Self {
        let chunks = chunks.into_iter().map(|chunk| (Duration::ZERO, chunk));
        Self {
            chunks: chunks.collect(),
            ..Self::json(200, "")
        }
    }

    pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> Self {
        let lines = lines.into_iter().map(|line| (line + "\n").into_bytes());
        Self::watch(lines.collect())
    }

    pub(crate) fn never() -> Self {
        Self {
            end: End::Never,
            ..Self::json(200, "")
        }
    }

    pub(crate) fn refused() -> Self {
        Self {
            end: End::Refused,
            ..Self::json(200, "")
        }
    }

    pub(crate) fn then(self, chunk: &str) -> Self {
        self.then_after(Duration::ZERO, chunk)
    }

    pub(crate) fn then_after(mut self, wait: Duration, chunk: &str) -> Self {
        self.chunks.push((wait, chunk.as_bytes().to_vec()));
        self
    }

    /// `chunk` comes every `period`, without end.
    pub(crate) fn then_repeat(self, period: Duration, chunk: &str) -> Self {
        Self {
            end: End::Repeats(period, chunk.as_bytes().to_vec()),
            ..self
        }
    }

    pub(crate) fn then_hang(self) -> Self {
        Self {
            end: End::Hangs,
            ..self
        }
    }

    pub(crate) fn then_hang_for_good(self) -> Self {
        Self {
            end: End::HangsForGood,
            ..self
        }
    }

    pub(crate) fn then_break(self, wait: Duration, error: io::ErrorKind) -> Self {
        Self {
            end: End::Breaks(wait, error),
            ..self
        }
    }

    pub(crate) fn retry_after(self, seconds: impl Into<RetryAfter>) -> Self {
        Self {
            retry_after: Some(seconds.into().0),
            ..self
        }
    }

    fn respond(self) -> Response<StreamBody<Chunks>> {
        let after = |(wait, chunk): (Duration, Vec<u8>)| async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            Ok(Frame::data(Bytes::from(chunk)))
        };
        let chunks = stream::iter(self.chunks).then(after);
        let end = match self.end {
            End::Repeats(period, chunk) => stream::repeat((period, chunk)).then(after).boxed(),
            End::Ends | End::Never | End::Refused => stream::empty().boxed(),
            End::Hangs => stream::once(tokio::time::sleep(Duration::from_secs(3600)))
                .filter_map(|()| async { None })
                .boxed(),
            End::HangsForGood => stream::pending().boxed(),
            End::Breaks(wait, error) => stream::once(async move {
                tokio::time::sleep(wait).await;
                Err(error.into())
            })
            .boxed(),
        };
        let mut answer = Response::builder().status(self.status);
        if self.is_html {
            answer = answer.header("Content-Type", "text/html; charset=utf-8");
        }
        if let Some(seconds) = self.retry_after {
            answer = answer.header("Retry-After", seconds);
        }
        let body: Chunks = chunks.chain(end).boxed();
        answer.body(StreamBody::new(body)).expect("an answer")
    }
}

// === impl RetryAfter ===

impl From<u64> for RetryAfter {
    fn from(seconds: u64) -> Self {
        Self(seconds.to_string())
    }
}

impl From<&str> for RetryAfter {
    fn from(seconds: &str) -> Self {
        Self(seconds.to_owned())
    }
}

// === impl Server ===

impl Server {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            otherwise: None,
            requests: watch::Sender::new(Vec::new()),
            headers: Arc::default(),
        }
    }

    /// Answers with `otherwise` when the script is over.
    pub(crate) fn otherwise(
        self,
        otherwise: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self {
            otherwise: Some(Arc::new(otherwise)),
            ..self
        }
    }

    /// When was asked what.
    pub(crate) fn requests(&self) -> Vec<(Instant, String)> {
        self.requests.borrow().clone()
    }

    /// The headers of each request.
    pub(crate) fn headers(&self) -> Vec<HeaderMap> {
        let headers = self.headers.lock();
        headers
            .expect("no thread panics while it holds the lock")
            .clone()
    }

    pub(crate) async fn received(&self, count: usize) {
        let mut requests = self.requests.subscribe();
        let enough = requests.wait_for(|requests| requests.len() >= count);
        enough.await.expect("the server lives");
    }
}

impl Service<Request<Body>> for Server {
    type Response = Response<StreamBody<Chunks>>;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let uri = request.uri().to_string();
            if uri == "/api/v1" || uri == "/api/v1/namespaces/default" {
                // The discovery document and the namespace, which are no part of a script.
                let missing = r#"{"kind":"Status","reason":"NotFound","code":404}"#;
                return Ok(Answer::json(404, missing).respond());
            }
            let asked = (Instant::now(), uri.clone());
            server
                .headers
                .lock()
                .expect("no thread panics while it holds the lock")
                .push(request.headers().clone());
            server.requests.send_modify(|requests| requests.push(asked));
            let answer = server
                .answers
                .lock()
                .expect("no thread panics while it holds the lock")
                .pop_front();
            let otherwise = server.otherwise.as_ref();
            let answer = answer.or_else(|| Some(otherwise?(&uri)));
            match answer {
                Some(answer) if matches!(answer.end, End::Refused) => {
                    Err(io::Error::from(io::ErrorKind::ConnectionRefused).into())
                }
                Some(answer) if !matches!(answer.end, End::Never) => Ok(answer.respond()),
                // The script is over: nothing more happens.
                _ => std::future::pending().await,
            }
        })
    }
}
