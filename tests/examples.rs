//! The examples, run as a reader runs them.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};

/// What the README says that a reader sees.
#[test]
fn quickstart_reconciles_drift_changes_and_the_deletion() {
    let output = run("quickstart", &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{complaints}");
    let mut rest = told.as_ref();
    for expected in [
        "user:     create the website blog, with 1 server",
        "operator: apply default/blog with 1 replicas",
        "user:     scale its deployment to 0 by hand",
        // The user waits for the correction, which a call may make that began before.
        "user:     ask for 3 servers",
        "operator: apply default/blog with 3 replicas",
        "user:     delete the website",
        "operator: clean up after default/blog",
        "user:     the website is gone, and so is its deployment",
        "metrics:  controller_runtime_reconcile_total{controller=\"websites\",kind=\"websites\",result=\"success\"}",
        "all is well",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected:?} does not come, or not in its place:\n{told}"));
        rest = after;
    }
}

#[test]
fn tour_shows_create_change_retry_and_delete() {
    let output = run("tour", &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    let mut rest = told.as_ref();
    // In this order: add, update, a failed step and its retry, delete with clean-up.
    for expected in [
        "serves websites.tour.windlass.dev",
        "blog  is added",
        "blog  is published at http://blog.example",
        "blog  changes its Deployment",
        "shop  failed 1x: the name service does not answer for shop.example; retry in",
        "shop  is published at http://shop.example",
        "delete the website blog",
        "blog  gives back the host name blog.example",
        "blog  is gone",
        "Metrics after",
        "informer_events_total",
        "reconciler_errors_total",
        "all is well",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected:?} does not come, or not in its place:\n{told}"));
        rest = after;
    }
}

#[test]
fn tour_names_a_kubeconfig_that_is_missing() {
    let output = run("tour", &["--kubeconfig", "no/such/file"]);
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("no/such/file"), "{told}");
}

#[test]
fn gateway_accepts_every_route_whose_parent_exists() {
    let output = run("gateway", &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{complaints}");
}

#[test]
fn leader_hands_over_when_it_is_stopped_and_is_replaced_when_it_crashes() {
    let output = run("leader", &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{complaints}");
    let mut rest = told.as_ref();
    for expected in [
        "first sells at 1",
        "[+] leader election: standing by; first holds the lease default/shop-operator",
        "first sells at 2",
        "first has ended",
        "second sells at 3",
        "second has crashed",
        "third sells at 4",
        "third has ended",
        "all is well",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected:?} does not come, or not in its place:\n{told}"));
        rest = after;
    }
}

#[test]
fn tracing_shows_one_trace_from_the_event_to_the_retry() {
    let output = run("tracing", &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    let traces: Vec<_> = told.split("trace ").collect();
    let trace = traces
        .iter()
        .find(|trace| trace.contains("informer-event-add"));
    let mut rest = *trace.unwrap_or_else(|| panic!("no event in\n{told}"));
    // Each deeper than the one before, but for the retry, which is beside the first calls.
    for (indent, expected) in [
        (2, "informer-event-add kind=configmaps object=default/web"),
        (4, "controller-event-add kind=shops object=default/web"),
        (6, "watcher attempt=0 outcome=done"),
        (6, "reconciler attempt=0 outcome=failed  ERROR"),
        (8, "order-goods"),
        (
            6,
            "controller-retry kind=shops object=default/web attempt=1",
        ),
        (8, "reconciler attempt=1 outcome=done"),
        (10, "order-goods"),
    ] {
        let line = format!("s  {:indent$}{expected}\n", "");
        let (_, after) = rest
            .split_once(&line)
            .unwrap_or_else(|| panic!("{line:?} does not come, or not in its place:\n{told}"));
        rest = after;
    }
}

/// Rows: GA-12
#[test]
fn tracing_sends_its_traces_to_the_collector_that_is_named() {
    let collector = Collector::start();
    let output = run("tracing", &["--otlp", &collector.address]);
    let told = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{complaints}");
    assert!(told.contains(&collector.address), "{told}");
    let mut sent = collector.got.try_iter();
    let (path, body) = sent.next().expect("something was sent");
    assert_eq!(
        path,
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    );
    // Names are in the message as they are.
    let body = String::from_utf8_lossy(&body);
    for name in [
        "shop-operator",
        "informer-event-add",
        "controller-event-add",
        "controller-retry",
        "order-goods",
    ] {
        assert!(body.contains(name), "no {name} was sent");
    }
}

#[test]
fn tracing_says_when_its_collector_cannot_be_reached() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    };
    let output = run("tracing", &["--otlp", &format!("http://{closed}")]);
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains(&format!("cannot send to http://{closed}")),
        "{told}"
    );
}

