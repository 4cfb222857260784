//! Scrapes that the API server authorizes.

use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};
use windlass_operator::{AdminServer, Operator};

/// Captured log lines. All clones share them.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

/// Scrapes with these tokens, and checks the status of each response.
async fn check(client: Client, scrapes: &[(Option<&str>, u16)]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = AdminServer::new(listener).authorize_metrics(client);
    let operator = Operator::builder().admin_server(server).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    for (token, status) in scrapes {
        // On paused time: the unknown tokens of one address have one review a second.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(get(address, "/metrics", *token).await, *status, "{token:?}");
    }
    assert_eq!(
        get(address, "/live", None).await,
        200,
        "probes need no token"
    );
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

#[tokio::test(start_paused = true)]
async fn only_a_valid_and_allowed_token_can_read_the_metrics() {
    let asked = Arc::new(AtomicUsize::new(0));
    let scrapes = [
        (None, 401),
        (Some("unknown"), 401),
        (Some("known"), 403),
        (Some("prometheus"), 200),
        (Some("prometheus"), 200),
        (Some("known"), 403),
    ];
    check(api_server(&asked), &scrapes).await;
    // The reviews of three tokens, one of them invalid. The last two scrapes used cached decisions.
    assert_eq!(asked.load(Ordering::SeqCst), 5);
}

/// As the extra handlers of controller-runtime's metrics server.
#[tokio::test(start_paused = true)]
async fn a_page_beside_the_metrics_needs_a_token_and_other_pages_do_not() {
    let [probes, metrics] =
        ["127.0.0.1:0"; 2].map(|address| TcpListener::bind(address).expect("a port"));
    let [probe, scrape] =
        [&probes, &metrics].map(|listener| listener.local_addr().expect("an address"));
    let page = |_| async { http::Response::new(Bytes::from("a page")) };
    let asked = Arc::new(AtomicUsize::new(0));
    let server = AdminServer::new(probes)
        .metrics_on(metrics)
        .authorize_metrics(api_server(&asked))
        .route("/open", page)
        .and_then(|it| it.metrics_route("/closed", page))
        .expect("different paths");
    let operator = Operator::builder().admin_server(server).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    for (address, path, token, status) in [
        (scrape, "/closed", None, 401),
        (scrape, "/closed", Some("prometheus"), 200),
        (scrape, "/metrics", Some("prometheus"), 200),
        // It may read the metrics only.
        (scrape, "/metrics", Some("scraper"), 200),
        (scrape, "/closed", Some("scraper"), 403),
        (scrape, "/open", Some("prometheus"), 404),
        (probe, "/open", None, 200),
        (probe, "/closed", Some("prometheus"), 404),
    ] {
        // On paused time: the unknown tokens of one address have one review a second.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(get(address, path, token).await, status, "{path} {token:?}");
    }
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// The response to a review contains the token.
#[tokio::test(start_paused = true)]
async fn without_a_decision_metrics_are_refused_and_no_response_is_logged() {
    const CANARY: &str = "hunter2-canary";

    let log = Log::default();
    let _guard = log.capture();
    let review = json!({ "spec": { "token": CANARY }, "status": { "authenticated": [CANARY] } });
    let page = format!("<html>{}", CANARY.repeat(400_000));
    for (code, body, status) in [
        (200, review.to_string(), 401),
        (200, review.to_string().replace('}', ""), 503),
        (200, CANARY.to_owned(), 503),
        (200, page.clone(), 503),
        (200, String::new(), 503),
        (403, review.to_string(), 503),
        (429, CANARY.to_owned(), 503),
        (
            500,
            json!({ "message": CANARY, "details": { "name": CANARY } }).to_string(),
            503,
        ),
        (502, page, 503),
    ] {
        let answers = tower::service_fn(move |_: http::Request<Body>| {
            let mut answer = http::Response::new(Full::<Bytes>::from(body.clone()));
            *answer.status_mut() = http::StatusCode::from_u16(code).expect("a status");
            async { Ok::<_, Infallible>(answer) }
        });
        check(Client::new(answers, "default"), &[(Some(CANARY), status)]).await;
    }
    tracing::trace!("every level is captured");
    let log = log.text();
    assert!(log.contains("every level is captured"), "{log}");
    assert!(log.contains("cannot authorize a scrape"), "{log}");
    assert!(!log.contains(CANARY), "{log}");
}

#[tokio::test]
async fn reviews_of_unknown_tokens_are_rate_limited() {
    let asked = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = AdminServer::new(listener).authorize_metrics(api_server(&asked));
    let operator = Operator::builder().admin_server(server).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    let tokens: Vec<_> = (0..50).map(|number| format!("invented-{number}")).collect();
    let scrapes = tokens.iter().map(|it| get(address, "/metrics", Some(it)));
    let answers = futures::future::join_all(scrapes).await;
    assert!(answers.contains(&429), "{answers:?}");
    assert!(
        answers.iter().all(|it| matches!(it, 401 | 429)),
        "{answers:?}"
    );
    assert!(asked.load(Ordering::SeqCst) < 25, "{asked:?}");
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// A client without a valid token sends requests all the time. Prometheus, at another address,
/// scrapes once in 15 s, and its token is replaced once in an hour. Only Linux gives a process all
/// addresses of 127.0.0.0/8.
#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn invalid_tokens_do_not_evict_an_allowed_one() {
    let asked = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = AdminServer::new(listener).authorize_metrics(api_server(&asked));
    let operator = Operator::builder().admin_server(server).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    let attacker = SocketAddr::from(([127, 0, 0, 1], port));
    let prometheus = SocketAddr::from(([127, 0, 0, 2], port));
    let scrape = async |token: &str| get_from(prometheus, "/metrics", Some(token)).await;
    // Before the first scrape of Prometheus too: one address uses one review a second.
    for (invented, status) in [("first", 401), ("second", 429)] {
        assert_eq!(get_from(attacker, "/metrics", Some(invented)).await, status);
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(get_from(attacker, "/metrics", Some("third")).await, 429);
    assert_eq!(scrape("prometheus").await, 200);
    for minute in 0..3 {
        for second in 0..60 {
            for number in 0..20 {
                let invented = format!("invented-{minute}-{second}-{number}");
                let status = get_from(attacker, "/metrics", Some(&invented)).await;
                assert!(matches!(status, 401 | 429), "{status}");
                if number % 10 == 9 {
                    sleep(Duration::from_millis(500)).await;
                }
            }
            // Immediately after a review of an invented token.
            let invented = format!("invented-{minute}-{second}-last");
            get_from(attacker, "/metrics", Some(&invented)).await;
            if second % 15 == 0 {
                assert_eq!(scrape("prometheus").await, 200, "{minute}:{second}");
            }
        }
    }
    let invented = get_from(attacker, "/metrics", Some("invented-at-last")).await;
    assert!(matches!(invented, 401 | 429), "{invented}");
    assert_eq!(
        scrape("prometheus-renewed").await,
        200,
        "the token is replaced"
    );
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// Responds to reviews: the tokens `known`, `scraper`, `prometheus` and
/// `prometheus-renewed` are valid, the last two are allowed, and `scraper` for the metrics.
fn api_server(asked: &Arc<AtomicUsize>) -> Client {
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        asked.fetch_add(1, Ordering::SeqCst);
        async move {
            let path = request.uri().path().to_owned();
            let body = request
                .into_body()
                .collect()
                .await
                .expect("a body")
                .to_bytes();
            let mut review: Value = serde_json::from_slice(&body).expect("JSON");
            review["status"] = if path.ends_with("/tokenreviews") {
                let name = review["spec"]["token"]
                    .as_str()
                    .expect("a token")
                    .to_owned();
                let valid =
                    ["known", "scraper", "prometheus", "prometheus-renewed"].contains(&&*name);
                json!({ "authenticated": valid, "user": { "username": name } })
            } else {
                let spec = &review["spec"];
                let attributes = &spec["nonResourceAttributes"];
                assert_eq!(attributes["verb"], "get");
                let user = spec["user"].as_str().expect("a user");
                let may_scrape = user == "scraper" && attributes["path"] == "/metrics";
                json!({ "allowed": may_scrape || user.starts_with("prometheus") })
            };
            let answer = serde_json::to_vec(&review).expect("JSON");
            Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::from(answer)))
        }
    });
    Client::new(service, "default")
}

