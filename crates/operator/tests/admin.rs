//! The pages of the admin server.

use std::{
    convert::Infallible,
    future::pending,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use prometheus::{IntCounter, Registry};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Barrier, Notify},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_apiserver::{ApiServer, Decision};
use windlass_controller::{InformerController, Runnable};
use windlass_informer::{Informer, ListWatch, Scripted};
use windlass_operator::{
    AddControllerError, AdminError, AdminServer, LeaderElection, Operator, OperatorBuilder,
    OperatorError, RouteError,
};

/// A running operator, and the address of its admin server.
struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    run: AbortOnDropHandle<Result<(), OperatorError>>,
}

/// A controller that ends when it is notified, not when it is stopped.
struct Stubborn(Arc<Notify>);

impl Runnable for Stubborn {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        "stubborn"
    }

    async fn run(&self, _: CancellationToken) -> Result<(), Infallible> {
        self.0.notified().await;
        Ok(())
    }
}

// === impl Running ===

impl Running {
    fn start(
        builder: OperatorBuilder,
        server: impl FnOnce(AdminServer) -> AdminServer,
        add: impl FnOnce(&Operator),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let operator = builder
            .admin_server(server(AdminServer::new(listener)))
            .build();
        add(&operator);
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            async move { operator.run_until(stop).await }
        });
        Self {
            address,
            stop,
            run: AbortOnDropHandle::new(run),
        }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        ask(self.address, "GET", path, "").await
    }

    /// Waits until the page has this status and contains `part`.
    async fn until(&self, path: &str, status: u16, part: &str) -> String {
        let mut page = (0, String::new());
        let wait = async {
            loop {
                page = self.get(path).await;
                if page.0 == status && page.1.contains(part) {
                    return;
                }
                // Between two requests: the port has no notification.
                sleep(Duration::from_millis(5)).await;
            }
        };
        let came = timeout(Duration::from_secs(30), wait).await;
        assert!(
            came.is_ok(),
            "timed out waiting for {part:?} in {path}: {page:?}"
        );
        page.1
    }

    async fn stop(self) {
        self.stop.cancel();
        self.run.await.expect("no panic").expect("no error");
    }
}

#[tokio::test]
async fn the_metrics_or_all_other_pages_can_be_turned_off() {
    let pages = ["/health", "/live", "/ready", "/version"];
    let version = |_| async { Response::new(Bytes::from("1.2.3")) };
    let with_route = |server: AdminServer| server.route("/version", version).expect("a new path");

    let without = |server: AdminServer| with_route(server).without_metrics();
    let running = Running::start(Operator::builder(), without, |_| {});
    for page in pages {
        assert_eq!(running.get(page).await.0, 200, "{page}");
    }
    let (status, text) = running.get("/metrics").await;
    assert_eq!(status, 404);
    assert!(
        text.contains("this port serves /live, /ready, /version"),
        "{text}"
    );
    running.stop().await;

    let only = |server: AdminServer| with_route(server).metrics_only();
    let running = Running::start(Operator::builder(), only, |_| {});
    assert_eq!(running.get("/metrics").await.0, 200);
    for page in pages {
        let (status, text) = running.get(page).await;
        assert_eq!(status, 404, "{page}");
        assert!(text.contains("this port serves /metrics"), "{text}");
    }
    running.stop().await;
}

