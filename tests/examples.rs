//! Runs each example and checks what it prints.

// The models of `docs/choosing.md`.
#[path = "examples/models.rs"]
mod models;

// The verbs that an operator needs.
#[path = "examples/permissions.rs"]
mod permissions;

// The example that a team would deploy.
#[path = "examples/production.rs"]
mod production;

// Wrong programs of a reader.
#[path = "examples/messages.rs"]
mod messages;

// The first program of the README.
#[path = "examples/readme.rs"]
mod readme;

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

/// The README shows these lines.
#[test]
fn quickstart_reconciles_drift_changes_and_the_deletion() {
    let output = run("quickstart", &[]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
    let mut rest = printed.as_ref();
    for expected in [
        "user:     create the website blog, with 1 server",
        "operator: apply default/blog with 1 replicas",
        "user:     scale its deployment to 0 by hand",
        // No `apply` line here: a call that began earlier may already have corrected it.
        "user:     ask for 3 servers",
        "operator: apply default/blog with 3 replicas",
        "user:     delete the website",
        "operator: clean up after default/blog",
        "user:     the website and its deployment are deleted",
        "metrics:  controller_runtime_reconcile_total{controller=\"websites\",kind=\"websites.windlass.dev\",result=\"success\"}",
        "success",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected:?} is missing or in the wrong order:\n{printed}"));
        rest = after;
    }
}

#[test]
fn tour_shows_create_change_retry_and_delete() {
    let output = run("tour", &[]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    // The watcher and the reconciler belong to two controllers.
    assert!(printed.contains("blog  is added"), "{printed}");
    let mut rest = printed.as_ref();
    // In this order: add, update, a failed step and its retry, delete with clean-up.
    for expected in [
        "serves websites.tour.windlass.dev",
        "blog  is published at http://blog.example",
        "blog  changes its Deployment",
        "shop  failed 1x: the name service does not answer for shop.example; retry in",
        "shop  is published at http://shop.example",
        "delete the website blog",
        "blog  withdraws the host name blog.example",
        "blog  is deleted",
        "Metrics after",
        "informer_events_total",
        "reconciler_errors_total",
        "success",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected:?} is missing or in the wrong order:\n{printed}"));
        rest = after;
    }
}

#[test]
fn tour_names_a_missing_kubeconfig_in_its_error() {
    let output = run("tour", &["--kubeconfig", "no/such/file"]);
    assert!(!output.status.success());
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("no/such/file"), "{printed}");
}

#[test]
fn gateway_accepts_every_route_whose_parent_exists() {
    let output = run("gateway", &[]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
}

#[test]
fn leader_hands_over_when_it_is_stopped_and_is_replaced_when_it_crashes() {
    let output = run("leader", &[]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
    let mut rest = printed.as_ref();
    for expected in [
        "first handles price 1",
        "[+] leader election: standing by; first holds the lease default/shop-operator",
        "first handles price 2",
        "first has ended",
        "second handles price 3",
        "second has crashed",
        "third handles price 4",
        "third has ended",
        "success",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected:?} is missing or in the wrong order:\n{printed}"));
        rest = after;
    }
}

#[test]
fn tracing_shows_one_trace_from_the_event_to_the_retry() {
    let output = run("tracing", &[]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let traces: Vec<_> = printed.split("trace ").collect();
    let trace = traces
        .iter()
        .find(|trace| trace.contains("informer-event-add"));
    let mut rest = *trace.unwrap_or_else(|| panic!("no event in\n{printed}"));
    // The indent shows the parent: the retry is a sibling of the first calls.
    for (indent, expected) in [
        (
            2,
            "informer-event-add resource=configmaps object=default/web",
        ),
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
            .unwrap_or_else(|| panic!("{line:?} is missing or in the wrong order:\n{printed}"));
        rest = after;
    }
}

/// Rows: GA-12
#[test]
fn tracing_sends_its_traces_to_the_given_collector() {
    let collector = Collector::start();
    let output = run("tracing", &["--otlp", &collector.address]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
    assert!(printed.contains(&collector.address), "{printed}");
    // A slow run exports several times. Protobuf contains strings in plain text.
    let mut sent = String::new();
    for (path, body) in collector.got.try_iter() {
        let export = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
        assert_eq!(path, export);
        sent += &String::from_utf8_lossy(&body);
    }
    for name in [
        "shop-operator",
        "informer-event-add",
        "controller-event-add",
        "controller-retry",
        "order-goods",
    ] {
        assert!(sent.contains(name), "no {name} was sent");
    }
}

#[test]
fn tracing_reports_an_unreachable_collector() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    };
    let output = run("tracing", &["--otlp", &format!("http://{closed}")]);
    assert!(!output.status.success());
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        printed.contains(&format!("cannot send to http://{closed}")),
        "{printed}"
    );
}

