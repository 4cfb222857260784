//! The default backoff of a watch.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, client::Body};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use windlass_runtime::{
    controller::{Action, Controller},
    watcher,
};

/// The body of a response.
type Answer = UnsyncBoxBody<Bytes, std::io::Error>;

fn whole(text: &'static str) -> Answer {
    let body = Full::new(Bytes::from_static(text.as_bytes()));
    body.map_err(|never| match never {}).boxed_unsync()
}

/// A server that fails, or lists no objects and watches until `ends` is notified.
#[derive(Default)]
struct Server {
    fails: AtomicBool,
    ends: Notify,
    requests: Mutex<Vec<Instant>>,
}

impl Server {
    fn answer(self: Arc<Self>, request: &Request<Body>) -> Response<Answer> {
        self.requests.lock().push(Instant::now());
        let status = |code| Response::builder().status(code).body(whole(""));
        let query = request.uri().query().unwrap_or_default().to_owned();
        if self.fails.load(Ordering::SeqCst) {
            status(500).expect("a response")
        } else if query.contains("sendInitialEvents") {
            status(422).expect("a response")
        } else if query.contains("watch=") {
            let end = async move {
                self.ends.notified().await;
                None::<Result<Frame<Bytes>, std::io::Error>>
            };
            let frames = end.into_stream().filter_map(std::future::ready);
            Response::new(StreamBody::new(frames).boxed_unsync())
        } else {
            let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
            Response::new(whole(list))
        }
    }

    /// The waits between the requests since the last call.
    fn waits(&self) -> Vec<f64> {
        let requests = std::mem::take(&mut *self.requests.lock());
        let pairs = requests.windows(2);
        pairs
            .map(|pair| (pair[1] - pair[0]).as_secs_f64())
            .collect()
    }
}

/// 0.8 s, doubled up to 30 s, each with jitter, and from the start again after two minutes without a
/// failure.
///
/// Rows: KR-13
#[tokio::test(start_paused = true)]
async fn the_default_backoff_is_that_of_client_go() {
    let server = Arc::<Server>::default();
    server.fails.store(true, Ordering::SeqCst);
    let answering = Arc::clone(&server);
    let service = tower::service_fn(move |request| {
        let server = Arc::clone(&answering);
        async move { Ok::<_, std::convert::Infallible>(server.answer(&request)) }
    });
    let configs = Api::<ConfigMap>::all(Client::new(service, "default"));
    let stream = Controller::new(configs, watcher::Config::default()).run(
        |_, _| async { Ok::<_, std::convert::Infallible>(Action::await_change()) },
        |_, _, _| Action::await_change(),
        Arc::new(()),
    );
    let polled = tokio::spawn(stream.for_each(|_| std::future::ready(())));

    sleep(Duration::from_secs(600)).await;
    let waits = server.waits();
    assert!(waits.len() > 15, "{waits:?}");
    let mut ceiling = 0.8_f64;
    for wait in &waits {
        assert!(
            (ceiling / 2.0 - 0.01..=ceiling + 0.01).contains(wait),
            "{ceiling}: {waits:?}"
        );
        ceiling = (ceiling * 2.0).min(30.0);
    }
    // Jitter: the waits at the cap differ.
    let capped = &waits[8..];
    assert!(
        capped.iter().any(|wait| (wait - capped[0]).abs() > 0.1),
        "{capped:?}"
    );

    server.fails.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(150)).await;
    server.fails.store(true, Ordering::SeqCst);
    _ = server.waits();
    server.ends.notify_waiters();
    sleep(Duration::from_secs(20)).await;
    let waits = server.waits();
    assert!(waits[0] <= 0.81 && waits.len() >= 4, "{waits:?}");
    assert!(!polled.is_finished());
    polled.abort();
}