/// Rows: BO-26
#[tokio::test]
async fn an_operator_is_ready_after_all_informers_have_synced_until_the_stop() {
    let (configs, source) = Scripted::<ConfigMap>::new();
    let (others, other) = Scripted::<ConfigMap>::new();
    let ends = Arc::new(Notify::new());
    let running = Running::start(
        Operator::builder(),
        |server| server,
        |operator| {
            for (name, source) in [("web", source), ("shop", other)] {
                let controller = InformerController::builder().name(name).build();
                let controller = controller.expect("valid settings");
                let informer = Informer::new(source);
                let configs = controller.kind("configs").expect("a new kind");
                controller.add_informer(&configs, &informer).expect("new");
                operator
                    .add_controller(controller)
                    .expect("the operator is not running");
            }
            let stubborn = Stubborn(Arc::clone(&ends));
            operator
                .add_controller(stubborn)
                .expect("the operator is not running");
        },
    );
    let page = running
        .until("/ready", 503, "[-] informer configs of web")
        .await;
    assert!(page.starts_with("not ok\n"), "{page}");
    assert!(page.contains("[-] informer configs of shop"), "{page}");

    configs.list([]).await.expect("it runs");
    let page = running
        .until(
            "/ready",
            503,
            "[+] informer configs of web: scripted: watching",
        )
        .await;
    assert!(page.contains("[-] informer configs of shop"), "{page}");
    others.list([]).await.expect("it runs");
    let page = running.until("/ready", 200, "ok\n").await;
    assert!(!page.contains("[-]"), "{page}");
    assert_eq!(running.get("/readyz").await, (200, page));

    running.stop.cancel();
    // During the drain the operator is not ready, but still live.
    let (status, page) = running.get("/ready").await;
    assert_eq!(status, 503);
    assert!(page.contains("[-] operator: is stopping"), "{page}");
    assert_eq!(running.get("/live").await, (200, "ok\n".to_owned()));

    ends.notify_one();
    let address = running.address;
    running.stop().await;
    assert!(TcpStream::connect(address).await.is_err(), "it is closed");
}

/// The page does not contain the namespace, because an informer does not know it.
#[tokio::test]
async fn an_informer_that_is_down_is_named_with_its_last_error() {
    let server = ApiServer::builder()
        .authorize(|request| match &*request.resource {
            "configmaps" => Decision::Deny,
            _ => Decision::Allow,
        })
        .start();
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let running = Running::start(
        Operator::builder(),
        |server| server,
        |operator| {
            let controller = InformerController::builder().name("web").build();
            let controller = controller.expect("valid settings");
            let informer = Informer::new(ListWatch::new(configs));
            let sites = controller.kind("sites").expect("a new kind");
            controller.add_informer(&sites, &informer).expect("new");
            operator
                .add_controller(controller)
                .expect("the operator is not running");
        },
    );
    let line = "[-] informer sites of web: configmaps in default: down, cannot watch configmaps: forbidden";
    let page = running.until("/ready", 503, line).await;
    assert!(page.contains("; its first list is not complete"), "{page}");
    running.stop().await;
}

/// The whole chain of causes: the last one says what to do.
#[tokio::test]
async fn an_informer_without_a_connection_is_named_with_the_cause() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", closed.local_addr().expect("an address"));
    drop(closed);
    let config = kube::Config::new(url.parse().expect("a URL"));
    let client = kube::Client::try_from(config).expect("a client");
    let configs: Api<ConfigMap> = Api::namespaced(client, "default");
    let running = Running::start(
        Operator::builder(),
        |server| server,
        |operator| {
            let controller = InformerController::builder().name("web").build();
            let controller = controller.expect("valid settings");
            let informer = Informer::new(ListWatch::new(configs));
            let sites = controller.kind("sites").expect("a new kind");
            controller.add_informer(&sites, &informer).expect("new");
            let added = operator.add_controller(controller);
            added.expect("the operator is not running");
        },
    );
    let page = running
        .until("/ready", 503, "configmaps in default: down, ")
        .await;
    assert!(page.contains("Connection refused"), "{page}");
    running.stop().await;
}

#[tokio::test]
async fn an_operator_is_live_from_the_start_on_all_paths_that_kubernetes_uses() {
    let running = Running::start(Operator::builder(), |server| server, |_| {});
    for path in ["/live", "/livez", "/healthz", "/ready?verbose", "/readyz"] {
        assert_eq!(running.get(path).await, (200, "ok\n".to_owned()), "{path}");
    }
    let (status, page) = running.get("/nowhere").await;
    assert_eq!((status, page.contains("/metrics")), (404, true), "{page}");
    assert_eq!(ask(running.address, "POST", "/ready", "").await.0, 405);
    assert_eq!(
        ask(running.address, "HEAD", "/ready", "").await,
        (200, String::new())
    );
    running.stop().await;
}

