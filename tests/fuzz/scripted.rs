//! An informer of config maps with a scripted API server.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, future::BoxFuture, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower::Service;
use windlass_informer::{Informer, InformerError, Source, Stored};

type Chunks = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;

/// The chunks of the body for a request, by its URI.
type Answer = dyn FnMut(&str) -> Option<Vec<Bytes>> + Send;

/// Answers requests with bodies in chunks. A request without a body is not answered.
#[derive(Clone)]
pub(crate) struct Script {
    answer: Arc<Mutex<Answer>>,
    requests: Arc<Mutex<Vec<String>>>,
}

/// An informer that runs against a script.
pub(crate) struct Running<K: Stored> {
    pub(crate) informer: Informer<K>,
    script: Script,
    task: AbortOnDropHandle<Result<(), InformerError>>,
}

// === impl Script ===

impl Script {
    /// Answers with one body after the other.
    pub(crate) fn new(bodies: impl IntoIterator<Item = Vec<Bytes>>) -> Self {
        let mut bodies: VecDeque<Vec<Bytes>> = bodies.into_iter().collect();
        Self::answering(move |_| bodies.pop_front())
    }

    /// Answers a request for a URI with what `answer` returns.
    pub(crate) fn answering(
        answer: impl FnMut(&str) -> Option<Vec<Bytes>> + Send + 'static,
    ) -> Self {
        Self {
            answer: Arc::new(Mutex::new(answer)),
            requests: Arc::default(),
        }
    }

    /// A client of this server.
    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }
}

impl Service<Request<Body>> for Script {
    type Response = Response<StreamBody<Chunks>>;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let script = self.clone();
        Box::pin(async move {
            let uri = request.uri().to_string();
            let body = (script.answer.lock().expect("no panic"))(&uri);
            script.requests.lock().expect("no panic").push(uri);
            let Some(body) = body else {
                return std::future::pending().await;
            };
            let chunks = body.into_iter().map(|chunk| Ok(Frame::data(chunk)));
            let chunks: Chunks = stream::iter(chunks).boxed();
            Ok(Response::new(StreamBody::new(chunks)))
        })
    }
}

// === impl Running ===

impl<K: Stored> Running<K> {
    /// Runs an informer for a minute of virtual time.
    pub(crate) async fn for_a_minute(script: Script, source: impl Source<K>) -> Self {
        Self::within(script, Informer::new(source), Duration::from_secs(60)).await
    }

    /// Runs `informer` for `time` of virtual time.
    pub(crate) async fn within(script: Script, informer: Informer<K>, time: Duration) -> Self {
        let running = informer.clone();
        let task = tokio::spawn(async move { running.run(CancellationToken::new()).await });
        let mut task = AbortOnDropHandle::new(task);
        // A panic of the informer ends the task with an error.
        if let Ok(ended) = timeout(time, &mut task).await {
            let ended = ended.expect("the informer does not panic");
            assert!(ended.is_err(), "an informer runs until it is stopped");
        }
        Self {
            informer,
            script,
            task,
        }
    }

    /// The requests that were sent.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.script.requests.lock().expect("no panic").clone()
    }

    /// Whether the informer has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

/// The objects of a store as text, by key. Those that cannot be decoded are left out.
pub(crate) fn contents<K: Stored + serde::Serialize>(
    informer: &Informer<K>,
) -> BTreeMap<String, String> {
    let store = informer.store();
    let objects = store.keys().into_iter().filter_map(|key| {
        let object = store.get(&key)?;
        let text = serde_json::to_string(&*object).expect("objects have a JSON form");
        Some((key.to_string(), text))
    });
    objects.collect()
}

/// `text` cut into chunks whose lengths are `cuts`, again and again.
pub(crate) fn cut(text: &[u8], cuts: &[u8]) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(text);
    let mut chunks = Vec::new();
    let mut lengths = cuts.iter().map(|length| usize::from(*length) + 1).cycle();
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(rest.len()).min(rest.len());
        chunks.push(rest.split_to(length));
    }
    chunks
}
