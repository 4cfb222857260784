//! Clients of the admin server that send incomplete requests, or never read.
//!
//! These tests use sockets and real time, with short limits.

use std::{
    convert::Infallible,
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use kube::{Client, client::Body};
use prometheus::{
    IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use windlass_controller::{InformerHealth, Runnable};
use windlass_operator::{
    AdminLimits, AdminServer, LeaderElection, Operator, OperatorBuilder, OperatorError,
};

/// A running operator on a separate runtime with one worker.
struct Running {
    runtime: Runtime,
    address: SocketAddr,
    stop: CancellationToken,
    run: JoinHandle<Result<(), OperatorError>>,
}

/// A collector that blocks its thread.
struct Blocks {
    gauge: IntGauge,
    begun: Arc<AtomicBool>,
    may_return: Arc<AtomicBool>,
}

impl Collector for Blocks {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.begun.store(true, Ordering::SeqCst);
        block_until(&self.may_return);
        self.gauge.collect()
    }
}

/// A controller whose health function blocks its thread.
struct Stuck {
    /// How often its health function was called.
    calls: Arc<AtomicUsize>,
    may_return: Arc<AtomicBool>,
}

impl Runnable for Stuck {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        "stuck"
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.cancelled().await;
        Ok(())
    }

    fn health(&self) -> Vec<InformerHealth> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        block_until(&self.may_return);
        Vec::new()
    }
}

/// Blocks the thread, which is the subject of the tests; nothing waits for a time.
fn block_until(may_return: &AtomicBool) {
    while !may_return.load(Ordering::SeqCst) {
        // Blocks the thread instead of waiting for a notification.
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `holds`, for a minute at most: the tests use real time.
fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if holds() {
            return;
        }
        // Between two looks at what the threads of the server have done.
        thread::sleep(Duration::from_millis(1));
    }
    panic!("waited 60 s until {what}");
}

/// A flag that is set on drop, so that a failed test ends.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

// === impl Running ===

impl Running {
    fn start(builder: OperatorBuilder, server: impl FnOnce(AdminServer) -> AdminServer) -> Self {
        Self::start_with(builder, server, |_| ())
    }

    fn start_with(
        builder: OperatorBuilder,
        server: impl FnOnce(AdminServer) -> AdminServer,
        add: impl FnOnce(&Operator),
    ) -> Self {
        let (listener, address) = listener();
        let server = server(AdminServer::new(listener));
        let operator = builder.admin_server(server).build();
        add(&operator);
        let runtime = runtime();
        let stop = CancellationToken::new();
        let run = runtime.spawn({
            let stop = stop.clone();
            async move { operator.run_until(stop).await }
        });
        Self {
            runtime,
            address,
            stop,
            run,
        }
    }

    fn stop(self) {
        self.stop.cancel();
        let ended = self.runtime.block_on(self.run);
        ended.expect("no panic").expect("no error");
    }
}

#[test]
fn incomplete_requests_and_clients_that_never_read_lose_their_connections() {
    let running = Running::start(Operator::builder(), |server| {
        let answer = |_| async { http::Response::new("hello".into()) };
        let server = server.limits(brief()).registry(large_registry());
        server.route("/echo", answer).expect("a path")
    });
    for part in [
        "",
        "GET /live HT",
        "GET /live HTTP/1.1\r\nhost: here\r\n",
        "POST /echo HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nhal",
    ] {
        let mut stream = connect(running.address);
        stream
            .write_all(part.as_bytes())
            .expect("the request is sent");
        // The server closes the connection, with or without a response. An error here is the
        // timeout of this client, which is half of the total limit of a connection: the server waits
        // longer than its limits.
        let mut answer = String::new();
        let closed = stream.read_to_string(&mut answer);
        assert!(closed.is_ok(), "{part:?}: {closed:?}");
        let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.1 408");
        assert!(is_refused, "{part:?}: {answer}");
    }
    // Many responses that exceed the buffers of the kernel.
    let mut stream = connect(running.address);
    let asked = "GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n".repeat(64);
    stream
        .write_all(asked.as_bytes())
        .expect("the request is sent");
    let mut closed = false;
    for _ in 0..600 {
        // A write fails after the server has closed the connection.
        closed = stream.write_all(b"G").is_err();
        if closed {
            break;
        }
        // A slow client is the subject: it sends a byte each 50 ms.
        thread::sleep(Duration::from_millis(50));
    }
    assert!(closed, "it holds the connection for ever");
    running.stop();
}