/// Rows: BO-26
#[tokio::test]
async fn metrics_are_those_of_the_operator_or_of_the_configured_registry() {
    let running = Running::start(
        Operator::builder(),
        |server| server,
        |operator| {
            let controller = InformerController::builder().name("web").build();
            let controller = controller.expect("valid settings");
            operator
                .add_controller(controller)
                .expect("the operator is not running");
        },
    );
    let (status, page) = running.get("/metrics").await;
    assert_eq!(status, 200);
    let series = "controller_runtime_max_concurrent_reconciles{controller=\"web\"} 16";
    assert!(page.contains(series), "{page}");
    running.stop().await;

    let registry = Registry::new();
    let counter = IntCounter::new("visits_total", "Visits.").expect("a name");
    registry.register(Box::new(counter.clone())).expect("new");
    let running = Running::start(
        Operator::builder(),
        |server| server.registry(registry),
        |_| {},
    );
    counter.inc();
    let (_, page) = running.get("/metrics").await;
    assert!(page.ends_with("visits_total 1\n"), "{page}");
    running.stop().await;
}

#[tokio::test]
async fn a_check_that_hangs_panics_or_fails_affects_only_its_own_line() {
    let running = Running::start(
        Operator::builder(),
        |server| {
            server
                .check_timeout(Duration::from_secs(1))
                .ready_check("hangs", pending::<Result<(), String>>)
                .ready_check("panics", || async {
                    panic!("test panic");
                    #[expect(unreachable_code, reason = "determines the type")]
                    Ok::<(), String>(())
                })
                .ready_check("fails", || async { Err::<(), _>("no\nconnection") })
                .ready_check("works", || async { Ok::<(), String>(()) })
        },
        |_| {},
    );
    for _ in 0..2 {
        let (status, page) = running.get("/ready").await;
        assert_eq!(status, 503);
        assert_eq!(
            page,
            "not ok\n\
             [-] hangs: timed out after 1s\n\
             [-] panics: panicked: test panic\n\
             [-] fails: no connection\n\
             [+] works: ok\n"
        );
    }
    assert_eq!(
        running.get("/live").await.0,
        200,
        "ready checks are not live checks"
    );
    running.stop().await;
}

