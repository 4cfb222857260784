//! Connections to webhooks.

use std::{
    convert::Infallible,
    fs,
    net::SocketAddr,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::admission::AdmissionRequest;
use prometheus::Registry;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use windlass_controller::Runnable;
use windlass_operator::{AdminLimits, Denied, Operator, WebhookServer};

use super::{Events, Run, address, connect_over_tls, file, listener, status};

/// The API server would see an error if its next request met the end of the connection.
#[tokio::test]
async fn a_connection_to_webhooks_stays_open_while_it_is_idle() {
    let (webhooks, address) = server();
    let limits = AdminLimits {
        read_timeout: Duration::from_secs(2),
        ..WebhookServer::LIMITS
    };
    let (stop, run) = start(webhooks.limits(limits));
    let mut stream = connect_over_tls(address, "first.pem")
        .await
        .expect("trusted");
    for pause in [Duration::ZERO, 2 * limits.read_timeout] {
        // Real time: two read timeouts pass.
        sleep(pause).await;
        stream.write_all(&empty_post()).await.expect("it is open");
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).await.expect("it is open");
        assert_eq!(status(&answer[..length]), Some(404));
    }
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// A client that begins a request, and does not send the rest.
#[tokio::test]
async fn a_head_that_has_begun_has_the_read_timeout() {
    let (webhooks, address) = server();
    let limits = AdminLimits {
        read_timeout: Duration::from_secs(2),
        ..WebhookServer::LIMITS
    };
    let (stop, run) = start(webhooks.limits(limits));
    let mut stream = connect(address).await;
    stream.write_all(&empty_post()).await.expect("it is open");
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).await.expect("it is open");
    assert_eq!(status(&answer[..length]), Some(404));
    stream
        .write_all(b"POST / HTTP/1.1\r\nhost: ")
        .await
        .expect("it is open");
    // An idle connection is closed after two minutes.
    let closed = timeout(Duration::from_secs(60), stream.read(&mut answer)).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// Paused time passes as soon as all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_request_in_progress_at_a_stop_is_answered_within_nine_seconds() {
    let (webhooks, address) = server();
    let stop = CancellationToken::new();
    let webhooks = webhooks
        .validate("/slow", {
            let stop = stop.clone();
            move |_: AdmissionRequest<ConfigMap>| {
                stop.cancel();
                // Longer than the write timeout.
                async {
                    sleep(Duration::from_millis(8_500)).await;
                    Ok::<_, Denied>(())
                }
            }
        })
        .expect("a path");
    let operator = Operator::builder().webhook_server(webhooks).build();
    let run = tokio::spawn(async move { operator.run_until(stop).await });
    let answer = post(address, "/slow", &review("a")).await;
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    run.await.expect("no panic").expect("no error");
}

/// As controller-runtime's `certwatcher`. Runs on paused time.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_cannot_be_read_again_is_counted() {
    let folder = std::env::temp_dir().join(format!("windlass-tls-count-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let certificate = folder.join("tls.crt");
    fs::copy(file("first.pem"), &certificate).expect("a copy");
    let listener = listener();
    let address = address(&listener);
    let webhooks = WebhookServer::new(listener, &certificate, file("first-key.pem"));
    let operator = Operator::builder().webhook_server(webhooks).build();
    let registry = Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector).expect("each has another name");
    }
    let count = || {
        let families = registry.gather();
        let errors = "certwatcher_read_certificate_errors_total";
        let family = families.iter().find(|it| it.name() == errors);
        family.expect(errors).get_metric()[0]
            .get_counter()
            .get_value()
    };
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    connect(address).await;
    assert_eq!(count().to_string(), "0");
    fs::write(&certificate, "").expect("a file");
    tokio::time::advance(Duration::from_secs(61)).await;
    connect(address).await;
    assert_eq!(count().to_string(), "1");
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    _ = fs::remove_dir_all(folder);
}

/// A mistake of the configuration, which only the API server would report.
#[tokio::test]
async fn a_request_that_is_no_review_is_logged_once_a_minute() {
    let events = Events::default();
    let _logging = tracing::subscriber::set_default(events.subscriber(tracing::Level::INFO));
    let (webhooks, address) = server();
    let webhooks = webhooks
        .validate("/allow", |_: AdmissionRequest<ConfigMap>| async {
            Ok::<_, Denied>(())
        })
        .expect("a path");
    let (stop, run) = start(webhooks);
    // Any client can invent paths.
    for (path, expected) in [("/other", 404), ("/allow", 400), ("/allow", 400)] {
        let answer = post(address, path, "{}").await;
        assert_eq!(status(answer.as_bytes()), Some(expected), "{answer}");
    }
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    let events = events.text();
    let warning = "a webhook got a request that is no review path=\"/allow\" code=400";
    assert_eq!(events.matches(warning).count(), 1, "{events}");
    assert_eq!(events.matches("WARN").count(), 1, "{events}");
}

/// A task that sets this when it ends.
struct Task(Arc<AtomicBool>);