/// A page of more than a megabyte, so that the server waits for its client.
#[test]
fn the_longest_timeouts_are_valid() {
    let limits = AdminLimits {
        read_timeout: Duration::MAX,
        write_timeout: Duration::MAX,
        connection_timeout: Duration::MAX,
        ..AdminLimits::default()
    };
    let running = Running::start(Operator::builder(), |server| {
        server.limits(limits).registry(large_registry())
    });
    let (status, page) = get(running.address, "/metrics");
    assert!(status == 200 && page.len() > 1 << 20, "{status}");
    running.stop();
}

#[test]
fn a_probe_is_answered_above_the_connection_limit() {
    let limits = AdminLimits {
        connections: limit(8),
        connections_per_client: limit(4),
        read_timeout: Duration::from_secs(3600),
        ..AdminLimits::default()
    };
    let running = Running::start(Operator::builder(), |server| server.limits(limits));
    let mut held = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(running.address);
        stream
            .write_all(b"GET /live HT")
            .expect("the request is sent");
        held.push(stream);
    }
    assert_eq!(get(running.address, "/live"), (200, "ok\n".to_owned()));
    // The oldest connections were closed.
    let mut first = held.swap_remove(0);
    match first.read(&mut [0; 8]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("{other:?}"),
    }
    running.stop();
}

#[test]
fn a_probe_is_answered_while_all_threads_of_the_operator_are_blocked() {
    let running = Running::start(Operator::builder(), |server| {
        server.live_check("user", || async { Ok::<_, String>(()) })
    });
    let page = "ok\n[+] user: ok\n".to_owned();
    assert_eq!(get(running.address, "/live"), (200, page.clone()));
    let may_end = Arc::new(AtomicBool::new(false));
    let _ends = SetOnDrop(Arc::clone(&may_end));
    let (begun, ends) = (std::sync::mpsc::sync_channel(1), Arc::clone(&may_end));
    let blocked = running.runtime.spawn(async move {
        begun.0.send(()).expect("the test waits");
        while !ends.load(Ordering::SeqCst) {
            // Blocks the thread, which is the subject.
            thread::sleep(Duration::from_millis(1));
        }
    });
    begun.1.recv().expect("it begins");
    let (status, metrics) = get(running.address, "/metrics");
    assert_eq!((status, &*metrics), (200, ""), "no controller, no election");
    // Checks of the user run on the runtime of the operator.
    let (status, page) = get(running.address, "/live");
    assert_eq!(status, 503, "{page}");
    assert!(page.contains("[-] user: timed out after"), "{page}");
    may_end.store(true, Ordering::SeqCst);
    running.runtime.block_on(blocked).expect("no panic");
    running.stop();
}

#[test]
fn metrics_can_be_served_on_a_separate_port() {
    let (listener, metrics) = listener();
    let running = Running::start(Operator::builder(), |server| server.metrics_on(listener));
    assert_eq!(get(running.address, "/live").0, 200);
    let (status, page) = get(running.address, "/metrics");
    assert_eq!(
        (status, &*page),
        (404, "not found; this port serves /live, /ready\n")
    );
    assert_eq!(get(metrics, "/metrics").0, 200);
    for path in ["/live", "/ready"] {
        assert_eq!(
            get(metrics, path),
            (404, "not found; this port serves /metrics\n".to_owned())
        );
    }
    running.stop();
}

