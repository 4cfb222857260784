//! Requests of finalizer writes: sent once, within limits, and not sooner than the server asks for.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client,
    client::{Body, retry::RetryPolicy},
};
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Layer as _, ServiceExt as _, retry::RetryLayer};
use windlass_controller::{
    Failure, FinalizerName, Finalizers, InformerController, NeverRetry, OpinionatedReconciler,
    Outcome, Request as Call,
};
use windlass_informer::{Informer, Scripted};

/// A server with one answer to every write. It records the times of the writes.
#[derive(Clone)]
struct Server {
    answer: Answer,
    asked: Arc<Mutex<Vec<Duration>>>,
    /// The number of calls of the handler.
    calls: Arc<AtomicUsize>,
}

#[derive(Clone, Debug)]
enum Answer {
    /// A refusal with this status, this header and this delay in its body.
    Refusal(u16, Option<&'static str>, Option<&'static str>),
    /// No response.
    Never,
    /// A head, and the beginning of an endless body.
    HalfBody,
    /// A success with a body of this many bytes.
    Long(usize),
}

type Answered = UnsyncBoxBody<Bytes, Infallible>;

// === impl Server ===

impl Server {
    /// The times at which `answer` was requested within an hour, since the first request.
    async fn times(answer: Answer) -> Vec<u64> {
        let server = Self::new(answer);
        server.run_for_an_hour().await;
        let asked = server.asked.lock().expect("no panic").clone();
        asked
            .iter()
            .map(|at| at.saturating_sub(asked[0]).as_secs())
            .collect()
    }

    fn new(answer: Answer) -> Self {
        Self {
            answer,
            asked: Arc::default(),
            calls: Arc::default(),
        }
    }

    async fn run_for_an_hour(&self) {
        let (stop, run) = self.run().await;
        // In virtual time: longer than any retry.
        sleep(Duration::from_secs(3600)).await;
        stop.cancel();
        run.abort();
    }

    /// A client with kube's own retries, which are on by default.
    fn client(&self) -> Client {
        let (server, began) = (self.clone(), Instant::now());
        let service = tower::service_fn(move |_: Request<Body>| {
            let mut asked = server.asked.lock().expect("no panic");
            asked.push(began.elapsed());
            let answer = server.answer.clone();
            async move { Ok::<_, Infallible>(answer.response().await) }
        });
        let retries = RetryLayer::new(RetryPolicy::server_retry());
        Client::new(retries.layer(service.map_err(BoxError::from)), "default")
    }

    /// Runs a controller that guards one object.
    async fn run(&self) -> (CancellationToken, JoinHandle<()>) {
        let name = FinalizerName::new("example.io/publisher").expect("a name");
        let finalizers = Finalizers::<ConfigMap>::new(self.client(), name).expect("valid");
        let calls = Arc::clone(&self.calls);
        let handler = move |_: Call<ConfigMap>| {
            calls.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, Failure>(Outcome::done()) }
        };
        let controller = InformerController::builder()
            .retry_policy(NeverRetry)
            .on_error(|_| {})
            .build()
            .expect("valid settings");
        let (script, source) = Scripted::<ConfigMap>::new();
        let configs = controller.kind("configs").expect("a new kind");
        let added = controller.add_informer(&configs, &Informer::new(source));
        added.expect("new");
        controller
            .add_reconciler(&configs, OpinionatedReconciler::new(finalizers, handler))
            .expect("a name");
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await.expect("it stops") }
        });
        let mut object = ConfigMap::default();
        object.metadata.name = Some("web".to_owned());
        object.metadata.uid = Some("u".to_owned());
        script.list(vec![object]).await.expect("it runs");
        // A dropped script ends the watch.
        std::mem::forget(script);
        (stop, run)
    }
}

// === impl Answer ===

impl Answer {
    async fn response(self) -> Response<Answered> {
        match self {
            Self::Refusal(status, header, seconds) => {
                let seconds = seconds.unwrap_or("null");
                let body = format!(
                    "{{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"TooManyRequests\",\
                     \"details\":{{\"retryAfterSeconds\":{seconds}}}}}"
                );
                let mut answer = Response::new(whole(body));
                *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
                if let Some(header) = header {
                    let header = header.parse().expect("a header");
                    answer.headers_mut().insert(RETRY_AFTER, header);
                }
                answer
            }
            Self::Never => pending().await,
            Self::HalfBody => {
                let begun = stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]);
                let body = StreamBody::new(begun.chain(stream::pending()));
                Response::new(body.boxed_unsync())
            }
            Self::Long(length) => {
                let object = json!({ "metadata": { "name": "x".repeat(length) } });
                Response::new(whole(object.to_string()))
            }
        }
    }
}

fn whole(body: String) -> Answered {
    Full::from(body).boxed_unsync()
}

/// The retry delay of an API server is the minimum delay, but it cannot stop a controller for a
/// day. Kube's own retries would wait within the call, and block one of the controller's workers.
///
/// Rows: BO-51
#[tokio::test(start_paused = true)]
async fn a_finalizer_write_is_repeated_after_the_retry_delay_of_the_server_and_at_most_five_minutes()
 {
    let day = "86400";
    for status in [429, 503, 504] {
        // Without a demand, the first delay of a finalizer: a second, with jitter.
        for (header, body, wait) in [
            (None, None, 0),
            (Some("20"), None, 20),
            (None, Some("20"), 20),
            (Some(day), None, 300),
            (None, Some(day), 300),
            (Some("18446744073709551615"), None, 300),
            (None, Some("18446744073709551615"), 300),
            (None, Some("1e23"), 300),
            (Some("0"), Some("0"), 0),
            (Some("-5"), Some("-5"), 0),
            (Some("soon"), None, 0),
        ] {
            let answer = Answer::Refusal(status, header, body);
            let times = Server::times(answer.clone()).await;
            let second = times.get(1).expect("a retry");
            assert!((wait..=wait + 1).contains(second), "{answer:?}: {times:?}");
        }
    }
}

/// A connection that is half open does not keep a worker.
#[tokio::test(start_paused = true)]
async fn a_finalizer_write_without_a_complete_response_times_out_after_half_a_minute() {
    for answer in [Answer::Never, Answer::HalfBody] {
        let times = Server::times(answer.clone()).await;
        let second = times.get(1).expect("a retry");
        assert!((30..=31).contains(second), "{answer:?}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_response_to_a_finalizer_write_is_not_kept() {
    for (length, is_read) in [(1_000_000, true), (17 * 1024 * 1024, false)] {
        let server = Server::new(Answer::Long(length));
        server.run_for_an_hour().await;
        let is_called = server.calls.load(Ordering::SeqCst) > 0;
        assert_eq!(is_called, is_read, "{length} bytes");
    }
}
