//! Fenced clients: which requests they refuse, and when their connections stop writing.

use std::{
    convert::Infallible,
    env,
    io::{ErrorKind, Read as _},
    net::TcpListener,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use http::{Method, Request, Response};
use kube::{Client, Config, client::Body};
use tokio::sync::Notify;
use tower::{BoxError, Layer as _, Service, ServiceExt as _};
use windlass_controller::{Fence, FenceClosed, FenceLayer};

const MINUTE: Duration = Duration::from_secs(60);

/// Set in the child process that prints its clock.
const PRINT_CLOCK: &str = "WINDLASS_FENCED_PRINT_CLOCK";

/// Each way to write: method, path and content type.
const WRITES: [(&str, &str, &str); 14] = [
    (
        "POST",
        "/api/v1/namespaces/a/configmaps",
        "application/json",
    ),
    (
        "PUT",
        "/api/v1/namespaces/a/configmaps/b",
        "application/json",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/a/configmaps/b",
        "application/json-patch+json",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/a/configmaps/b",
        "application/merge-patch+json",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/a/configmaps/b",
        "application/strategic-merge-patch+json",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/a/configmaps/b?fieldManager=c",
        "application/apply-patch+yaml",
    ),
    (
        "DELETE",
        "/api/v1/namespaces/a/configmaps/b",
        "application/json",
    ),
    // A collection.
    (
        "DELETE",
        "/api/v1/namespaces/a/configmaps",
        "application/json",
    ),
    (
        "PUT",
        "/api/v1/namespaces/a/pods/b/status",
        "application/json",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/a/pods/b/status",
        "application/merge-patch+json",
    ),
    (
        "POST",
        "/api/v1/namespaces/a/pods/b/eviction",
        "application/json",
    ),
    (
        "PUT",
        "/apis/apps/v1/namespaces/a/deployments/b/scale",
        "application/json",
    ),
    // Extended CONNECT: a WebSocket over HTTP/2.
    ("CONNECT", "/api/v1/namespaces/a/pods/b/exec", ""),
    // A method that does not exist yet.
    ("QUERY", "/api/v1/namespaces/a/configmaps", ""),
];

const READS: [(&str, &str); 5] = [
    ("GET", "/api/v1/namespaces/a/configmaps/b"),
    ("GET", "/api/v1/namespaces/a/configmaps?watch=true"),
    ("GET", "/api/v1/namespaces/a/pods/b/log"),
    ("HEAD", "/api/v1/namespaces/a/configmaps/b"),
    ("OPTIONS", "/api/v1/namespaces/a/configmaps/b"),
];

/// The subresources whose connections kube upgrades.
const UPGRADES: [&str; 3] = ["exec", "attach", "portforward"];

#[tokio::test(start_paused = true)]
async fn every_write_is_refused_while_the_fence_is_closed_and_sent_while_it_is_open() {
    for (method, path, content_type) in WRITES {
        check(request(method, path, ("content-type", content_type)), false).await;
    }
    for subresource in UPGRADES {
        let path = format!("/api/v1/namespaces/a/pods/b/{subresource}?stdin=true");
        check(request("GET", &path, ("upgrade", "websocket")), false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn reads_are_sent_while_the_fence_is_closed() {
    for (method, path) in READS {
        check(request(method, path, ("accept", "application/json")), true).await;
    }
}

/// A write waits for the socket. The process is frozen beyond the deadline: the clock of the fence
/// jumps, and no timer fires. When the socket takes bytes again, the write must not continue.
///
/// HTTP/1.1 without TLS: kube's client does not negotiate HTTP/2, and with TLS the same task writes
/// to the socket.
#[tokio::test]
async fn a_connection_that_waits_for_the_socket_writes_no_bytes_after_the_deadline() {
    /// Far more than the kernel buffers of both sides hold.
    const BODY: usize = 64 * 1024 * 1024;

    for frozen in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (begun, has_begun) = mpsc::channel();
        let (resume, may_resume) = mpsc::channel::<()>();
        let (done, received) = tokio::sync::oneshot::channel();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut buffer = vec![0; 64 * 1024];
            let mut total = stream.read(&mut buffer).expect("the head");
            begun.send(()).expect("the test waits");
            may_resume.recv().expect("the test continues");
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => total += read,
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                    Err(error) => panic!("{error}"),
                }
                // The complete body: respond by closing the connection.
                if total >= BODY {
                    break;
                }
            }
            _ = done.send(total);
        });
        let time = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&time);
        let fence = Fence::with_clock(move || Duration::from_secs(clock.load(Ordering::SeqCst)));
        fence.open_until(MINUTE);
        let url = format!("http://{address}").parse().expect("a URL");
        let client = fence.connect(Config::new(url)).expect("a client");
        let write = http::Request::post("/api/v1/namespaces/a/configmaps")
            .body(Body::from(vec![b'x'; BODY]))
            .expect("a request");
        let write = tokio::spawn(async move { client.send(write).await });
        tokio::task::spawn_blocking(move || has_begun.recv())
            .await
            .expect("no panic")
            .expect("the server has received the head");
        if frozen {
            time.store(3600, Ordering::SeqCst);
        }
        resume.send(()).expect("the server waits");
        let received = received.await.expect("the server ends");
        write.await.expect("no panic").expect_err("no response");
        server.join().expect("no panic");
        assert_eq!(received < BODY, frozen, "{received} bytes arrived");
    }
}