/// The listener of `Listen::port`.
#[tokio::test]
async fn a_client_of_ipv4_is_on_this_machine_also_if_the_port_is_of_ipv6() {
    let Ok(listener) = TcpListener::bind("[::]:0") else {
        return;
    };
    let port = listener.local_addr().expect("an address").port();
    let server = AdminServer::new(listener).live_check("check", || async { Ok::<_, String>(()) });
    let operator = Operator::builder().admin_server(server).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let (status, page) = ask(address, "GET", "/live", "").await;
    assert!(status == 200 && page.contains("[+] check"), "{page}");
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

#[tokio::test]
async fn checks_run_concurrently() {
    let both = Arc::new(Barrier::new(2));
    let check = || {
        let both = Arc::clone(&both);
        move || {
            let both = Arc::clone(&both);
            async move {
                both.wait().await;
                Ok::<_, Infallible>(())
            }
        }
    };
    let (one, other) = (check(), check());
    let running = Running::start(
        Operator::builder(),
        |server| {
            let server = server.check_timeout(Duration::from_secs(20));
            server.live_check("one", one).live_check("other", other)
        },
        |_| {},
    );
    assert_eq!(
        running.get("/live").await,
        (200, "ok\n[+] one: ok\n[+] other: ok\n".to_owned())
    );
    running.stop().await;
}

/// Rows: BO-26
#[tokio::test]
async fn a_route_sends_its_response_and_a_panic_becomes_a_500() {
    let running = Running::start(
        Operator::builder(),
        |server| {
            server
                .route("/echo", |request: Request<Bytes>| async move {
                    let text = format!("{} {:?}", request.method(), request.body());
                    let mut answer = Response::new(Bytes::from(text));
                    *answer.status_mut() = http::StatusCode::ACCEPTED;
                    answer
                })
                .expect("a path")
                .route("/panic", |_: Request<Bytes>| async { panic!("test panic") })
                .expect("a path")
        },
        |_| {},
    );
    for _ in 0..2 {
        let answer = ask(running.address, "PUT", "/echo?a=b", "hello").await;
        assert_eq!(answer, (202, "PUT b\"hello\"".to_owned()));
        let (status, page) = running.get("/panic").await;
        assert_eq!((status, &*page), (500, "/panic panicked: test panic\n"));
    }
    let long = "x".repeat(2 * 1024 * 1024);
    assert_eq!(ask(running.address, "POST", "/echo", &long).await.0, 413);
    let (status, page) = running.get("/elsewhere").await;
    let pages = "not found; this port serves /live, /ready, /metrics, /echo, /panic\n";
    assert_eq!((status, &*page), (404, pages));
    running.stop().await;
}

#[test]
fn a_route_with_an_invalid_or_used_path_is_rejected() {
    let answer = |_: Request<Bytes>| async { Response::new(Bytes::new()) };
    let server = || {
        let server = AdminServer::new(([127, 0, 0, 1], 0));
        server.route("/here", answer).expect("a path")
    };
    for path in ["/here", "/ready", "/healthz", "/metrics"] {
        match server().route(path, answer) {
            Err(RouteError::Taken { path: taken }) => assert_eq!(taken, path),
            other => panic!("{other:?}"),
        }
    }
    for path in ["", "here", "/here?now"] {
        let refused = server().route(path, answer).expect_err("not a path");
        assert!(matches!(refused, RouteError::NoPath { .. }), "{refused}");
    }
}

#[tokio::test]
async fn an_admin_server_that_cannot_start_names_the_address() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let server = AdminServer::new(address);
    let operator = Operator::builder().admin_server(server).build();
    match operator.run_until(CancellationToken::new()).await {
        Err(OperatorError::Admin { source }) => {
            let text = source.to_string();
            assert!(text.contains(&address.to_string()), "{text}");
            assert!(matches!(source, AdminError::Bind { .. }), "{source}");
        }
        other => panic!("{other:?}"),
    }
    let again = operator.run_until(CancellationToken::new()).await;
    assert!(matches!(again, Err(OperatorError::AlreadyRan)), "{again:?}");

    let server = AdminServer::new(([127, 0, 0, 1], 0));
    let operator = Operator::builder().admin_server(server).build();
    let twice = || InformerController::builder().name("twice").build();
    let first = operator.add_controller(twice().expect("valid settings"));
    first.expect("the operator is not running");
    let second = operator.add_controller(twice().expect("valid settings"));
    assert!(
        matches!(second, Err(AddControllerError::NameTaken { .. })),
        "{second:?}"
    );
}

/// A rolling update waits until the standby is ready before it stops the leader.
#[tokio::test]
async fn a_standby_is_ready_and_a_replica_that_cannot_read_the_lease_is_not() {
    let server = ApiServer::new();
    let election = |identity| {
        let builder = LeaderElection::builder(server.client(), "default", "web");
        builder.identity(identity).build().expect("valid settings")
    };
    let start = |election| {
        let builder = Operator::builder().leader_election(election);
        Running::start(builder, |server| server, |_| {})
    };
    let first = start(election("first"));
    let line = "[+] leader election: leading, with the lease default/web";
    first.until("/ready", 200, line).await;
    let second = start(election("second"));
    let line = "[+] leader election: standing by; first holds the lease default/web";
    second.until("/ready", 200, line).await;
    first.stop().await;
    second.stop().await;

    let deaf = ApiServer::builder().authorize(|_| Decision::Deny).start();
    let election = LeaderElection::new(deaf.client(), "default", "web");
    let third = start(election.expect("names"));
    let line = "[-] leader election: cannot get the lease default/web: forbidden";
    let page = third.until("/ready", 503, line).await;
    let rule = "grant `get`, `create` and `update` on `leases` of the group `coordination.k8s.io`";
    assert!(page.contains(rule), "{page}");
    third.stop().await;
}