/// Rows: BO-26
/// A collector is user code. Here it waits for a lock that a handler holds.
#[test]
fn a_probe_is_answered_while_a_collector_blocks() {
    let may_return = Arc::new(AtomicBool::new(false));
    let _returns = SetOnDrop(Arc::clone(&may_return));
    let registry = Registry::new();
    let collector = Blocks {
        gauge: IntGauge::new("blocks", "Blocks.").expect("a name"),
        begun: Arc::default(),
        may_return: Arc::clone(&may_return),
    };
    let begun = Arc::clone(&collector.begun);
    registry.register(Box::new(collector)).expect("new");
    let running = Running::start(Operator::builder(), |server| server.registry(registry));
    let address = running.address;
    let scrape = thread::spawn(move || get(address, "/metrics"));
    until("the collector is called", || begun.load(Ordering::SeqCst));
    assert_eq!(get(address, "/live"), (200, "ok\n".to_owned()));
    may_return.store(true, Ordering::SeqCst);
    let (status, page) = scrape.join().expect("no panic");
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("blocks 0"), "{page}");
    running.stop();
}

/// Rows: BO-26
/// A health function is user code. Here it waits for a lock that a handler holds.
#[test]
fn a_probe_is_answered_while_a_health_function_blocks() {
    let may_return = Arc::new(AtomicBool::new(false));
    let _returns = SetOnDrop(Arc::clone(&may_return));
    let calls = Arc::<AtomicUsize>::default();
    let running = Running::start_with(
        Operator::builder(),
        |server| server,
        |operator| {
            let stuck = Stuck {
                calls: Arc::clone(&calls),
                may_return: Arc::clone(&may_return),
            };
            operator.add_controller(stuck).expect("a new name");
        },
    );
    let address = running.address;
    // Each of these has a connection of its own, and none waits for another one.
    let ready = [(); 8].map(|()| thread::spawn(move || get(address, "/ready")));
    until("the health function is called", || {
        calls.load(Ordering::SeqCst) > 0
    });
    assert_eq!(get(address, "/live"), (200, "ok\n".to_owned()));
    for ready in ready {
        let (status, page) = ready.join().expect("no panic");
        let line = "[-] controller stuck: its health function did not return within 500ms";
        assert_eq!(status, 503, "{page}");
        assert!(page.contains(line), "{page}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1, "one thread is blocked");
    may_return.store(true, Ordering::SeqCst);
    let is_ready = (0..10_000).any(|_| get(address, "/ready").0 == 200);
    assert!(is_ready, "the health function returns now");
    running.stop();
}

#[test]
fn an_operator_is_not_ready_before_it_has_read_its_lease() {
    let runtime = runtime();
    let _guard = runtime.enter();
    let silent = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, std::convert::Infallible>>()
    });
    let election = LeaderElection::new(Client::new(silent, "default"), "default", "web");
    let election = election.expect("names");
    let builder = Operator::builder().leader_election(election);
    let running = Running::start(builder, |server| server);
    let (status, page) = get(running.address, "/ready");
    assert_eq!(status, 503);
    let line = "[-] leader election: the lease default/web has not been read yet";
    assert!(page.contains(line), "{page}");
    running.stop();
}

/// Short timeouts.
fn brief() -> AdminLimits {
    AdminLimits {
        read_timeout: Duration::from_millis(300),
        write_timeout: Duration::from_millis(300),
        ..AdminLimits::default()
    }
}

/// A page of more than a megabyte.
fn large_registry() -> Registry {
    let registry = Registry::new();
    let gauge = IntGaugeVec::new(Opts::new("large", "A large metric."), &["number"]);
    let gauge = gauge.expect("a name");
    for number in 0..15_000 {
        gauge.with_label_values(&[&format!("{number:064}")]).set(1);
    }
    registry.register(Box::new(gauge)).expect("new");
    registry
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    let limit = Some(Duration::from_secs(30));
    stream.set_read_timeout(limit).expect("a limit");
    stream.set_write_timeout(limit).expect("a limit");
    stream
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = connect(address);
    let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    stream
        .write_all(head.as_bytes())
        .expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a response");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.expect("a status"), body.to_owned())
}

fn limit(connections: usize) -> NonZeroUsize {
    NonZeroUsize::new(connections).expect("not zero")
}
