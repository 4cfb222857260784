//! Scrapes and probes: what the admin server asks the API server about them, what it reads, and
//! what it responds.

use std::{
    convert::Infallible,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::{Client, client::Body};
use prometheus::{
    IntCounter, IntGauge, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_operator::{AdminServer, Operator, OperatorBuilder, OperatorError};

const MIB: usize = 1024 * 1024;

/// A running operator, and the address of its admin server.
struct Running {
    address: SocketAddr,
    _run: AbortOnDropHandle<Result<(), OperatorError>>,
}

impl Running {
    fn start(builder: OperatorBuilder, server: impl FnOnce(AdminServer) -> AdminServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let operator = builder
            .admin_server(server(AdminServer::new(listener)))
            .build();
        let run = tokio::spawn(async move { operator.run_until(CancellationToken::new()).await });
        Self {
            address,
            _run: AbortOnDropHandle::new(run),
        }
    }

    /// The head and the body of the response to a request with these further header lines.
    async fn get(&self, path: &str, headers: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.address)
            .await
            .expect("a connection");
        let head =
            format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{headers}\r\n");
        // The server may respond, and close the connection, before it has read all of it.
        _ = stream.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        let read = timeout(Duration::from_secs(60), stream.read_to_end(&mut answer));
        _ = read.await.expect("the connection is closed");
        let answer = String::from_utf8(answer).expect("text");
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) => (head.to_ascii_lowercase(), body.to_owned()),
            None => (String::new(), answer),
        }
    }
}

/// A `ClusterRoleBinding` may name a group, and a webhook may look at anything.
#[tokio::test]
async fn a_scrape_is_authorized_as_the_user_with_all_groups_and_extra_fields() {
    let reviews = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&reviews);
    let user = json!({
        "username": "system:serviceaccount:monitoring:prometheus",
        "uid": "uid-of-prometheus",
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "extra": { "authentication.kubernetes.io/pod-name": ["prometheus-0"] },
    });
    let known = user.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (asked, user) = (Arc::clone(&asked), known.clone());
        async move {
            let body = request.into_body().collect().await.expect("a body");
            let mut review: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
            review["status"] = match review["kind"].as_str() {
                Some("TokenReview") => json!({ "authenticated": true, "user": user }),
                _ => json!({ "allowed": true }),
            };
            let answer = review.to_string();
            asked.lock().expect("no panic").push(review);
            Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::from(answer)))
        }
    });
    let client = Client::new(service, "default");
    let running = Running::start(Operator::builder(), |it| it.authorize_metrics(client));
    let (head, _) = running
        .get("/metrics", "authorization: Bearer prometheus\r\n")
        .await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let reviews = reviews.lock().expect("no panic").clone();
    assert_eq!(reviews[1]["kind"], "SubjectAccessReview");
    assert_eq!(
        reviews[1]["spec"],
        json!({
            "nonResourceAttributes": { "path": "/metrics", "verb": "get" },
            "user": user["username"],
            "uid": user["uid"],
            "groups": user["groups"],
            "extra": user["extra"],
        })
    );
}

/// A review is smaller than 1 MiB.
#[tokio::test]
async fn a_review_that_is_far_too_long_is_not_read_to_its_end() {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let long = tower::service_fn(move |_: http::Request<Body>| {
        let counted = Arc::clone(&counted);
        let review = json!({ "status": {
            "authenticated": true,
            "allowed": true,
            "user": { "username": "prometheus" },
        } });
        let spaces = Bytes::from(vec![b' '; MIB / 16]);
        let spaces = std::iter::repeat_n(spaces, 64 * 16);
        let chunks = std::iter::once(Bytes::from(review.to_string())).chain(spaces);
        let frames = chunks.map(move |chunk| {
            counted.fetch_add(chunk.len(), Ordering::SeqCst);
            Ok::<_, Infallible>(Frame::data(chunk))
        });
        let body = StreamBody::new(futures::stream::iter(frames));
        async move { Ok::<_, Infallible>(http::Response::new(body)) }
    });
    let client = Client::new(long, "default");
    let running = Running::start(Operator::builder(), |it| it.authorize_metrics(client));
    let (head, _) = running
        .get("/metrics", "authorization: Bearer prometheus\r\n")
        .await;
    assert!(head.starts_with("http/1.1 503"), "{head}");
    let read = read.load(Ordering::SeqCst);
    assert!(read <= 2 * MIB, "{read} bytes");
}

/// Prometheus 3 rejects a scrape whose content type it does not know.
#[tokio::test]
async fn the_page_of_metrics_says_its_format() {
    let registry = Registry::new();
    let counter = IntCounter::new("visits_total", "Visits.").expect("a name");
    registry.register(Box::new(counter)).expect("new");
    let running = Running::start(Operator::builder(), |it| it.registry(registry));
    let (head, page) = running.get("/metrics", "").await;
    let content_type = "content-type: text/plain; version=0.0.4";
    assert!(head.contains(content_type), "{head}");
    assert!(page.contains("visits_total 0"), "{page}");
}

/// 16 KiB are enough for any client.
#[tokio::test]
async fn a_request_with_a_head_of_32_kib_is_refused() {
    let running = Running::start(Operator::builder(), |it| it);
    let line = |bytes: usize| format!("x-padding: {}\r\n", "x".repeat(bytes));
    let (head, _) = running.get("/live", &line(8 * 1024)).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let (head, _) = running.get("/live", &line(32 * 1024)).await;
    assert!(!head.starts_with("http/1.1 200"), "{head}");
}

/// A collector that does not return until it is freed.
struct Stuck {
    gauge: IntGauge,
    is_free: Arc<AtomicBool>,
}

impl Collector for Stuck {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        while !self.is_free.load(Ordering::SeqCst) {
            // Blocks the thread, which is the subject of the test; nothing waits for this time.
            thread::sleep(Duration::from_millis(5));
        }
        self.gauge.collect()
    }
}

/// Frees the collector, so that a failed test ends.
struct Free(Arc<AtomicBool>);

impl Drop for Free {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The limit is 5 s, which the response names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrape_ends_with_an_error_while_a_collector_is_stuck() {
    let free = Free(Arc::default());
    let collector = Stuck {
        gauge: IntGauge::new("stuck", "Never read.").expect("a name"),
        is_free: Arc::clone(&free.0),
    };
    let registry = Registry::new();
    registry.register(Box::new(collector)).expect("new");
    let running = Running::start(Operator::builder(), |it| it.registry(registry));
    let (head, page) = running.get("/metrics", "").await;
    assert!(head.starts_with("http/1.1 500"), "{head}");
    assert!(page.contains("the collectors did not return"), "{page}");
    drop(free);
}