async fn get(address: SocketAddr, path: &str, token: Option<&str>) -> u16 {
    let stream = TcpStream::connect(address).await.expect("a connection");
    request(stream, path, token).await
}

/// The same from the address to which the request is sent.
#[cfg(target_os = "linux")]
async fn get_from(address: SocketAddr, path: &str, token: Option<&str>) -> u16 {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    let client = SocketAddr::new(address.ip(), 0);
    socket.bind(client).expect("an address");
    let stream = socket.connect(address).await.expect("a connection");
    request(stream, path, token).await
}

async fn request(mut stream: TcpStream, path: &str, token: Option<&str>) -> u16 {
    let token = token.map_or_else(String::new, |it| format!("authorization: Bearer {it}\r\n"));
    let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{token}\r\n");
    stream
        .write_all(head.as_bytes())
        .await
        .expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

// === impl Log ===

impl Log {
    /// Captures everything that this thread logs, at every level.
    fn capture(&self) -> tracing::subscriber::DefaultGuard {
        let builder = tracing_subscriber::fmt().with_ansi(false);
        let builder = builder.with_max_level(LevelFilter::TRACE);
        let subscriber = builder.with_writer(self.clone()).finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn text(&self) -> String {
        let text = self.0.lock().expect("no panic");
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