/// The machine was suspended at the deadline: the clock of the fence ran on, and the timers stood
/// still. Then the connection is ready before any timer fires.
#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_a_connection_is_not_sent_when_the_deadline_passed_in_a_suspend() {
    for suspended in [false, true] {
        for by_client in [false, true] {
            let waits = Arc::new(Notify::new());
            let connected = Arc::new(Notify::new());
            let sent = Arc::new(AtomicU64::new(0));
            let (waiting, connection, count) = (waits.clone(), connected.clone(), sent.clone());
            let service = tower::service_fn(move |_: Request<Body>| {
                let (waiting, connection) = (waiting.clone(), connection.clone());
                let count = count.clone();
                async move {
                    waiting.notify_one();
                    connection.notified().await;
                    count.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Infallible>(Response::new(Body::from(Vec::new())))
                }
            });
            let time = Arc::new(AtomicU64::new(0));
            let clock = Arc::clone(&time);
            let fence =
                Fence::with_clock(move || Duration::from_secs(clock.load(Ordering::SeqCst)));
            fence.open_until(MINUTE);
            let client = fence.client(Client::new(service.clone(), "default"));
            let layered = FenceLayer::new(fence.clone()).layer(service);
            let write = request("POST", "/api/v1/namespaces/a/configmaps", ("accept", "*/*"))();
            let write = tokio::spawn(async move {
                if by_client {
                    client.send(write).await.map(drop).map_err(Into::into)
                } else {
                    layered.oneshot(write).await.map(drop)
                }
            });
            waits.notified().await;
            if suspended {
                time.store(3600, Ordering::SeqCst);
            }
            connected.notify_one();
            let answer: Result<(), tower::BoxError> = write.await.expect("no panic");
            let sent = sent.load(Ordering::SeqCst);
            assert_eq!(sent, u64::from(!suspended), "by a client: {by_client}");
            match answer {
                Ok(()) => assert!(!suspended),
                Err(error) => assert!(FenceClosed::find(&*error).is_some(), "{error}"),
            }
            assert_eq!(fence.running(), 0);
        }
    }
}