#[tokio::test]
async fn a_standby_is_not_ready_before_the_informers_of_each_replica() {
    let server = ApiServer::new();
    let (configs, source) = Scripted::<ConfigMap>::new();
    let mut source = Some(source);
    let mut start = |identity| {
        let election = LeaderElection::builder(server.client(), "default", "web");
        let election = election.identity(identity).build().expect("valid settings");
        let builder = Operator::builder().leader_election(election);
        Running::start(builder, AdminServer::diagnostics, |operator| {
            let Some(source) = source.take_if(|_| identity == "second") else {
                return;
            };
            let cache = InformerController::builder().name("cache").build();
            let cache = cache.expect("valid settings");
            let kind = cache.kind("configs").expect("a new kind");
            let informer = Informer::new(source);
            cache.add_informer(&kind, &informer).expect("new");
            operator.add_to_each_replica(cache).expect("a new name");
        })
    };
    let first = start("first");
    first.until("/ready", 200, "leading").await;
    let second = start("second");
    let line = "[-] informer configs of cache: ";
    let page = second.until("/ready", 503, line).await;
    assert!(!page.contains("leading, with"), "{page}");
    configs.list([]).await.expect("it runs");
    let page = second.until("/ready", 200, "standing by").await;
    assert!(page.contains("[+] informer configs of cache: "), "{page}");
    let page = second.until("/debug/windlass", 200, "cache").await;
    assert!(page.contains("configs"), "{page}");
    first.stop().await;
    second.stop().await;
}

/// The body of a request is text, of which a part may be missing or wrong.
#[tokio::test]
async fn a_body_that_is_not_as_announced_is_a_bad_request() {
    let running = Running::start(
        Operator::builder(),
        |server| {
            let answer = |_: Request<Bytes>| async { Response::new(Bytes::from("read")) };
            server.route("/echo", answer).expect("a path")
        },
        |_| {},
    );
    for (body, status) in [("3\r\nabc\r\n0\r\n\r\n", 200), ("no length\r\n", 400)] {
        let head = "POST /echo HTTP/1.1\r\nhost: here\r\nconnection: close\r\n";
        let request = format!("{head}transfer-encoding: chunked\r\n\r\n{body}");
        let mut stream = TcpStream::connect(running.address).await.expect("connects");
        let sent = stream.write_all(request.as_bytes()).await;
        sent.expect("the request is sent");
        let mut answer = String::new();
        let read = timeout(Duration::from_secs(30), stream.read_to_string(&mut answer));
        read.await.expect("a response").expect("text");
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{body:?}: {answer:?}");
    }
    running.stop().await;
}

/// The response to a request that began before the stop is sent after it, while new connections
/// are refused.
#[tokio::test]
async fn a_stop_waits_for_the_response_in_progress() {
    let (begun, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let running = Running::start(
        Operator::builder(),
        |server| {
            let (begun, may_end) = (Arc::clone(&begun), Arc::clone(&may_end));
            let answer = move |_: Request<Bytes>| {
                let (begun, may_end) = (Arc::clone(&begun), Arc::clone(&may_end));
                async move {
                    begun.notify_one();
                    may_end.notified().await;
                    Response::new(Bytes::from("complete"))
                }
            };
            server.route("/slow", answer).expect("a path")
        },
        |_| {},
    );
    let address = running.address;
    let asked = tokio::spawn(async move { ask(address, "GET", "/slow", "").await });
    begun.notified().await;
    let stopped = tokio::spawn(running.stop());
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            // Polls: no event shows that the port is closed.
            sleep(Duration::from_millis(1)).await;
        }
    };
    let refused = timeout(Duration::from_secs(30), refused).await;
    refused.expect("the port is closed");
    may_end.notify_one();
    let answer = asked.await.expect("a response");
    assert_eq!(answer, (200, "complete".to_owned()));
    stopped.await.expect("no panic");
}

/// Sends a request, and reads the response.
async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream
        .write_all(head.as_bytes())
        .await
        .expect("the request is sent");
    // The server may close the connection before it has read all.
    _ = stream.write_all(body.as_bytes()).await;
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(30), stream.read_to_end(&mut answer));
    _ = read.await.expect("a response");
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a response");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.expect("a status"), body.to_owned())
}