/// The commands that `tour --serve` prints.
#[test]
fn kubectl_connects_to_a_tour_that_serves() {
    if Command::new("kubectl")
        .arg("version")
        .arg("--client")
        .output()
        .is_err()
    {
        println!("skipped: kubectl is not installed");
        return;
    }
    let mut served = Command::new(built("tour"))
        .arg("--serve")
        .stdout(Stdio::piped())
        .spawn()
        .map(KillOnDrop)
        .expect("tour runs");
    // Keep the pipe open until the end of the test: the example keeps printing.
    let mut printed = BufReader::new(served.0.stdout.take().expect("piped"));
    let mut kubeconfig = None;
    for line in printed.by_ref().lines() {
        let line = line.expect("text");
        if let Some((_, path)) = line.split_once("export KUBECONFIG=") {
            kubeconfig = Some(path.to_owned());
        }
        if line.contains("Press Ctrl-C to stop") {
            break;
        }
    }
    let kubeconfig = kubeconfig.expect("it prints the path of a kubeconfig");
    let kubectl = |arguments: &str| {
        let mut kubectl = Command::new("kubectl");
        kubectl
            .env("KUBECONFIG", &kubeconfig)
            .args(["-n", "tour"])
            .args(arguments.split(' '));
        kubectl
    };
    let output_of = |arguments: &str| {
        let output = kubectl(arguments).output().expect("kubectl runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    };

    let websites = output_of("get websites");
    assert!(
        websites.contains("shop.example") && websites.contains("Published"),
        "{websites}"
    );
    let described = output_of("describe website shop");
    assert!(
        described.contains("Host:") && described.contains("http://shop.example"),
        "{described}"
    );
    assert!(output_of("get configmap shop -o yaml").contains("<h1>Buy</h1>"));

    let mut watch = kubectl("get websites -w --output-watch-events")
        .stdout(Stdio::piped())
        .spawn()
        .map(KillOnDrop)
        .expect("kubectl runs");
    let mut seen = BufReader::new(watch.0.stdout.take().expect("piped")).lines();
    let mut until = |what: &str| {
        let found = seen.find(|line| line.as_ref().is_ok_and(|line| line.starts_with(what)));
        assert!(found.is_some(), "kubectl get -w ended before {what}");
    };
    until("ADDED");
    assert!(output_of("delete website shop").contains("deleted"));
    until("DELETED");
    assert!(
        output_of("get all,configmaps -o name").is_empty(),
        "the operator cleaned up"
    );
    _ = std::fs::remove_file(&kubeconfig);
}

/// A collector of traces over gRPC that accepts every request.
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
            // An empty message, and the status 0 (success).
            let ok = HeaderMap::from_iter([(
                HeaderName::from_static("grpc-status"),
                HeaderValue::from_static("0"),
            )]);
            let message = Full::new(Bytes::from_static(&[0; 5]));
            let answer = Response::builder()
                .header("content-type", "application/grpc")
                .body(message.with_trailers(async move { Some(Ok(ok)) }));
            Ok::<_, hyper::Error>(answer.expect("a response"))
        }
    });
    // Returns when the example closes the connection.
    _ = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// A process that is killed when this is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn watchers_and_reconcilers_shows_order_policies_and_metrics() {
    let output = run("watchers_and_reconcilers", &[]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
    let mut rest = printed.as_ref();
    for expected in [
        // Watchers in add order, then reconcilers in add order.
        "clerk    records book for Elm Street",
        "camera   photographs book",
        "packer   wraps book",
        "courier  delivers book to Elm Street, attempt 1",
        // The example's retry policy, and the state of the previous attempt.
        "courier  piano: attempt 1: the van is too small",
        "office   retry in 150ms",
        "courier  piano: attempt 2: the van is too small",
        // The example's dequeue policy.
        "office   keep the retry for piano: its address is the same",
        "courier  delivers piano to Hill Road, attempt",
        "office   drop the retry for harp: its address has changed",
        "courier  delivers harp to Garden Row, attempt",
        // A call that is not retried any more is reported, and repeated by `redrive`.
        "office   no more retries: aquarium: reconciler 1 (watchers_and_reconcilers::",
        "Courier) of parcels default/aquarium on CREATE",
        "you      find the dead letter default/aquarium",
        "courier  delivers aquarium to Dry Dock, attempt 2",
        "courier  fetches book back",
        // The scraped metrics.
        "The metrics at http://127.0.0.1:",
        "informer_events_total{controller=\"post\",event_type=\"CREATE\",kind=\"parcels\"} 4",
        "retries_exhausted_total{controller=\"post\",kind=\"parcels\"} 1",
        "pending_retries{controller=\"post\"} 0",
        "success",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected:?} is missing or in the wrong order:\n{printed}"));
        rest = after;
    }
}

fn run(example: &str, arguments: &[&str]) -> Output {
    let output = Command::new(built(example)).args(arguments).output();
    output.expect("the example runs")
}

/// Builds an example and returns its path.
fn built(example: &str) -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace", "--example", example])
        .status();
    assert!(
        built.expect("cargo runs").success(),
        "{example} does not build"
    );
    // This test binary is in `deps`, next to `examples`.
    let here = std::env::current_exe().expect("a path");
    let folder = here.ancestors().nth(2).expect("the folder of the profile");
    folder.join("examples").join(example)
}