/// What a reader does in a second terminal.
#[test]
fn kubectl_connects_to_a_tour_that_serves() {
    if Command::new("kubectl")
        .arg("version")
        .arg("--client")
        .output()
        .is_err()
    {
        println!("not run: there is no kubectl here");
        return;
    }
    let mut served = Command::new(built("tour"))
        .arg("--serve")
        .stdout(Stdio::piped())
        .spawn()
        .map(Ended)
        .expect("tour runs");
    // Read until the end of the test: it goes on telling.
    let mut told = BufReader::new(served.0.stdout.take().expect("piped"));
    let mut kubeconfig = None;
    for line in told.by_ref().lines() {
        let line = line.expect("text");
        if let Some((_, path)) = line.split_once("export KUBECONFIG=") {
            kubeconfig = Some(path.to_owned());
        }
        if line.contains("Ctrl-C ends it") {
            break;
        }
    }
    let kubeconfig = kubeconfig.expect("it says how to get in");
    let kubectl = |arguments: &str| {
        let mut kubectl = Command::new("kubectl");
        kubectl
            .env("KUBECONFIG", &kubeconfig)
            .args(["-n", "tour"])
            .args(arguments.split(' '));
        kubectl
    };
    let says = |arguments: &str| {
        let output = kubectl(arguments).output().expect("kubectl runs");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments}: {complaints}");
        String::from_utf8(output.stdout).expect("text")
    };

    let websites = says("get websites");
    assert!(
        websites.contains("shop.example") && websites.contains("Published"),
        "{websites}"
    );
    let described = says("describe website shop");
    assert!(
        described.contains("Host:") && described.contains("http://shop.example"),
        "{described}"
    );
    assert!(says("get configmap shop -o yaml").contains("<h1>Buy</h1>"));

    let mut watch = kubectl("get websites -w --output-watch-events")
        .stdout(Stdio::piped())
        .spawn()
        .map(Ended)
        .expect("kubectl runs");
    let mut seen = BufReader::new(watch.0.stdout.take().expect("piped")).lines();
    let mut until = |what: &str| {
        let found = seen.find(|line| line.as_ref().is_ok_and(|line| line.starts_with(what)));
        assert!(found.is_some(), "kubectl get -w ended before {what}");
    };
    until("ADDED");
    assert!(says("delete website shop").contains("deleted"));
    until("DELETED");
    assert!(
        says("get all,configmaps -o name").is_empty(),
        "the operator cleaned up"
    );
    _ = std::fs::remove_file(&kubeconfig);
}

/// A collector of traces that takes whatever comes, over gRPC.
struct Collector {
    address: String,
    /// The path and the body of each request.
    got: mpsc::Receiver<(String, Bytes)>,
}

impl Collector {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, got) = mpsc::sync_channel(64);
        std::thread::spawn(move || serve(listener, sender));
        Self {
            address: format!("http://{address}"),
            got,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn serve(listener: std::net::TcpListener, got: mpsc::SyncSender<(String, Bytes)>) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    let (stream, _) = listener.accept().await.expect("a connection");
    let service = service_fn(move |request: Request<Incoming>| {
        let got = got.clone();
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await?.to_bytes();
            _ = got.send((path, body));
            // An empty message, and that all is well.
            let well = HeaderMap::from_iter([(
                HeaderName::from_static("grpc-status"),
                HeaderValue::from_static("0"),
            )]);
            let message = Full::new(Bytes::from_static(&[0; 5]));
            let answer = Response::builder()
                .header("content-type", "application/grpc")
                .body(message.with_trailers(async move { Some(Ok(well)) }));
            Ok::<_, hyper::Error>(answer.expect("an answer"))
        }
    });
    // It ends when the example does.
    _ = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// A process that ends with the test, however the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn watchers_and_reconcilers_shows_order_policies_and_what_is_scraped() {
    let output = run("watchers_and_reconcilers", &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{complaints}");
    let mut rest = told.as_ref();
    for expected in [
        // Watchers in add order, then reconcilers in add order.
        "clerk    books book, for Elm Street",
        "camera   takes a picture of book",
        "packer   wraps book",
        "courier  brings book to Elm Street, at try 1",
        // A user's retry policy, with the state of the try before.
        "courier  piano: try 1: the van is too small",
        "office   again in 150ms",
        "courier  piano: try 2: the van is too small",
        // A user's dequeue policy.
        "office   keep the retry for piano: its address is the same",
        "courier  brings piano to Hill Road, at try",
        "office   drop the retry for harp: its address is another",
        "courier  brings harp to Garden Row, at try 2",
        // A call that was given up is reported, and made again on request.
        "office   given up: aquarium: reconciler 1 of parcels default/aquarium on CREATE",
        "you      find default/aquarium among what was given up",
        "courier  brings aquarium to Dry Dock, at try 2",
        "courier  fetches book back",
        // What was scraped.
        "What Prometheus reads at http://127.0.0.1:",
        "informer_events_total{controller=\"post\",event_type=\"CREATE\",kind=\"parcels\"} 4",
        "retries_exhausted_total{controller=\"post\",kind=\"parcels\"} 1",
        "pending_retries{controller=\"post\"} 0",
        "all is well",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected:?} does not come, or not in its place:\n{told}"));
        rest = after;
    }
}

fn run(example: &str, arguments: &[&str]) -> Output {
    let output = Command::new(built(example)).args(arguments).output();
    output.expect("the example runs")
}

/// The path of an example, built as it is now.
fn built(example: &str) -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--example", example])
        .status();
    assert!(
        built.expect("cargo runs").success(),
        "{example} does not build"
    );
    // This test is in `deps`, beside `examples`.
    let here = std::env::current_exe().expect("a path");
    let folder = here.ancestors().nth(2).expect("the folder of the profile");
    folder.join("examples").join(example)
}