impl Runnable for Task {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        "task"
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.cancelled().await;
        self.0.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// Webhooks read the stores of such tasks.
#[tokio::test(start_paused = true)]
async fn a_task_of_each_replica_runs_until_the_requests_in_progress_are_answered() {
    let (webhooks, address) = server();
    let (stop, has_ended) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let webhooks = webhooks
        .validate("/slow", {
            let (stop, has_ended) = (stop.clone(), Arc::clone(&has_ended));
            move |_: AdmissionRequest<ConfigMap>| {
                stop.cancel();
                let has_ended = Arc::clone(&has_ended);
                async move {
                    sleep(Duration::from_secs(5)).await;
                    if has_ended.load(Ordering::SeqCst) {
                        return Err(Denied::new("the task has ended"));
                    }
                    Ok(())
                }
            }
        })
        .expect("a path");
    let operator = Operator::builder().webhook_server(webhooks).build();
    let task = Task(Arc::clone(&has_ended));
    operator.add_to_each_replica(task).expect("a new name");
    let run = tokio::spawn(async move { operator.run_until(stop).await });
    let answer = post(address, "/slow", &review("a")).await;
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    run.await.expect("no panic").expect("no error");
    assert!(has_ended.load(Ordering::SeqCst));
}

/// The list of a large kind, on a slow network, which is the subject: in real time, the client pauses for
/// a fifth of the read timeout before each of eight parts.
#[tokio::test]
async fn a_body_that_makes_progress_has_the_time_of_its_webhook() {
    let (webhooks, address) = server();
    let limits = AdminLimits {
        read_timeout: Duration::from_secs(5),
        ..WebhookServer::LIMITS
    };
    let allow = |_: AdmissionRequest<ConfigMap>| async { Ok::<_, Denied>(()) };
    let webhooks = webhooks.validate("/allow", allow).expect("a path");
    let (stop, run) = start(webhooks.limits(limits));
    let review = review("a");
    for (sent, text) in [
        (8, r#""allowed":true"#),
        (1, "no part of the body arrived within 5s"),
    ] {
        let mut stream = connect(address).await;
        let head = head("/allow?timeout=30s", review.len());
        stream.write_all(head.as_bytes()).await.expect("it is open");
        let parts = review.as_bytes().chunks(review.len().div_ceil(8));
        for part in parts.take(sent) {
            sleep(limits.read_timeout / 5).await;
            stream.write_all(part).await.expect("it is open");
        }
        let answer = read(stream).await;
        assert!(answer.contains(text), "{sent}: {answer}");
    }
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// A legal object, as the API server writes it, and its old object.
#[tokio::test]
async fn each_object_that_can_be_stored_can_be_reviewed() {
    const STORED: usize = 3 * 512 * 1024;
    let allow = |_: AdmissionRequest<ConfigMap>| async { Ok::<_, Denied>(()) };
    let large = review(&"\\u003c".repeat(STORED));
    for (body, expected) in [(64 << 20, 200), (40 << 20, 200), (18 << 20, 413)] {
        let (webhooks, address) = server();
        let limits = AdminLimits {
            body: NonZeroUsize::new(body).expect("not zero"),
            ..WebhookServer::LIMITS
        };
        let webhooks = webhooks.validate("/allow", allow).expect("a path");
        let (stop, run) = start(webhooks.limits(limits));
        let answer = post(address, "/allow?timeout=30s", &large).await;
        assert_eq!(status(answer.as_bytes()), Some(expected), "{body}");
        // A limit of the user holds, also one above the default.
        if body == 40 << 20 {
            let blank = format!("{large}{}", " ".repeat((39 << 20) - large.len()));
            let answer = post(address, "/allow?timeout=30s", &blank).await;
            assert_eq!(status(answer.as_bytes()), Some(200));
        }
        stop.cancel();
        run.await.expect("no panic").expect("no error");
    }
}

/// A server on a free port.
fn server() -> (WebhookServer, SocketAddr) {
    let listener = listener();
    let address = address(&listener);
    let server = WebhookServer::new(listener, file("first.pem"), file("first-key.pem"));
    (server, address)
}

fn start(webhooks: WebhookServer) -> (CancellationToken, Run) {
    let operator = Operator::builder().webhook_server(webhooks).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    (stop, run)
}

async fn connect(address: SocketAddr) -> TlsStream<TcpStream> {
    connect_over_tls(address, "first.pem")
        .await
        .expect("trusted")
}

fn empty_post() -> Vec<u8> {
    b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 0\r\n\r\n".to_vec()
}

fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// The response to a review on a connection of its own.
async fn post(address: SocketAddr, path: &str, review: &str) -> String {
    let mut stream = connect(address).await;
    let request = head(path, review.len()) + review;
    // A server that refuses the request does not read all of it.
    _ = stream.write_all(request.as_bytes()).await;
    read(stream).await
}

async fn read(mut stream: TlsStream<TcpStream>) -> String {
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).expect("text")
}

/// An `AdmissionReview` of a config map and its old object, both with this text.
fn review(text: &str) -> String {
    let object = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"a":"{text}"}}}}"#
    );
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"1","kind":{{"group":"","version":"v1","kind":"ConfigMap"}},"resource":{{"group":"","version":"v1","resource":"configmaps"}},"operation":"UPDATE","userInfo":{{}},"object":{object},"oldObject":{object}}}}}"#
    )
}