/// A machine that was suspended for 11 days, as seen by a process in a time namespace: its
/// `CLOCK_BOOTTIME` is ahead, its monotonic clock is not.
#[cfg(target_os = "linux")]
#[test]
fn the_clock_of_a_fence_runs_while_the_machine_is_suspended() {
    const SUSPENDED: &str = "1000000";

    if env::var(PRINT_CLOCK).is_ok() {
        println!("clock {}", Fence::new().now().as_secs());
        return;
    }
    let clock = |mut command: Command| {
        let test = "the_clock_of_a_fence_runs_while_the_machine_is_suspended";
        let command = command.args([test, "--exact", "--nocapture"]);
        let output = command
            .env(PRINT_CLOCK, "1")
            .stderr(Stdio::null())
            .output()
            .ok()
            .filter(|it| it.status.success())?;
        let output = String::from_utf8(output.stdout).expect("text");
        let line = output.lines().find_map(|it| it.split_once("clock "));
        let seconds: u64 = line.expect("a line").1.trim().parse().expect("a number");
        Some(seconds)
    };
    let this = env::current_exe().expect("a path");
    let mut suspended = Command::new("unshare");
    suspended.args([
        "--user",
        "--map-root-user",
        "--fork",
        "--time",
        "--boottime",
        SUSPENDED,
    ]);
    suspended.arg(&this);
    let Some(suspended) = clock(suspended) else {
        println!("skipped: this machine does not allow `unshare --user --time`");
        return;
    };
    let usual = clock(Command::new(&this)).expect("it runs");
    let ahead = suspended.saturating_sub(usual);
    assert!(
        ahead >= 1_000_000,
        "the clock stood still during the suspend: {ahead} s"
    );
}

/// Sends `request` through a fenced client and through a layer, each while the fence is open and
/// while it is closed.
async fn check(request: impl Fn() -> Request<Body>, is_read: bool) {
    let sent = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&sent);
    let service = tower::service_fn(move |request: Request<Body>| {
        let line = format!("{} {}", request.method(), request.uri());
        log.lock().expect("no panic").push(line);
        async { Ok::<_, Infallible>(Response::new(Body::from(Vec::new()))) }
    });
    let fence = Fence::new();
    let client = fence.client(Client::new(service.clone(), "default"));
    let layered = FenceLayer::new(fence.clone()).layer(service);
    let what = format!("{} {}", request().method(), request().uri());
    for open in [false, true] {
        if open {
            fence.open_until(fence.now() + MINUTE);
        }
        let by_client = client.send(request()).await.map(drop).map_err(Into::into);
        let by_layer = layered.clone().oneshot(request()).await.map(drop);
        for answer in [by_client, by_layer] {
            let answer: Result<(), tower::BoxError> = answer;
            match answer {
                Ok(()) => assert!(open || is_read, "{what}: sent while the fence is closed"),
                Err(error) => {
                    let refused = FenceClosed::find(&*error);
                    assert!(refused.is_some() && !open && !is_read, "{what}: {error}");
                }
            }
        }
        let sent = std::mem::take(&mut *sent.lock().expect("no panic"));
        let expected = if open || is_read { 2 } else { 0 };
        assert_eq!(sent.len(), expected, "{what}, open: {open}: {sent:?}");
    }
}

fn request(method: &str, path: &str, header: (&str, &str)) -> impl Fn() -> Request<Body> {
    move || {
        let method: Method = method.parse().expect("a method");
        Request::builder()
            .method(method)
            .uri(path)
            .header(header.0, header.1)
            .body(Body::from(b"{}".to_vec()))
            .expect("a request")
    }
}

/// A service that is never ready, or that has failed.
struct Unready(Option<&'static str>);

impl Service<Request<Body>> for Unready {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0
            .map_or(Poll::Pending, |why| Poll::Ready(Err(why.into())))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        std::future::ready(Ok(Response::new(Body::empty())))
    }
}

#[test]
fn a_fenced_service_is_ready_when_the_service_behind_it_is() {
    let layer = FenceLayer::new(Fence::new());
    let mut context = Context::from_waker(Waker::noop());
    let waits = layer.layer(Unready(None)).poll_ready(&mut context);
    assert!(waits.is_pending());
    let failed = layer.layer(Unready(Some("no"))).poll_ready(&mut context);
    let Poll::Ready(Err(error)) = failed else {
        panic!("it has failed");
    };
    assert_eq!(error.to_string(), "no");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_names_its_request() {
    let layer = FenceLayer::new(Fence::new());
    let service = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let (method, path) = ("PUT", "/api/v1/namespaces/a/configmaps/b");
    let request = request(method, path, ("content-type", "application/json"))();
    let sent = layer.layer(service).oneshot(request);
    let refused = sent.await.expect_err("the fence is closed");
    let closed = FenceClosed::find(&*refused).expect("it was the fence");
    let expected = format!("{method} {path}");
    assert_eq!(closed.request.as_deref(), Some(&*expected));
}
